//! The flags. Parsed and checked here, before anything is touched.

use std::net::IpAddr;

/// What `--help` prints.
pub const USAGE: &str = "\
Usage: knownwall [flags]

Answers every HTTP/1.1 request, whatever its path; its wall is dialled in. A path has costs of its own, one behind the
other: /spin/T microseconds of CPU work, /lock/T of sleep under the lock, /wait/T as for a backend, /bytes/N of its answer;
/cached/T of CPU work where the one cache does not have it, /evict/1 empties that.

  --host ADDRESS            where to listen (default 127.0.0.1)
  --port N                  0 takes a free one, and the start-up line says which (default 8090)
  --workers N               threads that serve; connections are dealt out in turn (default 1)
  --answer-bytes N          body of each answer (default 2)
  --seed N                  of everything drawn at random (default 1)

 CPU work, in microseconds of CPU time (not of the clock)
  --spin-us T               for each request
  --batch-us T --each-us T  for all requests found at a time, and for each of them
  --burst-one-in N --burst-us T   more work for one request in N, drawn at random
  --drift-percent-per-min P everything takes this much longer after a minute
  --cold-percent P --warm-s S   everything takes this much longer at first, and e times less so every S seconds
  --iterations-per-us X     do not calibrate: this is the speed, as another start announced it

 One lock for all workers
  --lock-sleep-us T         sleep while holding it
  --lock-spin-us T          work while holding it

 Waits by timers, any number of connections, one worker
  --async-sleep-us T        each request waits
  --permits N --permit-sleep-us T   at most N wait at a time, the others queue
  --stages K --stage-mean-us T      K stages in series, each serving one at a time for an
                            exponential time

 Connections
  --backlog N               of the listening socket (default 4096)
  --accept-delay-us T       sleep before each accept
  --nagle-wwr               head and body of an answer in two writes, with Nagle's algorithm

 Changes
  --phase-ms T              work and a small answer, then no work and the full answer, in turn
  --stall-ms T --stall-every-s T    stand still now and then

 Neighbours
  --contend-threads N       threads that fight over a lock of their own and do nothing else
  --burn                    no server: use a processor until killed

  --version  --help
";

const WORKERS_MAX: u32 = 256;
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const STAGES_MAX: u32 = 64;

/// The command line, checked. Times of 0 mean: not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where to listen.
    pub host: IpAddr,
    /// 0: any.
    pub port: u16,
    /// Threads that serve.
    pub workers: u32,
    /// Body of an answer.
    pub answer_bytes: usize,
    /// Of all draws.
    pub seed: u64,
    /// Work for each request.
    pub spin_us: f64,
    /// Work for all requests found at a time.
    pub batch_us: f64,
    /// Work for each of them.
    pub each_us: f64,
    /// One request in so many has a burst; 0: none.
    pub burst_one_in: u32,
    /// Its work.
    pub burst_us: f64,
    /// How much longer everything takes after a minute.
    pub drift_percent_per_min: f64,
    /// Percent that everything takes longer at first.
    pub cold_percent: f64,
    /// Seconds in which that becomes e times less.
    pub warm_s: f64,
    /// The processor's speed, where it is not to be measured.
    pub iterations_per_us: Option<f64>,
    /// Sleep under the lock.
    pub lock_sleep_us: f64,
    /// Work under the lock.
    pub lock_spin_us: f64,
    /// A wait for each request.
    pub async_sleep_ns: u64,
    /// How many may wait at a time; 0: there are no permits.
    pub permits: u32,
    /// How long they do.
    pub permit_sleep_ns: u64,
    /// Exponential stages in series.
    pub stages: u32,
    /// Mean time in each.
    pub stage_mean_ns: u64,
    /// Of the listening socket.
    pub backlog: i32,
    /// Sleep before each accept.
    pub accept_delay_ns: u64,
    /// Two writes for an answer, with Nagle's algorithm.
    pub nagle_wwr: bool,
    /// Length of a phase; 0: there are none.
    pub phase_ns: u64,
    /// Length of a stall; 0: there are none.
    pub stall_ns: u64,
    /// From one stall to the next.
    pub stall_every_ns: u64,
    /// Threads that fight over a lock of their own.
    pub contend_threads: u32,
}

/// What was asked for instead of a server, or why it cannot be had.
#[derive(Debug, Clone, PartialEq)]
pub enum NoServer {
    /// `--help`.
    Help,
    /// `--version`.
    Version,
    /// `--burn`.
    Burn,
    /// A mistake in the flags.
    Mistake(String),
}

