//! What is asked for: a target, a load, and the steps that vary it.

use serde::{Deserialize, Deserializer, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::experiment::Effort;
use crate::units::{Nanos, Rate};

/// Everything that one command sets out to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// What the run is called: part of its folder's name.
    pub name: String,
    /// The command that made it: `run`, `ramp`, `find`, `study`.
    pub command: String,
    /// The URL under load.
    pub target: Target,
    /// Loads in the order in which they run, one for each step.
    pub steps: Vec<StepPlan>,
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// Processors the workers are pinned to, in turn; empty: not pinned.
    pub client_cpus: Vec<u32>,
    /// Processors a subject of ours is pinned to; empty: not pinned.
    pub server_cpus: Vec<u32>,
    /// The command of a subject that was started for this run.
    pub subject: Option<String>,
    /// The command of a foreign driver that produces the load instead of the engine.
    pub driver: Option<String>,
    /// The link that was laid between client and server: `1gbit,mtu=1500`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// How much was to be proved, where something was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The study that it is of, where it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<StudyAsked>,
}

/// The study that a run is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyAsked {
    /// Fingerprint of its text, as the run's folder has it.
    pub fingerprint: String,
    /// Whether it came with the tool.
    pub built_in: bool,
    /// Whether steps were taken over from runs whose claims asked something else: its own were then written with these
    /// in sight.
    pub asked_otherwise: bool,
}

/// One load to be held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepPlan {
    /// What the step is called in tables: `/simple c=100 d=100`.
    pub name: String,
    /// The URL, where it differs between steps.
    pub target: Target,
    /// The load.
    pub load: Load,
}

/// The URL under load, taken apart. Secrets are kept out: `url` is redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Target {
    /// The URL as shown: user information and secret-looking query values are `***`.
    pub url: String,
    /// `http`, `https`, `grpc`, `grpcs`, `tcp`, `tcps`.
    pub scheme: String,
    /// Host as written.
    pub host: String,
    /// Port, given or by default of the scheme.
    pub port: u16,
    /// Path without query: what tables show.
    pub path: String,
    /// The address that the load goes to, such as `127.0.0.1:8083`.
    pub address: String,
    /// What was agreed on where it is encrypted, by one handshake before the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// Encryption between client and server, as agreed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tls {
    /// `TLSv1.3`.
    pub version: String,
    /// `TLS13_AES_256_GCM_SHA384`.
    pub cipher_suite: String,
    /// The group of the exchange of keys, such as `X25519`.
    pub group: Option<String>,
    /// The protocol inside, by ALPN.
    pub alpn: Option<String>,
    /// Whether the server's certificate had to be good.
    pub verified: bool,
    /// Whether connections may resume what earlier ones agreed on.
    pub resumes: bool,
    /// Whether the client showed a certificate of its own.
    pub client_certificate: bool,
}

/// How much is asked of the target, and in which pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Connections over all workers.
    pub connections: u32,
    /// Requests in flight on one connection at the most (pipelining depth or streams).
    pub in_flight_per_connection: u32,
    /// Requests in flight over all connections at the most: the others wait
    /// in turn. `None`: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Engine threads.
    pub workers: u32,
    /// When requests start.
    pub arrival: Arrival,
    /// Not measured at the start.
    pub warmup: Nanos,
    /// When the measured window ends.
    pub stop: Stop,
    /// Total deadline of a request, from its intended instant. An answer that comes later is a timeout.
    pub timeout: Nanos,
    /// How long answers are waited for at most, once the window is over, to requests that are in flight then.
    #[serde(default = "drain_of_old_records")]
    pub drain: Nanos,
    /// A new connection for each request.
    pub connection_per_request: bool,
    /// The request's method; in framed TCP how messages are framed, such as `u32be`; in gRPC
    /// the kind of call, such as `unary`.
    pub method: String,
    /// Names of the request's extra header fields or metadata (values may be secrets).
    pub header_names: Vec<String>,
    /// Bytes of the request's body, or of its messages.
    pub body_bytes: u64,
    /// Which content-coded bodies are decoded. In records of earlier versions `inflate`, true
    /// or false.
    #[serde(default, alias = "inflate", deserialize_with = "decode_of")]
    pub decode: Decode,
    /// Whether each answer is handled as it comes. Else answers that queue at the server anyway may
    /// wait for one another at the client.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_batching: bool,
}

/// How long answers are waited for after the window where nothing else is asked for.
pub const DRAIN_DEFAULT: Nanos = Nanos(1_000_000_000);

fn drain_of_old_records() -> Nanos {
    DRAIN_DEFAULT
}

/// Which content-coded bodies the engine decodes and verifies: gzip, deflate, br, zstd.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, VariantArray, IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Decode {
    /// None: what stands in a body is not looked at.
    #[default]
    None,
    /// The first coded body of each connection, until one is sound.
    Check,
    /// All of them, as a client does that uses what it is sent.
    Inflate,
}

