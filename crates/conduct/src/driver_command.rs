//! The command line that makes a foreign load generator hold a given load.
//!
//! What each tool can hold differs; what it cannot is an error with the reason, never a
//! load that is only nearly the one asked for.

use std::path::Path;

use wallfinder_model::{Arrival, Load};

/// Pipelining for wrk: the request, repeated. wrk counts the answers by itself.
const WRK_PIPELINE: &str = "\
init = function(args)
  local depth = tonumber(args[1])
  local one = wrk.format()
  local all = {}
  for i = 1, depth do all[i] = one end
  batch = table.concat(all)
end
request = function() return batch end
";

/// The command for `program`, as a shell splits words, with `{url}` for the target.
/// `arguments` are added before the URL; `scratch` is a folder for what a tool needs as a
/// file.
pub fn driver_command(
    program: &str,
    arguments: &[String],
    load: &Load,
    scratch: &Path,
) -> Result<String, String> {
    let (connections, depth) = (load.connections, load.in_flight_per_connection);
    let seconds = (load.stop.after.as_secs_f64() + load.warmup.as_secs_f64())
        .ceil()
        .max(1.0);
    let Arrival::Closed { think } = load.arrival else {
        return Err(format!("{program} is run as a closed loop alone"));
    };
    if think.0 > 0 {
        return Err(format!("{program} knows no think time"));
    }
    let name = program.rsplit('/').next().unwrap_or(program);
    let more = wallfinder_stage::command::join(arguments);
    match name {
        "autocannon" => Ok(format!(
            "{program} -c {connections} -p {depth} -d {seconds} {more} {{url}}"
        )),
        "wrk" if depth == 1 => Ok(format!(
            "{program} -t1 -c{connections} -d{seconds}s --latency {more} {{url}}"
        )),
        "wrk" => {
            let script = scratch.join("wrk-pipeline.lua");
            std::fs::write(&script, WRK_PIPELINE)
                .map_err(|error| format!("{} cannot be written: {error}", script.display()))?;
            let script = wallfinder_stage::command::join(&[script.display().to_string()]);
            Ok(format!(
                "{program} -t1 -c{connections} -d{seconds}s --latency -s {script} {more} {{url}} -- {depth}"
            ))
        }
        "h2load" => Ok(format!(
            "{program} --h1 -t1 -c{connections} -m{depth} -D{seconds} {more} {{url}}"
        )),
        "oha" if depth == 1 => Ok(format!(
            "{program} --no-tui -c {connections} -z {seconds}s {more} {{url}}"
        )),
        "oha" => Err("oha does not pipeline".to_owned()),
        "echo-client" if depth > 1 && arguments.first().is_none_or(|word| word != "grpc") => Err(
            "echo-client has one request at a time on a connection, except over gRPC".to_owned(),
        ),
        "echo-client" => {
            let clients = connections.saturating_mul(depth);
            let stop = match load.stop.requests {
                Some(requests) => {
                    format!(
                        "--requests {}",
                        requests.div_ceil(u64::from(clients.max(1)))
                    )
                }
                None => format!("--duration {seconds}s"),
            };
            let sharing = match depth {
                1 => String::new(),
                depth => format!("--clients-per-channel {depth}"),
            };
            Ok(format!(
                "{program} {more} --clients {clients} {sharing} {stop} {{url}}"
            ))
        }
        _ => Err(format!(
            "how to make {program} hold a given load is not known; name it with --driver"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wallfinder_model::{Decode, Nanos, Rate, Stop};

    fn load(depth: u32) -> Load {
        Load {
            connections: 50,
            in_flight_per_connection: depth,
            permits: None,
            lanes: 1,
            arrival: Arrival::Closed { think: Nanos(0) },
            warmup: Nanos::from_millis(500),
            stop: Stop {
                after: Nanos::from_secs(3),
                requests: None,
            },
            timeout: Nanos::SECOND,
            connection_per_request: false,
            method: "GET".into(),
            header_names: Vec::new(),
            body_bytes: 0,
            decode: Decode::None,
        }
    }

    #[test]
    fn each_tool_is_told_the_same_load() {
        let scratch = std::env::temp_dir();
        let command = |program: &str, depth| driver_command(program, &[], &load(depth), &scratch);
        for (program, depth) in [("autocannon", 100), ("h2load", 100), ("wrk", 1), ("oha", 1)] {
            let command = command(program, depth).unwrap();
            let spec = wallfinder_stage::driver::DriverSpec::parse(&command).unwrap();
            let understood = spec.load();
            assert_eq!(understood.connections, 50, "{command}");
            assert_eq!(understood.in_flight_per_connection, depth, "{command}");
            assert_eq!(understood.stop.after, Nanos::from_secs(4), "{command}");
        }
        assert!(command("oha", 2).is_err());
        let of_echo = |protocol: &str, load: &Load| {
            let arguments = [protocol.to_owned()];
            let command = driver_command("echo-client", &arguments, load, &scratch)?;
            let spec = wallfinder_stage::driver::DriverSpec::parse(&command).unwrap();
            let told = spec.load();
            let essence = (told.connections, told.in_flight_per_connection, told.stop);
            Ok::<_, String>(essence)
        };
        let four_seconds = Stop {
            after: Nanos::from_secs(4),
            requests: None,
        };
        assert_eq!(of_echo("tcp", &load(1)), Ok((50, 1, four_seconds)));
        assert_eq!(of_echo("grpc", &load(8)), Ok((50, 8, four_seconds)));
        assert!(of_echo("rest", &load(8)).is_err());
        let mut counted = load(1);
        counted.stop.requests = Some(50_000);
        let told = of_echo("rest", &counted).unwrap().2;
        assert_eq!((told.requests, told.after), (Some(50_000), Nanos(0)));
        assert!(command("curl", 1).is_err());
        let mut open = load(1);
        open.arrival = Arrival::Constant { rate: Rate(5.0) };
        assert!(driver_command("wrk", &[], &open, &scratch).is_err());
    }
}
