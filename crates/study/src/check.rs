//! From the file's shape to a study: every name must refer to something, every number be in
//! bounds. Each refusal carries the place of the value that is wrong.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use wallfinder_model::traffic::Traffic;
use wallfinder_model::{Decode, Effort, Nanos, Rate};

use crate::StudyError;
use crate::between::BETWEEN;
use crate::claims::Claim;
use crate::file::{ClaimFile, GroupFile, MachineFile, RunFile, SCHEMA, StudyFile, SubjectFile};
use crate::study::{
    Concurrency, Driver, Group, Hosts, KernelLooks, Ramp, Speaks, Study, SubjectSpec,
    is_reached_by_ssh,
};
use crate::{Size, charts, claims};

/// Most connections of a step.
const CONNECTIONS_MAX: u32 = 1_000_000;
/// Most requests in flight of a step.
const IN_FLIGHT_MAX: u64 = 10_000_000;
/// Longest warm-up or window.
const SPAN_MAX: Nanos = Nanos::from_secs(3_600);
/// Total deadline of a request, where the study gives none.
const TIMEOUT: Nanos = Nanos::from_secs(10);
/// Shortest window.
const WINDOW_MIN: Nanos = Nanos::from_millis(10);
/// Most bytes of data in a request: gRPC's own limit for a message is 4 MiB.
const PAYLOAD_MAX: u32 = 4_000_000;
/// Most requests of a client.
const REQUESTS_MAX: u32 = 100_000_000;
/// Most rounds.
const ROUNDS_MAX: u32 = 100;
/// Most steps of one size.
const STEPS_MAX: usize = 2_000;
/// Most processors of a side.
const CPUS_MAX: u32 = 4_096;

/// Most requests in flight on a connection.
const DEPTH_MAX: u32 = 10_000;

/// How a group's connections are used.
struct Sharing {
    /// Requests in flight on each, where connections are given.
    pipeline: u32,
    /// Clients on each at the most, where clients are given.
    clients: u32,
}

impl Sharing {
    /// As many connections as so many clients need, and how many are on each.
    fn of_clients(&self, clients: u32) -> (u32, u32) {
        let connections = clients.div_ceil(self.clients);
        (connections, clients / connections)
    }
}

/// The text under reading, for errors with a place.
pub(crate) struct Place<'t> {
    pub(crate) file: &'t str,
    pub(crate) text: &'t str,
}

