//! The ceiling of the engine's workers, measured once for a load on a machine and kept for the runs after it.
//!
//! ```text
//!  load, answer, tool, machine ─► key ─► kept, younger than AGE_MAX, the processors as fast as then? ─► that one
//!                                           └─ no ─► measured against a null server, and kept
//! ```
//!
//! To measure it costs as much client CPU as so much of the load would. A processor of a shared machine changes its speed, so what
//! was measured at another pace is not used. Under TLS nothing is kept: what a record costs depends on what was agreed on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};
use wallfinder_engine::{EngineError, IoChoice, StepSpec, Typical};
use wallfinder_hosts::ClientHost;
use wallfinder_model::record::Ceiling;
use wallfinder_model::{Arrival, Nanos, Stop};
use wallfinder_probe::reference_loop;
use wallfinder_store::Cache;
use wallfinder_sys::clock;
use wallfinder_wire::Exchange;

const FILE: &str = "ceilings.json";
/// A kept one is used for so long.
const AGE_MAX_S: u64 = 6 * 3600;
/// It is used while the processors are as fast as they were, within this, in ln of time.
const PACE_OFF_MAX: f64 = 0.1;
/// Ceilings kept, the youngest of them.
const KEPT_MAX: usize = 64;
/// Answers whose sizes differ by less cost the workers the same, in ln of bytes.
const SIZES_ALIKE: f64 = 0.05;
/// Bytes of an answer that cost the workers as much as its size does not tell.
const BYTES_OF_NO_SIZE: f64 = 256.0;

/// How the ceiling is told.
#[derive(Debug, Clone)]
pub struct Calibration {
    long: Nanos,
    /// Whether one that was kept will do.
    kept_will_do: bool,
}

impl Calibration {
    /// Measured for so long, whatever was measured before.
    pub const fn anew(long: Nanos) -> Calibration {
        Calibration {
            long,
            kept_will_do: false,
        }
    }

    /// One that was kept is taken, and a measured one is kept. Workers need a moment to open many connections.
    pub const fn usual(connections: u32) -> Calibration {
        let long = match connections {
            0..=500 => Nanos::from_millis(150),
            _ => Nanos::from_millis(600),
        };
        Calibration {
            long,
            kept_will_do: true,
        }
    }

    pub(crate) fn ceiling(
        &self,
        client: &dyn ClientHost,
        spec: &StepSpec,
        typical: Typical,
        server_cpu: Option<u32>,
    ) -> Result<Ceiling, EngineError> {
        // What is kept here is of this machine.
        let may_be_kept = client.name().is_none() && spec.tls.is_none();
        let place = match self.kept_will_do && may_be_kept {
            true => Place::of(spec, typical, server_cpu),
            false => None,
        };
        if let Some(ceiling) = place.as_ref().and_then(Place::ceiling) {
            tracing::info!(
                throughput = ceiling.throughput.round(),
                age_s = ceiling.age_s,
                "calibration is taken from the cache"
            );
            return Ok(ceiling);
        }
        let ceiling = client.calibrate(spec, typical, server_cpu, self.long)?;
        tracing::info!(
            throughput = ceiling.throughput.round(),
            kept = place.is_some(),
            "calibration is measured"
        );
        if let Some(place) = place {
            place.keep(ceiling.clone());
        }
        Ok(ceiling)
    }
}

/// Where the ceiling of a load is kept, or will be.
struct Place {
    cache: Cache,
    kept: Kept,
    key: String,
    pace_ns: f64,
    now_s: u64,
}

impl Place {
    fn of(spec: &StepSpec, typical: Typical, server_cpu: Option<u32>) -> Option<Place> {
        let cache = Cache::of_user()?;
        let now_s = clock::realtime_ns() / 1_000_000_000;
        Some(Place {
            kept: Kept::of(cache.read(FILE).as_deref(), machine()?, now_s),
            cache,
            key: key(spec, typical, server_cpu),
            pace_ns: reference_loop::pace_ns(spec.cpus.first().copied())?,
            now_s,
        })
    }

    fn ceiling(&self) -> Option<Ceiling> {
        self.kept.get(&self.key, self.pace_ns, self.now_s)
    }

    fn keep(mut self, ceiling: Ceiling) {
        let entry = Entry {
            at_s: self.now_s,
            pace_ns: self.pace_ns,
            ceiling,
        };
        self.kept.put(self.key, entry);
        self.cache.write(FILE, &self.kept.text());
    }
}

/// The tool and the machine, until it boots again: what was measured by others is not compared.
fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let tool = fs::metadata(std::env::current_exe().ok()?).ok()?;
    Some(format!(
        "{} {} {}.{}",
        boot.trim(),
        tool.len(),
        tool.mtime(),
        tool.mtime_nsec()
    ))
}

