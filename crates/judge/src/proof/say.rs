//! The words of a proved verdict.

use wallfinder_model::Wall;
use wallfinder_model::experiment::Squeeze;

use super::claims::Case;
use super::pairs::Dose;
use super::readings::Reading;
use crate::words::{capital, percent};

/// What is taken away, as a reader would say it.
pub(super) const fn what(squeeze: Squeeze) -> &'static str {
    match squeeze {
        Squeeze::ServerSpeed => "the server's processor speed",
        Squeeze::ServerCapacity => "the server's processor time",
        Squeeze::ClientSpeed => "the load generator's processor speed",
        Squeeze::ClientCapacity => "the load generator's processor time",
        Squeeze::Downlink => "the downlink",
        Squeeze::Uplink => "the uplink",
        Squeeze::InFlight | Squeeze::MoreInFlight => "the requests in flight",
        Squeeze::ThinkTime => "a pause before each request",
        Squeeze::OfferedLoad => "the offered load",
        Squeeze::BackendSpeed => "the backend's processor speed",
    }
}

/// `Take 20 % of the downlink away and 20 % of the throughput goes`.
pub(super) fn moved(reading: &Reading) -> String {
    let dose = match (reading.bent, reading.main) {
        (false, Some(_)) => Dose::Main,
        _ => Dose::Small,
    };
    let own: Vec<f64> = reading
        .pairs
        .iter()
        .filter(|pair| pair.dose == dose)
        .map(|pair| pair.x)
        .collect();
    let usual = match reading.squeeze {
        Squeeze::MoreInFlight => 1.25f64,
        _ => 0.8,
    };
    let x = crate::finite::median(&own).unwrap_or(usual.ln());
    let lost = 1.0 - (x * reading.measured().value).exp();
    let goes = if lost < 0.005 {
        "none".to_owned()
    } else {
        percent(lost)
    };
    if reading.squeeze == Squeeze::MoreInFlight {
        let won = (x * reading.local.value).exp() - 1.0;
        let comes = if won < 0.005 {
            "nothing".to_owned()
        } else {
            percent(won)
        };
        let added = percent(x.exp() - 1.0);
        return format!("Put {added} more in flight and {comes} is gained");
    }
    if reading.squeeze == Squeeze::ThinkTime {
        return format!(
            "Add a pause of {} of the response time before each request and {goes} of the throughput goes",
            percent((-x).exp() - 1.0)
        );
    }
    format!(
        "Take {} of {} away and {goes} of the throughput goes",
        percent(1.0 - x.exp()),
        what(reading.squeeze)
    )
}

/// Where an elasticity certainly lies below this, throughput rose under the squeeze.
pub(super) const RISES: f64 = -0.1;

/// What the other squeezes did, as the end of a sentence about this one.
pub(super) fn rest(case: &Case, but: &[Squeeze]) -> String {
    let others: Vec<&Reading> = case
        .readings
        .iter()
        .filter(|reading| !but.contains(&reading.squeeze))
        .collect();
    let moving: Vec<String> = others
        .iter()
        .filter(|reading| !reading.slack())
        .map(|reading| {
            format!(
                "{} reads {:.2}",
                reading.squeeze.label(),
                reading.local.value.max(0.0)
            )
        })
        .collect();
    // What throughput rose under is told apart.
    let rises = others.iter().any(|reading| reading.record().high < RISES);
    match (others.is_empty(), moving.is_empty()) {
        (true, _) => "no other squeeze was in reach".to_owned(),
        (false, true) if rises => "nothing else that was squeezed costs any".to_owned(),
        (false, true) => "nothing else that was squeezed moves it".to_owned(),
        (false, false) => format!("of the others, {}", join(&moving)),
    }
}

/// `the load generator's CPU, too little in flight or the downlink`: what certainly is not.
pub(super) fn ruled_out(case: &Case) -> Vec<&'static str> {
    let walls = [
        (Squeeze::ServerSpeed, Wall::ServerCpu),
        (Squeeze::ClientSpeed, Wall::ClientCpu),
        (Squeeze::Downlink, Wall::Downlink),
        (Squeeze::Uplink, Wall::Uplink),
        (Squeeze::OfferedLoad, Wall::OfferedLoad),
        (Squeeze::BackendSpeed, Wall::Backend),
    ];
    let mut out: Vec<&'static str> = walls
        .into_iter()
        .filter(|(squeeze, _)| case.readings.get(*squeeze).is_some_and(Reading::excluded))
        .map(|(_, wall)| wall.words())
        .collect();
    if case.readings.in_flight().is_some_and(Reading::excluded) {
        out.push(Wall::Concurrency.words());
    }
    out
}

/// `a, b and c`.
pub(super) fn join<S: AsRef<str>>(parts: &[S]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", most.join(", "), last.as_ref())
        }
    }
}

/// `Not the load generator's CPU and not too little in flight: ...`.
pub(super) fn not_these(out: &[&'static str]) -> Option<String> {
    let parts: Vec<String> = out.iter().map(|words| format!("not {words}")).collect();
    (!parts.is_empty()).then(|| capital(&join(&parts)))
}