impl Place<'_> {
    pub(crate) fn error(&self, span: Range<usize>, message: String) -> StudyError {
        StudyError::at(self.file, self.text, span, message)
    }

    pub(crate) fn study(&self, raw: StudyFile) -> Result<Study, StudyError> {
        if raw.schema.get_ref() != SCHEMA {
            let message = format!(
                "this version reads `{SCHEMA}`, not `{}`",
                raw.schema.get_ref()
            );
            return Err(self.error(raw.schema.span(), message));
        }
        self.identifier(&raw.id)?;
        let server_cpus = self.bounded(&raw.machine.server_cpus, 1, CPUS_MAX, "processors")?;
        let client_cpus = self.bounded(&raw.machine.client_cpus, 1, CPUS_MAX, "processors")?;
        let hosts = self.hosts(&raw.machine)?;
        self.distinct(raw.subjects.iter().map(|subject| &subject.name))?;
        self.distinct(raw.drivers.iter().map(|driver| &driver.name))?;
        self.distinct(raw.groups.iter().map(|group| &group.id))?;
        self.distinct(raw.claims.iter().map(|claim| &claim.id))?;
        let subjects = raw
            .subjects
            .iter()
            .map(|subject| self.subject(subject, server_cpus))
            .collect::<Result<Vec<_>, _>>()?;
        let drivers: Vec<Driver> = raw
            .drivers
            .iter()
            .map(|driver| Driver {
                name: driver.name.get_ref().clone(),
                program: driver
                    .program
                    .as_ref()
                    .unwrap_or(&driver.name)
                    .get_ref()
                    .clone(),
                arguments: driver.arguments.clone(),
                env: driver.env.clone(),
                everywhere: driver.everywhere,
            })
            .collect();
        for driver in &raw.drivers {
            self.identifier(&driver.name)?;
            let told = !driver.arguments.is_empty()
                || driver.program.is_some()
                || !driver.env.is_empty()
                || driver.everywhere;
            if driver.name.get_ref() == Driver::ENGINE && told {
                let message =
                    "the engine is no program: it takes no arguments and no environment, \
                               has a worker for each of the client's processors, and its load is the \
                               group's"
                        .to_owned();
                return Err(self.error(driver.name.span(), message));
            }
        }
        let mut groups = raw
            .groups
            .iter()
            .map(|group| self.group(group, &subjects, &drivers))
            .collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<&str> = raw
            .groups
            .iter()
            .map(|group| group.id.get_ref().as_str())
            .collect();
        for rival in &raw.rivals {
            let index = self.refer(rival, &ids, "group")?;
            groups[index].rival = true;
        }
        let claims = raw
            .claims
            .iter()
            .map(|claim| self.claim(claim, &drivers))
            .collect::<Result<Vec<_>, _>>()?;
        let charts = raw
            .charts
            .iter()
            .map(|chart| {
                self.are_drivers(&chart.for_each, &drivers)?;
                charts::compile(chart, self)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let study = Study {
            id: raw.id.into_inner(),
            title: raw.title,
            source: raw.source,
            question: raw.question,
            method: raw.method,
            server_cpus,
            client_cpus,
            hosts,
            subjects,
            drivers,
            groups,
            claims,
            charts,
            text: self.text.to_owned(),
        };
        self.labels(&study, &raw.groups)?;
        self.links(&study, &raw.subjects)?;
        Ok(study)
    }

    fn hosts(&self, machine: &MachineFile) -> Result<Hosts, StudyError> {
        let given = |host: &Spanned<String>| match is_reached_by_ssh(host.get_ref()) {
            Ok(()) => Ok(host.get_ref().clone()),
            Err(message) => Err(self.error(host.span(), message)),
        };
        let server = machine.server_host.as_ref().map(given).transpose()?;
        let more = &machine.more_client_hosts;
        if let (None, Some(host)) = (&machine.client_host, more.first()) {
            let message = "more_client_hosts stand beside client_host, and there is none";
            return Err(self.error(host.span(), message.to_owned()));
        }
        let clients = machine.client_host.iter().chain(more);
        let clients: Vec<String> = clients.map(given).collect::<Result<_, _>>()?;
        if let (None, Some(host)) = (&server, &machine.client_host) {
            let message = "where the load comes from another host, so does the server stand on one: name its \
                           server_host";
            return Err(self.error(host.span(), message.to_owned()));
        }
        Ok(Hosts {
            server,
            server_address: machine.server_address.clone(),
            clients,
            ssh: machine.ssh.clone(),
            ..Hosts::default()
        })
    }

    fn subject(&self, raw: &SubjectFile, cpus: u32) -> Result<SubjectSpec, StudyError> {
        self.identifier(&raw.name)?;
        let command = raw.command.get_ref();
        if command.first().is_none_or(|program| program.is_empty()) {
            return Err(self.error(raw.command.span(), "a command is missing".to_owned()));
        }
        if *raw.port.get_ref() == 0 {
            return Err(self.error(raw.port.span(), "a port is 1 to 65535".to_owned()));
        }
        if let Some(quota) = &raw.quota_cores {
            let cores = *quota.get_ref();
            if !(cores >= 0.01 && cores <= f64::from(cpus)) {
                let message = format!("a quota is 0.01 to {cpus} cores, the server's processors");
                return Err(self.error(quota.span(), message));
            }
        }
        Ok(SubjectSpec {
            name: raw.name.get_ref().clone(),
            command: command.clone(),
            port: *raw.port.get_ref(),
            env: raw.env.clone(),
            cpus,
            everywhere: raw.everywhere,
            tls: raw.tls,
            quota_cores: raw.quota_cores.as_ref().map(|quota| *quota.get_ref()),
            link: raw.link.clone(),
            link_between: self.link_between(raw)?,
        })
    }

    /// A rate is decided by groups where it is spelt so, and only there. That there are such groups is
    /// checked when all are known.
    fn link_between(&self, raw: &SubjectFile) -> Result<Vec<String>, StudyError> {
        let rate = raw.link.iter().find_map(|link| link.split(',').next());
        let first = raw.link_between.first();
        match (rate == Some(BETWEEN), first) {
            (true, None) => {
                let message =
                    "a link `between` needs link_between: the groups that decide its rate";
                Err(self.error(raw.name.span(), message.to_owned()))
            }
            (false, Some(group)) => {
                let message = "link_between decides the rate of a link that is spelt `between`";
                Err(self.error(group.span(), message.to_owned()))
            }
            _ => {
                let groups = raw.link_between.iter();
                Ok(groups.map(|group| group.get_ref().clone()).collect())
            }
        }
    }

    /// Groups that decide a link's rate are there, and are measured before the link is laid.
    fn links(&self, study: &Study, raw: &[SubjectFile]) -> Result<(), StudyError> {
        let ids: Vec<&str> = study.groups.iter().map(|group| group.id.as_str()).collect();
        for (at, subject) in raw.iter().enumerate() {
            for group in &subject.link_between {
                let found = self.refer(group, &ids, "group")?;
                if study.groups[found].subject >= at {
                    let message = format!(
                        "`{}` is of a subject that is not before this one",
                        group.get_ref()
                    );
                    return Err(self.error(group.span(), message));
                }
            }
        }
        Ok(())
    }

    fn group(
        &self,
        raw: &GroupFile,
        subjects: &[SubjectSpec],
        drivers: &[Driver],
    ) -> Result<Group, StudyError> {
        self.identifier(&raw.id)?;
        let names: Vec<&str> = subjects
            .iter()
            .map(|subject| subject.name.as_str())
            .collect();
        let subject = self.refer(&raw.subject, &names, "subject")?;
        let speaks = self.speaks(raw)?;
        let headers = self.headers(raw, speaks)?;
        let decode = self.decode(raw, speaks)?;
        let path = self.path(raw, speaks)?;
        let traffic = self.traffic(raw, speaks, drivers)?;
        let sharing = self.sharing(raw, speaks)?;
        let runs = raw
            .runs
            .get_ref()
            .iter()
            .map(|run| self.ramp(run, &sharing, drivers))
            .collect::<Result<Vec<_>, _>>()?;
        if runs.is_empty() {
            return Err(self.error(raw.runs.span(), "a group without a run".to_owned()));
        }
        if let Some(protocol) = &raw.speaks
            && (speaks == Speaks::Grpc || speaks.is_framed())
            && runs.iter().any(|run| run.payload.is_empty())
        {
            let message = format!(
                "what {} sends is missing in a run: `payload`",
                speaks.label()
            );
            return Err(self.error(protocol.span(), message));
        }
        Ok(Group {
            id: raw.id.get_ref().clone(),
            subject,
            part: raw.part.clone(),
            headers,
            decode,
            speaks,
            path,
            traffic,
            rival: false,
            runs,
        })
    }

    fn headers(
        &self,
        raw: &GroupFile,
        speaks: Speaks,
    ) -> Result<Vec<(String, String)>, StudyError> {
        let is_http = matches!(speaks, Speaks::Http1 | Speaks::Http2);
        let parse = |text: &Spanned<String>| {
            let bad = |message: &str| self.error(text.span(), message.to_owned());
            if !is_http {
                return Err(bad("header fields are of HTTP"));
            }
            let (name, value) = text
                .get_ref()
                .split_once(':')
                .ok_or_else(|| bad("a header field is `Name: value`"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        raw.headers.iter().map(parse).collect()
    }

    fn decode(&self, raw: &GroupFile, speaks: Speaks) -> Result<Decode, StudyError> {
        let inflates = raw.inflate.as_ref().filter(|inflate| *inflate.get_ref());
        let (span, decode) = match (&raw.decode, inflates) {
            (None, None) => return Ok(Decode::None),
            (Some(_), Some(inflate)) => {
                let message = "`inflate` is short for `decode = \"inflate\"`: one of the two is \
                               enough";
                return Err(self.error(inflate.span(), message.to_owned()));
            }
            (None, Some(inflate)) => (inflate.span(), Decode::Inflate),
            (Some(wanted), None) => {
                let index = self.refer(wanted, &Decode::ALL.map(Decode::label), "way to decode")?;
                (wanted.span(), Decode::ALL[index])
            }
        };
        let is_http = matches!(speaks, Speaks::Http1 | Speaks::Http2);
        if decode != Decode::None && !is_http {
            return Err(self.error(span, "bodies are coded in HTTP alone".to_owned()));
        }
        Ok(decode)
    }

    fn client_quota(&self, raw: &RunFile) -> Result<Option<f64>, StudyError> {
        let Some(quota) = &raw.client_quota else {
            return Ok(None);
        };
        let cores = *quota.get_ref();
        if !(0.01..=64.0).contains(&cores) {
            let message = "a quota is 0.01 to 64 cores".to_owned();
            return Err(self.error(quota.span(), message));
        }
        Ok(Some(cores))
    }

    fn speaks(&self, raw: &GroupFile) -> Result<Speaks, StudyError> {
        let Some(wanted) = &raw.speaks else {
            return Ok(Speaks::Http1);
        };
        let known = Speaks::ALL.map(Speaks::label);
        let index = self.refer(wanted, &known, "protocol")?;
        Ok(Speaks::ALL[index])
    }

    fn squeeze(&self, raw: &RunFile) -> Result<Option<Effort>, StudyError> {
        const EFFORTS: [(&str, Effort); 3] = [
            ("quick", Effort::Quick),
            ("normal", Effort::Normal),
            ("thorough", Effort::Thorough),
        ];
        let Some(wanted) = &raw.squeeze else {
            return Ok(None);
        };
        let index = self.refer(wanted, &EFFORTS.map(|(name, _)| name), "effort")?;
        Ok(Some(EFFORTS[index].1))
    }

    /// What is in it is looked at when it is compiled, before its first step.
    fn traffic(
        &self,
        raw: &GroupFile,
        speaks: Speaks,
        drivers: &[Driver],
    ) -> Result<Traffic, StudyError> {
        let Some(given) = &raw.traffic else {
            return Ok(Traffic::default());
        };
        let refuse = |why: &str| Err(self.error(given.span(), why.to_owned()));
        if !matches!(speaks, Speaks::Http1 | Speaks::Http2) {
            return refuse("traffic of a study is of HTTP");
        }
        if given.get_ref().is_empty() {
            return refuse("there is no [[group.traffic.request]] in it, and no session");
        }
        let is_foreign = |name: &Spanned<String>| {
            let known = drivers.iter().find(|driver| driver.name == *name.get_ref());
            known.is_some_and(|driver| !driver.is_engine())
        };
        let runs = raw.runs.get_ref();
        if let Some(driver) = runs
            .iter()
            .flat_map(|run| &run.drivers)
            .find(|name| is_foreign(name))
        {
            let why = format!(
                "`{}` sends one request over and over; traffic is the engine's",
                driver.get_ref()
            );
            return Err(self.error(driver.span(), why));
        }
        if runs.iter().any(|run| !run.payload.is_empty()) {
            return refuse("traffic has bodies of its own: leave `payload` out of its runs");
        }
        let mut traffic = given.get_ref().clone();
        if let Some(folder) = Path::new(self.file).parent() {
            traffic.beside(folder);
        }
        Ok(traffic)
    }

    fn path(&self, raw: &GroupFile, speaks: Speaks) -> Result<String, StudyError> {
        let path = match (&raw.path, speaks) {
            (None, speaks) if speaks.is_framed() => return Ok(String::new()),
            (Some(path), speaks) if speaks.is_framed() => {
                let message = "framed messages have no path".to_owned();
                return Err(self.error(path.span(), message));
            }
            (None, _) if raw.traffic.is_some() => return Ok("/".to_owned()),
            (None, _) => return Err(self.error(raw.id.span(), "`path` is missing".to_owned())),
            (Some(path), _) => path,
        };
        let text = path.get_ref();
        let plain = text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        if !text.starts_with('/') || !plain || text.contains('#') {
            let message = "a path starts with `/` and has no spaces, `#` or other signs".to_owned();
            return Err(self.error(path.span(), message));
        }
        Ok(text.clone())
    }

    fn sharing(&self, raw: &GroupFile, speaks: Speaks) -> Result<Sharing, StudyError> {
        let pipeline = match &raw.pipeline {
            Some(depth) => {
                self.bounded(depth, 1, DEPTH_MAX, "requests in flight on a connection")?
            }
            None => 1,
        };
        let clients = match &raw.clients_per_connection {
            Some(clients) if *clients.get_ref() > 1 && !speaks.multiplexes() => {
                let message = format!("over {} each client has its connection", speaks.label());
                return Err(self.error(clients.span(), message));
            }
            Some(clients) => self.bounded(clients, 1, DEPTH_MAX, "clients of a connection")?,
            None => 1,
        };
        Ok(Sharing { pipeline, clients })
    }

    fn ramp(
        &self,
        raw: &RunFile,
        sharing: &Sharing,
        drivers: &[Driver],
    ) -> Result<Ramp, StudyError> {
        let names: Vec<&str> = drivers.iter().map(|driver| driver.name.as_str()).collect();
        let sizes = raw
            .sizes
            .iter()
            .map(|size| {
                size.get_ref()
                    .parse::<Size>()
                    .map_err(|why| self.error(size.span(), why))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let chosen = raw
            .drivers
            .iter()
            .map(|driver| self.refer(driver, &names, "driver"))
            .collect::<Result<Vec<_>, _>>()?;
        let payload = raw
            .payload
            .iter()
            .map(|bytes| self.bounded(bytes, 0, PAYLOAD_MAX, "bytes of data"))
            .collect::<Result<Vec<_>, _>>()?;
        let concurrency = self.concurrency(raw, sharing)?;
        if sizes.is_empty() || chosen.is_empty() || concurrency.is_empty() {
            let message = "a run needs sizes, drivers, and connections or clients".to_owned();
            let place = raw
                .connections
                .as_ref()
                .map_or(raw.window.span(), Spanned::span);
            return Err(self.error(place, message));
        }
        let requests = raw
            .requests
            .as_ref()
            .map(|requests| {
                if raw.clients.is_empty() || !raw.rates.is_empty() {
                    let message = "requests are those of `clients` in a closed loop".to_owned();
                    return Err(self.error(requests.span(), message));
                }
                self.bounded(requests, 1, REQUESTS_MAX, "requests of a client")
            })
            .transpose()?;
        let rounds = match &raw.rounds {
            Some(rounds) => self.bounded(rounds, 1, ROUNDS_MAX, "rounds")?,
            None => 1,
        };
        let rates = raw
            .rates
            .iter()
            .map(|rate| {
                rate.get_ref()
                    .parse::<Rate>()
                    .map_err(|why| self.error(rate.span(), why.0))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let chosen_names: Vec<&str> = chosen.iter().map(|driver| names[*driver]).collect();
        Ok(Ramp {
            sizes,
            drivers: chosen,
            payload,
            concurrency,
            requests,
            rounds,
            samples: raw.samples,
            profiles: raw.profiles,
            kernel: self.kernel(raw)?,
            squeeze: self.squeeze(raw)?,
            client_quota: self.client_quota(raw)?,
            max_in_flight: self.max_in_flight(raw, &chosen_names)?,
            rates,
            warmup: self.duration(&raw.warmup, Nanos(0))?,
            window: self.duration(&raw.window, WINDOW_MIN)?,
            timeout: match &raw.timeout {
                Some(timeout) => self.duration(timeout, WINDOW_MIN)?,
                None => TIMEOUT,
            },
            calibrate: raw.calibrate,
        })
    }

    /// A bound of the engine's own: foreign drivers have theirs, or none.
    fn max_in_flight(&self, raw: &RunFile, drivers: &[&str]) -> Result<Option<u32>, StudyError> {
        let Some(bound) = &raw.max_in_flight else {
            return Ok(None);
        };
        if drivers.iter().any(|driver| *driver != Driver::ENGINE) {
            let message =
                "max_in_flight is the engine's; a driver has its own by its arguments".to_owned();
            return Err(self.error(bound.span(), message));
        }
        self.bounded(bound, 1, CONNECTIONS_MAX, "max_in_flight")
            .map(Some)
    }

    fn kernel(&self, raw: &RunFile) -> Result<KernelLooks, StudyError> {
        let mut looks = KernelLooks::default();
        for word in &raw.kernel {
            let look = match word.get_ref().as_str() {
                "stacks" => &mut looks.stacks,
                "waits" => &mut looks.waits,
                "calls" => &mut looks.calls,
                "counters" => &mut looks.counters,
                other => {
                    let message = format!(
                        "the kernel tells of stacks, waits, calls and counters, not of {other}"
                    );
                    return Err(self.error(word.span(), message));
                }
            };
            *look = true;
        }
        Ok(looks)
    }

    fn concurrency(
        &self,
        raw: &RunFile,
        sharing: &Sharing,
    ) -> Result<Vec<Concurrency>, StudyError> {
        if let (Some(_), Some(clients)) = (&raw.connections, raw.clients.first()) {
            let message = "a run has either connections or clients".to_owned();
            return Err(self.error(clients.span(), message));
        }
        let by_clients = !raw.clients.is_empty();
        let checked = |count: &Spanned<u32>| {
            let given = self.bounded(count, 1, CONNECTIONS_MAX, "connections")?;
            let (connections, depth) = match by_clients {
                true => sharing.of_clients(given),
                false => (given, sharing.pipeline),
            };
            if u64::from(connections) * u64::from(depth) > IN_FLIGHT_MAX {
                let message = format!("more than {IN_FLIGHT_MAX} requests in flight");
                return Err(self.error(count.span(), message));
            }
            if by_clients && connections * depth != given {
                let message = format!(
                    "{given} clients cannot be shared out to connections of {} alike",
                    sharing.clients
                );
                return Err(self.error(count.span(), message));
            }
            Ok(Concurrency {
                given,
                connections,
                in_flight_per_connection: depth,
            })
        };
        let connections = raw.connections.iter().flat_map(Spanned::get_ref);
        connections.chain(&raw.clients).map(checked).collect()
    }

    fn claim(&self, raw: &ClaimFile, drivers: &[Driver]) -> Result<Claim, StudyError> {
        self.identifier(&raw.id)?;
        self.are_drivers(&raw.for_each, drivers)?;
        claims::compile(raw, self)
    }

    /// What claims and charts stand for each of.
    fn are_drivers(&self, named: &[Spanned<String>], drivers: &[Driver]) -> Result<(), StudyError> {
        let names: Vec<&str> = drivers.iter().map(|driver| driver.name.as_str()).collect();
        let mut named = named.iter();
        named.try_for_each(|driver| self.refer(driver, &names, "driver").map(drop))
    }

    /// Every step has a name of its own, and no size has too many.
    fn labels(&self, study: &Study, raw: &[GroupFile]) -> Result<(), StudyError> {
        for size in Size::ALL {
            let steps = study.expand(size);
            let mut seen: Vec<&str> = steps.iter().map(|step| step.label.as_str()).collect();
            seen.sort_unstable();
            let place = || raw.first().map_or(0..0, |group| group.id.span());
            if steps.len() > STEPS_MAX {
                let message = format!(
                    "size {size} has {} steps; {STEPS_MAX} at the most",
                    steps.len()
                );
                return Err(self.error(place(), message));
            }
            if let Some(twice) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
                let group = twice[0].split('/').next().unwrap_or_default();
                let span = raw
                    .iter()
                    .find(|g| g.id.get_ref() == group)
                    .map_or_else(place, |g| g.id.span());
                let message = format!("size {size} has the step `{}` twice", twice[0]);
                return Err(self.error(span, message));
            }
        }
        Ok(())
    }

    pub(crate) fn identifier(&self, name: &Spanned<String>) -> Result<(), StudyError> {
        let text = name.get_ref();
        let fits = !text.is_empty()
            && text.len() <= 64
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
        if fits {
            return Ok(());
        }
        let message = format!("`{text}` is not a name of lower case letters, digits, - and _");
        Err(self.error(name.span(), message))
    }

    fn distinct<'n>(
        &self,
        names: impl Iterator<Item = &'n Spanned<String>>,
    ) -> Result<(), StudyError> {
        let mut seen: Vec<&str> = Vec::new();
        for name in names {
            let text = name.get_ref().as_str();
            if seen.contains(&text) {
                return Err(self.error(name.span(), format!("the name `{text}` is taken")));
            }
            seen.push(text);
        }
        Ok(())
    }

    fn refer(
        &self,
        name: &Spanned<String>,
        known: &[&str],
        what: &str,
    ) -> Result<usize, StudyError> {
        known
            .iter()
            .position(|candidate| *candidate == name.get_ref())
            .ok_or_else(|| {
                let message = format!("there is no {what} `{}`", name.get_ref());
                self.error(name.span(), message)
                    .with_help(format!("known: {}", known.join(", ")))
            })
    }

    fn bounded(
        &self,
        value: &Spanned<u32>,
        least: u32,
        most: u32,
        what: &str,
    ) -> Result<u32, StudyError> {
        let number = *value.get_ref();
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        let message = format!("{what}: {number} is not in {least} to {most}");
        Err(self.error(value.span(), message))
    }

    fn duration(&self, text: &Spanned<String>, least: Nanos) -> Result<Nanos, StudyError> {
        let span: Nanos = text
            .get_ref()
            .parse()
            .map_err(|why: wallfinder_model::units::BadUnit| self.error(text.span(), why.0))?;
        if span < least || span > SPAN_MAX {
            let message = format!("{span} is not in {least} to {SPAN_MAX}");
            return Err(self.error(text.span(), message));
        }
        Ok(span)
    }
}