/// All that the workers' cost depends on. It holds sizes of what is asked, and none of its text.
fn key(spec: &StepSpec, typical: Typical, server_cpu: Option<u32>) -> String {
    let mut load = spec.load.clone();
    load.arrival = Arrival::Closed { think: Nanos(0) };
    (load.warmup, load.drain, load.timeout) = (Nanos(0), Nanos(0), Nanos(0));
    load.stop = Stop {
        after: Nanos(0),
        requests: None,
    };
    load.header_names = Vec::new();
    let fields = |of: &[(String, String)]| {
        of.iter()
            .map(|(name, value)| name.len() + value.len())
            .sum::<usize>()
    };
    let asked = match &spec.request {
        Exchange::Http1(asked) | Exchange::Http2(asked) => format!(
            "{} {} {} {}",
            matches!(spec.request, Exchange::Http2(_)),
            asked.target.len(),
            fields(&asked.headers),
            asked.body.len()
        ),
        // Its ceiling is that of its most common kind.
        Exchange::Mix(mix) => {
            let weights = mix.weights();
            let most = mix
                .kinds
                .iter()
                .zip(weights)
                .max_by_key(|(_, weight)| *weight);
            let lengths = most.map(|(kind, _)| {
                let texts = kind.request.texts();
                texts
                    .map(|text| format!("{text:?}").len())
                    .collect::<Vec<usize>>()
            });
            let looks = mix.looks_into_bodies();
            format!("{:?} {lengths:?} {looks}", mix.protocol)
        }
        Exchange::Framed(asked) => format!("{:?} {}", asked.format, asked.message.len()),
        Exchange::Grpc(asked) => format!(
            "{:?} {} {:?}",
            asked.kind,
            fields(&asked.metadata),
            asked.messages.iter().map(Vec::len).collect::<Vec<usize>>()
        ),
    };
    let io = match spec.io {
        IoChoice::Auto => "auto",
        IoChoice::Uring => "uring",
        IoChoice::Epoll => "epoll",
    };
    let size = (typical.body_bytes as f64 + BYTES_OF_NO_SIZE).ln() / SIZES_ALIKE;
    format!(
        "{load:?} {asked} {io} on {:?}, null server on {server_cpu:?}, answers {size:.0} {} {}",
        spec.cpus, typical.messages, typical.closes
    )
}

/// What one run measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    at_s: u64,
    /// CPU time of a fixed piece of work then.
    pace_ns: f64,
    ceiling: Ceiling,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    machine: String,
    ceilings: BTreeMap<String, Entry>,
}

impl Kept {
    /// Those that this machine and tool measured not long ago.
    fn of(text: Option<&str>, machine: String, now_s: u64) -> Kept {
        let read = text.and_then(|text| serde_json::from_str::<Kept>(text).ok());
        let mut ceilings = match read {
            Some(kept) if kept.machine == machine => kept.ceilings,
            _ => BTreeMap::new(),
        };
        ceilings.retain(|_, entry| entry.at_s <= now_s && now_s - entry.at_s <= AGE_MAX_S);
        Kept { machine, ceilings }
    }

    fn get(&self, key: &str, pace_ns: f64, now_s: u64) -> Option<Ceiling> {
        let entry = self.ceilings.get(key)?;
        let is_as_fast = (entry.pace_ns / pace_ns).ln().abs() <= PACE_OFF_MAX;
        let age_s = now_s - entry.at_s;
        is_as_fast.then(|| Ceiling {
            age_s: Some(age_s),
            ..entry.ceiling.clone()
        })
    }

    fn put(&mut self, key: String, entry: Entry) {
        self.ceilings.insert(key, entry);
        while self.ceilings.len() > KEPT_MAX {
            let oldest = self.ceilings.iter().min_by_key(|(_, entry)| entry.at_s);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.ceilings.remove(&oldest);
        }
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at_s: u64, pace_ns: f64) -> Entry {
        let ceiling = Ceiling {
            throughput: 1e6,
            workers_saturated: true,
            cpu_per_request_ns: 1e3,
            driven: 1e6,
            age_s: None,
            host: None,
            of_hosts: Vec::new(),
        };
        Entry {
            at_s,
            pace_ns,
            ceiling,
        }
    }

    fn kept(entries: &[(&str, Entry)]) -> Kept {
        let mut kept = Kept::of(None, "here".to_owned(), 0);
        for (key, entry) in entries {
            kept.put((*key).to_owned(), entry.clone());
        }
        kept
    }

    #[test]
    fn a_ceiling_is_used_again_on_this_machine_at_this_pace_for_some_hours() {
        let text = kept(&[("load", entry(1_000, 12_000.0))]).text();
        let again = |machine: &str, now_s| Kept::of(Some(&text), machine.to_owned(), now_s);
        let found = again("here", 1_060).get("load", 12_500.0, 1_060);
        assert_eq!(found.map(|ceiling| ceiling.age_s), Some(Some(60)));
        assert_eq!(
            again("here", 1_060).get("load", 14_000.0, 1_060),
            None,
            "slower now"
        );
        assert_eq!(
            again("here", 1_060).get("load", 10_000.0, 1_060),
            None,
            "faster now"
        );
        assert_eq!(again("here", 1_060).get("other", 12_000.0, 1_060), None);
        assert_eq!(again("there", 1_060).get("load", 12_000.0, 1_060), None);
        let late_s = 1_001 + AGE_MAX_S;
        assert_eq!(again("here", late_s).get("load", 12_000.0, late_s), None);
        assert_eq!(
            again("here", 999).get("load", 12_000.0, 999),
            None,
            "the clock went back"
        );
    }

    #[test]
    fn what_is_no_cache_is_as_good_as_none() {
        for text in [
            "",
            "{",
            "[]",
            "{\"machine\": \"here\"}",
            "{\"machine\": 1, \"ceilings\": {}}",
        ] {
            assert!(
                Kept::of(Some(text), "here".to_owned(), 1)
                    .ceilings
                    .is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn the_youngest_are_kept() {
        let mut kept = kept(&[]);
        for at_s in 0..100 {
            kept.put(format!("load {at_s}"), entry(at_s, 1.0));
        }
        assert_eq!(kept.ceilings.len(), KEPT_MAX);
        assert!(
            kept.ceilings
                .values()
                .all(|entry| entry.at_s >= 100 - KEPT_MAX as u64)
        );
    }
}