impl Decode {
    /// Every choice.
    pub const ALL: [Decode; Decode::VARIANTS.len()] = *Decode::VARIANTS.first_chunk().unwrap();

    /// As it is asked for: `none`, `check`, `inflate`.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// Reads what is decoded, or whether anything is, as records said it once.
fn decode_of<'de, D: Deserializer<'de>>(source: D) -> Result<Decode, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Said {
        Which(Decode),
        Whether(bool),
    }
    Ok(match Said::deserialize(source)? {
        Said::Which(decode) => decode,
        Said::Whether(true) => Decode::Inflate,
        Said::Whether(false) => Decode::None,
    })
}

impl Load {
    /// A closed loop of one worker, with a GET at a time on each connection, for a second: what other loads differ from.
    pub fn closed(connections: u32) -> Load {
        Load {
            connections,
            in_flight_per_connection: 1,
            max_in_flight: None,
            workers: 1,
            arrival: Arrival::Closed { think: Nanos(0) },
            warmup: Nanos(0),
            stop: Stop {
                after: Nanos::SECOND,
                requests: None,
            },
            timeout: Nanos::SECOND,
            drain: DRAIN_DEFAULT,
            connection_per_request: false,
            method: "GET".to_owned(),
            header_names: Vec::new(),
            body_bytes: 0,
            decode: Decode::None,
            no_batching: false,
        }
    }

    /// Requests that are wanted at a time: each is in flight, or waits for room.
    pub fn wanted_max(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.in_flight_per_connection)
    }

    /// Requests in flight at the most.
    pub fn in_flight_bound(&self) -> u64 {
        let bound = self.max_in_flight.map_or(u64::MAX, u64::from);
        self.wanted_max().min(bound)
    }
}

/// When requests start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "model", rename_all = "kebab-case")]
pub enum Arrival {
    /// Closed loop: the next one as soon as an answer makes room, after a pause.
    Closed {
        /// The pause between an answer and the next request.
        think: Nanos,
    },
    /// Open loop, evenly spaced.
    Constant {
        /// Requests per second over all workers.
        rate: Rate,
    },
    /// Open loop, exponential gaps.
    Poisson {
        /// Mean requests per second over all workers.
        rate: Rate,
    },
    /// Open loop, the rate growing linearly from the start of the warm-up to the end.
    Ramp {
        /// Requests per second at the start.
        from: Rate,
        /// Requests per second at the end.
        to: Rate,
        /// How long the growth takes; the last rate holds afterwards.
        over: Nanos,
    },
    /// Open loop, as it was logged.
    Replay {
        /// Requests of the log.
        requests: u64,
        /// From the first of them to the last, as they are sent.
        over: Nanos,
        /// How much faster than they were logged.
        speed: f64,
        /// Whether it begins anew when it has ended.
        again: bool,
    },
}

impl Arrival {
    /// Whether requests start by the clock, whatever the answers do.
    pub fn is_open(&self) -> bool {
        !matches!(self, Arrival::Closed { .. })
    }

    /// Whether requests start neither all at once nor never.
    pub fn is_sound(&self) -> bool {
        const RATE_MAX: f64 = 1e9;
        let is_rate = |rate: f64| rate > 0.0 && rate <= RATE_MAX;
        match self {
            Arrival::Closed { .. } => true,
            Arrival::Constant { rate } | Arrival::Poisson { rate } => is_rate(rate.0),
            Arrival::Ramp { from, to, .. } => {
                (from.0 == 0.0 || is_rate(from.0)) && (to.0 == 0.0 || is_rate(to.0))
            }
            Arrival::Replay { speed, .. } => is_rate(*speed),
        }
    }
}

/// When the measured window ends: the first of the two that is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stop {
    /// Length of the measured window; with a count, the longest it may take.
    pub after: Nanos,
    /// Requests to be made in all workers: after the warm-up, if there is one.
    pub requests: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decoded_is_read_from_records_of_any_age() {
        let load = Load {
            decode: Decode::Check,
            ..Load::closed(1)
        };
        let text = serde_json::to_string(&load).unwrap();
        let said = r#""decode":"check""#;
        assert!(text.contains(said), "{text}");
        for (said_once, decode) in [
            (said, Decode::Check),
            (r#""decode":"none""#, Decode::None),
            (r#""decode":"inflate""#, Decode::Inflate),
            (r#""inflate":true"#, Decode::Inflate),
            (r#""inflate":false"#, Decode::None),
        ] {
            let read: Load = serde_json::from_str(&text.replace(said, said_once)).unwrap();
            assert_eq!(
                read,
                Load {
                    decode,
                    ..load.clone()
                },
                "{said_once}"
            );
        }
        let unsaid = text.replace(&format!(",{said}"), "");
        let read: Load = serde_json::from_str(&unsaid).unwrap();
        assert_eq!(read.decode, Decode::None);
        assert!(serde_json::from_str::<Load>(&text.replace("check", "all")).is_err());
    }
}