impl Default for Options {
    fn default() -> Options {
        Options {
            host: IpAddr::from([127, 0, 0, 1]),
            port: 8090,
            workers: 1,
            answer_bytes: 2,
            seed: 1,
            spin_us: 0.0,
            batch_us: 0.0,
            each_us: 0.0,
            burst_one_in: 0,
            burst_us: 0.0,
            drift_percent_per_min: 0.0,
            cold_percent: 0.0,
            warm_s: 1.0,
            iterations_per_us: None,
            lock_sleep_us: 0.0,
            lock_spin_us: 0.0,
            async_sleep_ns: 0,
            permits: 0,
            permit_sleep_ns: 0,
            stages: 0,
            stage_mean_ns: 0,
            backlog: 4096,
            accept_delay_ns: 0,
            nagle_wwr: false,
            phase_ns: 0,
            stall_ns: 0,
            stall_every_ns: 0,
            contend_threads: 0,
        }
    }
}

impl Options {
    /// Reads flags: `--name value` or `--name=value`.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Options, NoServer> {
        let mut options = Options::default();
        let mut words = Words::new(args);
        while let Some(flag) = words.flag()? {
            options.take(&flag, &mut words)?;
        }
        options.check().map_err(NoServer::Mistake)?;
        Ok(options)
    }

    fn take(&mut self, flag: &str, words: &mut Words) -> Result<(), NoServer> {
        match flag {
            "--help" | "-h" => return Err(NoServer::Help),
            "--version" | "-V" => return Err(NoServer::Version),
            "--burn" => return Err(NoServer::Burn),
            "--nagle-wwr" => self.nagle_wwr = true,
            "--host" => self.host = words.value()?,
            "--port" => self.port = words.value()?,
            "--workers" => self.workers = words.within(1, WORKERS_MAX)?,
            "--answer-bytes" => self.answer_bytes = words.within(0, ANSWER_BYTES_MAX)? as usize,
            "--seed" => self.seed = words.value()?,
            "--spin-us" => self.spin_us = words.time()?,
            "--batch-us" => self.batch_us = words.time()?,
            "--each-us" => self.each_us = words.time()?,
            "--burst-one-in" => self.burst_one_in = words.value()?,
            "--burst-us" => self.burst_us = words.time()?,
            "--drift-percent-per-min" => self.drift_percent_per_min = words.number()?,
            "--cold-percent" => self.cold_percent = words.number()?,
            "--warm-s" => self.warm_s = words.number()?,
            "--iterations-per-us" => self.iterations_per_us = Some(words.time()?),
            "--lock-sleep-us" => self.lock_sleep_us = words.time()?,
            "--lock-spin-us" => self.lock_spin_us = words.time()?,
            "--async-sleep-us" => self.async_sleep_ns = words.time_ns(1e3)?,
            "--permits" => self.permits = words.value()?,
            "--permit-sleep-us" => self.permit_sleep_ns = words.time_ns(1e3)?,
            "--stages" => self.stages = words.within(1, STAGES_MAX)?,
            "--stage-mean-us" => self.stage_mean_ns = words.time_ns(1e3)?,
            "--backlog" => self.backlog = words.within(1, i32::MAX)?,
            "--accept-delay-us" => self.accept_delay_ns = words.time_ns(1e3)?,
            "--phase-ms" => self.phase_ns = words.time_ns(1e6)?,
            "--stall-ms" => self.stall_ns = words.time_ns(1e6)?,
            "--stall-every-s" => self.stall_every_ns = words.time_ns(1e9)?,
            "--contend-threads" => self.contend_threads = words.within(0, WORKERS_MAX)?,
            unknown => return Err(NoServer::Mistake(format!("there is no flag `{unknown}`"))),
        }
        Ok(())
    }

    /// Whether what was given makes sense together.
    fn check(&self) -> Result<(), String> {
        let together = |a: bool, b: bool, names: &str| match a == b {
            true => Ok(()),
            false => Err(format!("{names} go together")),
        };
        let waits = [self.async_sleep_ns > 0, self.permits > 0, self.stages > 0];
        together(
            self.permits > 0,
            self.permit_sleep_ns > 0,
            "--permits and --permit-sleep-us",
        )?;
        together(
            self.stages > 0,
            self.stage_mean_ns > 0,
            "--stages and --stage-mean-us",
        )?;
        together(
            self.burst_one_in > 0,
            self.burst_us > 0.0,
            "--burst-one-in and --burst-us",
        )?;
        together(
            self.stall_ns > 0,
            self.stall_every_ns > 0,
            "--stall-ms and --stall-every-s",
        )?;
        if self.stall_ns > self.stall_every_ns {
            return Err("--stall-ms is longer than --stall-every-s".to_owned());
        }
        if waits.contains(&true) && self.workers > 1 {
            return Err("waits by timers take one worker: --workers 1".to_owned());
        }
        if self.iterations_per_us == Some(0.0) {
            return Err("--iterations-per-us must be above 0".to_owned());
        }
        Ok(())
    }
}

