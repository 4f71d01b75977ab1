//! The apparatus of studies: each subject on a testbed of its own, our engine and foreign drivers, the probes.

pub(crate) mod elsewhere;

use std::net::{SocketAddr, TcpListener};

use wallfinder_conduct::{Calibration, Looks, Producer, ProfileOrder, StepOrder, driver_command};
use wallfinder_hosts::Named;
use wallfinder_judge::profile::Rules;
use wallfinder_model::record::Step;
use wallfinder_model::scenario::Programs;
use wallfinder_model::{Caveat, Effort, Environment, ProfileKind, Scenario};
use wallfinder_study::apparatus::{Apparatus, ApparatusError, Availability, Deviation};
use wallfinder_study::{Driver, Speaks, StudyStep, SubjectSpec};
use wallfinder_testbed::child::RunAs;
use wallfinder_testbed::driver::{DriverKind, DriverSpec};
use wallfinder_testbed::lab::Lab;
use wallfinder_testbed::scratch::Scratch;
use wallfinder_testbed::{command, programs};
use wallfinder_wire::Exchange;

use crate::bench::elsewhere::Elsewhere;
use crate::commands::note_versions;
use crate::commands::profile::addresses;
use crate::exchange::ask;
use crate::exit::Failed;
use crate::job::Around;
use crate::order;
use crate::placement::Placement;
use crate::session::Session;
use crate::squeezing::{Behind, last};
use crate::testbed::{self, Home, Server, Standing, Testbed, here};

/// The subject that runs now.
pub(crate) struct Running {
    testbed: Testbed,
    /// Whether it serves TLS.
    is_secure: bool,
}

/// What runs a study's steps.
pub(crate) struct Bench {
    pub(crate) session: Session,
    pub(crate) placement: Placement,
    /// Every processor that there is for both sides.
    pub(crate) everywhere: Vec<u32>,
    /// Where this thread was before any testbed.
    pub(crate) home: Home,
    /// The hosts of both sides, where these are others.
    pub(crate) elsewhere: Option<Elsewhere>,
    /// Whether a step broke down since their agents were started.
    pub(crate) is_broken: bool,
    pub(crate) around: Around,
    pub(crate) subject: Option<Running>,
    /// The first step that broke down as it ran.
    pub(crate) failed: Option<String>,
    /// As whom subjects and drivers run, as it was asked for and as it was decided.
    pub(crate) programs: Programs,
    pub(crate) run_as: RunAs,
    /// Files that drivers are given.
    pub(crate) scratch: Scratch,
}

impl Bench {
    fn order(&self, step: &StudyStep, running: &Running) -> Result<StepOrder, Failed> {
        let testbed = &running.testbed;
        let address = testbed.server.address;
        let scenario = step.scenario(&address.to_string(), running.is_secure);
        let job = self.around.job(scenario)?;
        let question = ask(&job)?.at(&job, testbed)?;
        let mut ordered = order::order(&job, &question, testbed, 1)?;
        // Claims rest on it.
        ordered.calibrate = ordered
            .calibrate
            .map(|_| Calibration::anew(order::CALIBRATE_FOR));
        let subject = testbed.server.subject.as_ref();
        let (server, server_not_seen) = match &self.elsewhere {
            Some(_) => (ordered.server, ordered.server_not_seen),
            None => here(address, &Named::Nobody, subject),
        };
        let producer = match step.driver.is_engine() {
            true => ordered.producer,
            false => self.driver(step, &ordered.request, &ordered.target.url)?,
        };
        Ok(StepOrder {
            index: self.session.record.steps.len() as u32,
            name: step.label.clone(),
            producer,
            client_cpus: match step.driver.everywhere {
                true => self.everywhere.clone(),
                false => self.placement.client.clone(),
            },
            server,
            server_not_seen,
            samples: step.samples.then(|| self.session.folder().clone()),
            profiles: self.profiles(step, &testbed.server)?,
            paced: true,
            ..ordered
        })
    }

    /// Every kind, from wherever the subject says that it offers them, and what the kernel is to
    /// tell of both sides.
    fn profiles(&self, step: &StudyStep, server: &Server) -> Result<Option<ProfileOrder>, Failed> {
        let looks = Looks {
            stacks: step.kernel.stacks,
            waits: step.kernel.waits,
            calls: step.kernel.calls,
            counters: step.kernel.counters,
        };
        if !step.profiles && !looks.any() {
            return Ok(None);
        }
        let mut offered = Vec::new();
        if step.profiles {
            let subject = server.subject.as_ref();
            offered = addresses(&[], subject, server.address, &server.reach)?;
            if self.elsewhere.is_some() {
                return Err(Failed::run(
                    "profiles of a runtime are fetched from servers of this host",
                ));
            }
            if offered.is_empty() {
                return Err(Failed::run(
                    "the subject offers no profiles: --pprof 0 in its command",
                ));
            }
        }
        Ok(Some(ProfileOrder {
            addresses: offered,
            folder: Some(self.session.folder().clone()),
            kinds: ProfileKind::OF_GO.to_vec(),
            trace: false,
            server: looks,
            client: looks,
            rules: Rules::default(),
        }))
    }

    /// Squeezes whatever is in reach at the step that ran last.
    fn squeeze(&mut self, effort: Effort, order: &StepOrder) -> Result<(), Failed> {
        let Some(Running { testbed, .. }) = &mut self.subject else {
            return Ok(());
        };
        let shapers = testbed.lab.as_mut().map(Lab::take_shapers);
        let shapers = shapers.unwrap_or_default();
        let telemetry = last(&self.session.record.steps);
        let scenario = Scenario::default();
        let proof = testbed.proof(
            &scenario,
            effort,
            shapers,
            order,
            telemetry,
            Behind::default(),
        );
        self.session.prove(order, proof, None).map(drop)
    }

    fn driver(&self, step: &StudyStep, request: &Exchange, url: &str) -> Result<Producer, Failed> {
        let program = programs::find_driver(&step.driver.program).map_err(Failed::run)?;
        let program = program.display().to_string();
        let arguments = arguments(step);
        let command = driver_command(&program, &arguments, &step.load, request, &self.scratch)
            .map_err(Failed::run)?;
        let command = command::with_env(&step.driver.env, &command);
        let spec = DriverSpec::parse(&command).map_err(Failed::run)?;
        self.around.reach.check_driver(&spec)?;
        Ok(Producer::Foreign {
            spec: Box::new(spec.as_whom(self.run_as.clone())),
            url: url.to_owned(),
        })
    }

    fn interrupted_or(&self, why: impl std::fmt::Display) -> ApparatusError {
        if self.session.interrupted() {
            ApparatusError::Interrupted
        } else {
            ApparatusError::Failed(why.to_string())
        }
    }

    /// A subject as a scenario has it: on a host of its own every port is free, else the study's may be taken.
    fn scenario_of(&self, subject: &SubjectSpec) -> Scenario {
        let mut scenario = Scenario::default();
        if let Some(elsewhere) = &self.elsewhere {
            elsewhere.place(&mut scenario, subject);
            return scenario;
        }
        let port = match subject.link {
            Some(_) => subject.port,
            None => free_port(subject.port),
        };
        scenario.target.url = format!("http://subject:{port}/");
        let server = &mut scenario.server;
        let command = command::join(&subject.command);
        server.subject = Some(command::with_env(&subject.env, &command));
        server.quota = subject.quota_cores;
        let placed = &self.placement.server;
        let cpus = match subject.everywhere {
            true => &self.everywhere[..],
            false => &placed[..placed.len().min(subject.cpus as usize)],
        };
        server.cpus = Some(cpus.to_vec());
        scenario.link.lay.clone_from(&subject.link);
        scenario.programs.clone_from(&self.programs);
        scenario
    }

    fn raise(&mut self, subject: &SubjectSpec) -> Result<Testbed, Failed> {
        let job = self.around.job(self.scenario_of(subject))?;
        self.home.back()?;
        let standing = match &self.elsewhere {
            Some(elsewhere) => elsewhere.standing(&self.placement, subject)?,
            None => Standing::here(&self.placement),
        };
        let testbed = Testbed::raise(&job, Some(&standing))?;
        let narrower = standing.narrower.map(|text| Caveat::Note { text });
        let caveats = &mut self.session.record.caveats;
        caveats.extend(narrower.filter(|caveat| !caveats.contains(caveat)));
        Ok(testbed)
    }
}

/// What a foreign driver is told beside its load: the protocol and the message, for the
/// clients of the echo subjects, and what the study gives it.
fn arguments(step: &StudyStep) -> Vec<String> {
    let mut arguments = Vec::new();
    let is_of_echo = DriverKind::of_program(&step.driver.program) == DriverKind::EchoClient;
    if let (true, Some(bytes)) = (is_of_echo, step.payload) {
        let protocol = match step.speaks {
            Speaks::Framed | Speaks::FramedCredit => "tcp",
            Speaks::Grpc => "grpc",
            Speaks::Http1 | Speaks::Http2 => "rest",
        };
        arguments.extend([protocol, "--payload", &bytes.to_string()].map(str::to_owned));
    }
    arguments.extend_from_slice(&step.driver.arguments);
    arguments
}

/// The port that the study names, or 0, any free one, where somebody has that already.
fn free_port(port: u16) -> u16 {
    let wanted = SocketAddr::from(([127, 0, 0, 1], port));
    TcpListener::bind(wanted).map_or(0, |_| port)
}

impl Apparatus for Bench {
    fn environment(&self) -> Environment {
        self.session.record.environment.clone()
    }