/// The words of a command line: flags, and their values.
struct Words {
    args: Box<dyn Iterator<Item = String>>,
    flag: String,
    attached: Option<String>,
}

impl Words {
    fn new(args: impl IntoIterator<Item = String>) -> Words {
        let args: Vec<String> = args.into_iter().collect();
        Words {
            args: Box::new(args.into_iter()),
            flag: String::new(),
            attached: None,
        }
    }

    fn flag(&mut self) -> Result<Option<String>, NoServer> {
        if self.attached.is_some() {
            return Err(NoServer::Mistake(format!("{} takes no value", self.flag)));
        }
        let Some(word) = self.args.next() else {
            return Ok(None);
        };
        (self.flag, self.attached) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        Ok(Some(self.flag.clone()))
    }

    fn value<T: std::str::FromStr>(&mut self) -> Result<T, NoServer> {
        let flag = &self.flag;
        let Some(word) = self.attached.take().or_else(|| self.args.next()) else {
            return Err(NoServer::Mistake(format!("{flag} lacks its value")));
        };
        let wrong = |_| NoServer::Mistake(format!("{flag} cannot be `{word}`"));
        word.parse().map_err(wrong)
    }

    fn within<T>(&mut self, least: T, most: T) -> Result<T, NoServer>
    where
        T: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        let value: T = self.value()?;
        match value >= least && value <= most {
            true => Ok(value),
            false => Err(NoServer::Mistake(format!(
                "{} is {value}, and may be {least} to {most}",
                self.flag
            ))),
        }
    }

    fn number(&mut self) -> Result<f64, NoServer> {
        let number: f64 = self.value()?;
        match number.is_finite() {
            true => Ok(number),
            false => Err(NoServer::Mistake(format!("{} is not finite", self.flag))),
        }
    }

    /// A number from 0 to a day's microseconds.
    fn time(&mut self) -> Result<f64, NoServer> {
        self.within(0.0, 86_400e6)
    }

    fn time_ns(&mut self, unit_ns: f64) -> Result<u64, NoServer> {
        Ok((self.within(0.0, 86_400e9 / unit_ns)? * unit_ns) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, NoServer> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_are_read_in_both_ways_of_writing() {
        let options = parse("--spin-us 200 --answer-bytes=10000 --nagle-wwr --port 0").unwrap();
        assert_eq!((options.spin_us, options.answer_bytes), (200.0, 10_000));
        assert!(options.nagle_wwr);
        assert_eq!(options.port, 0);
        assert_eq!(parse("--phase-ms 200").unwrap().phase_ns, 200_000_000);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, says) in [
            ("--spin 3", "no flag `--spin`"),
            ("--spin-us", "lacks its value"),
            ("--spin-us x", "cannot be `x`"),
            ("--spin-us -1", "may be 0 to"),
            ("--spin-us NaN", "may be 0 to"),
            ("--nagle-wwr=1", "takes no value"),
            ("--nagle-wwr=1 --port 1", "takes no value"),
            ("--workers 0", "may be 1 to 256"),
            ("--permits 4", "go together"),
            ("--stall-ms 2000 --stall-every-s 1", "longer"),
            ("--async-sleep-us 5 --workers 2", "one worker"),
            ("--iterations-per-us 0", "above 0"),
        ] {
            match parse(line) {
                Err(NoServer::Mistake(said)) => assert!(said.contains(says), "{line}: {said}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        assert_eq!(parse("--burn"), Err(NoServer::Burn));
        assert_eq!(parse("--port 1 --help"), Err(NoServer::Help));
    }

    #[test]
    fn every_flag_is_in_the_usage() {
        for line in USAGE.lines() {
            for word in line.split_whitespace().filter(|w| w.starts_with("--")) {
                let word = word.trim_end_matches(',');
                let known = !matches!(parse(word), Err(NoServer::Mistake(said)) if said.contains("no flag"));
                assert!(known, "{word}");
            }
        }
    }
}