    fn driver_available(&mut self, driver: &Driver) -> Availability {
        let loads_here = self.elsewhere.as_ref().map(Elsewhere::loads_here);
        if let (false, Some(Err(why))) = (driver.is_engine(), loads_here) {
            return Availability::Missing { why };
        }
        if driver.is_engine() || programs::find_driver(&driver.program).is_ok() {
            return Availability::Available { version: None };
        }
        let made_by = match driver.program.contains('/') {
            true => "variants",
            false => "drivers",
        };
        Availability::Missing {
            why: format!("{} is not installed (`make {made_by}`)", driver.program),
        }
    }

    fn start_subject(&mut self, subject: &SubjectSpec) -> Result<(), ApparatusError> {
        if self.session.interrupted() {
            return Err(ApparatusError::Interrupted);
        }
        if let (true, Some(elsewhere)) = (self.is_broken, &self.elsewhere) {
            // An agent whose lease has ended does nothing more for who had it.
            let again = elsewhere.again();
            let again = again.map_err(|failed| self.interrupted_or(failed.message))?;
            (self.elsewhere, self.is_broken) = (Some(again), false);
        }
        let testbed = self.raise(subject);
        let testbed = testbed.map_err(|failed| {
            self.is_broken = true;
            self.interrupted_or(failed.message)
        })?;
        let environment = &mut self.session.record.environment;
        note_versions(environment, testbed.server.subject.as_ref());
        environment.interface = testbed.client.facts().interface;
        let record = &mut self.session.record;
        record.server_environment.clone_from(&testbed.server.facts);
        self.subject = Some(Running {
            testbed,
            is_secure: subject.tls,
        });
        Ok(())
    }

    fn stop_subject(&mut self) {
        let linked = self.subject.as_ref();
        let linked = linked.is_some_and(|running| running.testbed.lab.is_some());
        // A host of a link that is taken down must not have this thread in it.
        if linked && let Err(failed) = self.home.back() {
            self.session.record.caveats.push(Caveat::Note {
                text: format!("could not leave the link: {}", failed.message),
            });
        }
        self.subject = None;
    }

    fn run_step(&mut self, step: &StudyStep) -> Result<Step, ApparatusError> {
        if self.session.interrupted() {
            return Err(ApparatusError::Interrupted);
        }
        let Some(running) = &self.subject else {
            return Err(ApparatusError::Failed("no subject runs".to_owned()));
        };
        if let Some(lost) = running.testbed.client.lost() {
            let why = lost.to_string();
            self.is_broken = true;
            self.failed.get_or_insert(format!("{}: {why}", step.label));
            return Err(ApparatusError::Failed(why));
        }
        let order = self.order(step, running);
        let order = order.map_err(|failed| ApparatusError::Failed(failed.message))?;
        let loads_here = self
            .elsewhere
            .as_ref()
            .map_or(Ok(()), Elsewhere::loads_here);
        if let (Some(_), Err(why)) = (step.client_quota, loads_here) {
            return Err(ApparatusError::Failed(format!("its client's quota: {why}")));
        }
        let quota = step.client_quota.map(testbed::client_quota).transpose();
        let _quota = quota.map_err(|failed| self.interrupted_or(failed.message))?;
        // Workers under a quota give way to what observes them.
        let own = self.session.record.environment.cgroup_quota_cores;
        if step.client_quota.is_some() {
            self.session.record.environment.cgroup_quota_cores = step.client_quota;
        }
        let mut ran = self.session.step(&order).map(drop);
        if let (Ok(()), Some(effort)) = (&ran, step.squeeze)
            && !self.session.interrupted()
        {
            ran = self.squeeze(effort, &order);
        }
        self.session.record.environment.cgroup_quota_cores = own;
        if let Some(Running { testbed, .. }) = &self.subject
            && let Err(went) = testbed.in_foreground()
        {
            return Err(ApparatusError::Failed(went.message));
        }
        match ran {
            Ok(()) => {
                let measured = self.session.record.steps.last();
                Ok(measured.expect("it was just measured").clone())
            }
            Err(failed) => {
                self.is_broken = true;
                let why = format!("{}: {}", step.label, failed.message);
                self.failed.get_or_insert(why);
                Err(self.interrupted_or(failed.message))
            }
        }
    }

    fn take_over(&mut self, measured: &Step) -> Result<(), ApparatusError> {
        match self.session.interrupted() {
            true => Err(ApparatusError::Interrupted),
            false => {
                let taken = self.session.take_over(measured.clone());
                taken.map_err(|failed| self.interrupted_or(failed.message))
            }
        }
    }

    fn deviates(&mut self, deviation: Deviation<'_>) {
        match deviation {
            Deviation::Skipped { step, why } => {
                let text = format!("left out {}: {why}", step.label);
                self.session.presenter.say(&text);
            }
            Deviation::Again { step, why } => {
                let text = format!("again {}: {why}", step.label);
                self.session.presenter.say(&text);
                self.session.one_more_step();
            }
        }
    }
}
