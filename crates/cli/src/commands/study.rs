//! `study`: the built-in experiments, run over the real engine, drivers and subjects.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use wallfinder_conduct::{
    Calibration, Looks, Producer, ProfileOrder, StepOrder, driver_command, sight,
};
use wallfinder_engine::{IoChoice, precheck};
use wallfinder_judge::profile::Rules;
use wallfinder_model::plan::StepPlan;
use wallfinder_model::record::{Ceiling, Step};
use wallfinder_model::{Caveat, Effort, Environment, Load, Plan, ProfileKind, Record, Target};
use wallfinder_report::number;
use wallfinder_study::apparatus::{Apparatus, ApparatusError, Availability, Progress};
use wallfinder_study::{
    Driver, Size, Speaks, Study, StudyStep, SubjectSpec, builtin, claims, payload,
};
use wallfinder_sys::file::{self, Source};
use wallfinder_sys::{namespace, process};
use wallfinder_testbed::child::{Place, RunAs, Shim};
use wallfinder_testbed::driver::{DriverKind, DriverSpec};
use wallfinder_testbed::group::Group;
use wallfinder_testbed::lab::Lab;
use wallfinder_testbed::scratch::Scratch;
use wallfinder_testbed::{Subject, command, programs};
use wallfinder_wire::{Exchange, Request, framed, grpc};

use crate::commands::find::Ground;
use crate::commands::load::CALIBRATE_FOR;
use crate::commands::note_versions;
use crate::commands::profile::addresses;
use crate::exit::Failed;
use crate::flags::{OutputFlags, StudyCommand};
use crate::interrupt::Interrupts;
use crate::output;
use crate::placement::Placement;
use crate::present::Presenter;
use crate::reach::Reach;
use crate::secrets;
use crate::session::{Beside, Session};
use crate::stand::{self, Home, start_subject, subject_spec};
use crate::tls;

/// `wallfinder study …`.
pub(crate) fn dispatch(command: StudyCommand) -> Result<(), Failed> {
    match command {
        StudyCommand::List => list(),
        StudyCommand::Show { study } => show(&study),
        StudyCommand::Run {
            study,
            size,
            with,
            children,
            output,
        } => {
            let mut study = load(&study)?;
            study.keep_parts(&with).map_err(Failed::usage)?;
            run(&study, size, children.run_as()?, &output)
        }
        StudyCommand::New { file, from } => new(&file, &from),
    }
}

/// JSON Schema of study files.
pub(crate) fn schema_text() -> String {
    serde_json::to_string_pretty(&wallfinder_study::schema()).unwrap_or_default()
}

fn list() -> Result<(), Failed> {
    let mut text = String::new();
    for builtin in builtin::ALL {
        let study = builtin.study().map_err(Failed::usage)?;
        text.push_str(&format!(" {:18} {}\n", builtin.name, study.title));
    }
    output::put(&text, None)
}

fn show(name: &str) -> Result<(), Failed> {
    let study = load(name)?;
    let mut text = format!(
        " {}\n\n source    {}\n question  {}\n method    {}\n\n",
        study.title,
        study.source,
        study.question.trim(),
        study.method.trim()
    );
    let mut alone = load(name)?;
    alone.keep_parts(&[]).map_err(Failed::usage)?;
    let mut sizes = |of: &Study, with: &str| {
        for size in Size::ALL {
            text.push_str(&format!(
                " {:9} {} steps, about {}{with}\n",
                size.label(),
                of.expand(size).len(),
                number::length(of.duration(size).0)
            ));
        }
    };
    sizes(&alone, "");
    for part in study.parts() {
        let mut with = load(name)?;
        with.keep_parts(&[part.to_owned()]).map_err(Failed::usage)?;
        sizes(&with, &format!(", --with {part}"));
    }
    text.push_str("\n claims\n");
    for claim in &study.claims {
        text.push_str(&format!("   {:24} {}\n", claim.id, claim.text));
    }
    output::put(&text, None)
}

fn new(file: &Path, from: &str) -> Result<(), Failed> {
    let builtin = builtin::find(from).ok_or_else(|| unknown(from))?;
    let id = file
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    // A file that is there is somebody's work.
    let mut created = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)
        .map_err(|error| Failed::run(format!("{} cannot be made: {error}", file.display())))?;
    std::io::Write::write_all(&mut created, builtin.copy(&id).as_bytes())
        .map_err(|error| Failed::run(format!("{} cannot be written: {error}", file.display())))
}

/// Longest study file.
const STUDY_BYTES_MAX: u64 = 8 << 20;

/// A built-in study by its name, or a file by its path.
fn load(name: &str) -> Result<Study, Failed> {
    if let Some(builtin) = builtin::find(name) {
        return builtin.study().map_err(study_error);
    }
    if !Path::new(name).exists() {
        return Err(unknown(name));
    }
    let text = file::read_text(Source::File(name.into()), STUDY_BYTES_MAX, file::PATIENCE)
        .map_err(|error| Failed::usage(format!("{name} cannot be read: {error}")))?;
    Study::parse(name, &text).map_err(study_error)
}

/// A study's claims anew, by this version and from the record's steps: those of the study that is named,
/// or of the built-in one that the record is of. Other records are left as they are.
pub(crate) fn judge_claims(record: &mut Record, named: Option<&str>) -> Result<(), Failed> {
    let of_record = || {
        // A run may have been given a name of its own; then the command line has the study's.
        let begins = |name: &str| record.plan.name.starts_with(&format!("{name}-"));
        let asked = |name: &str| record.command_line.iter().any(|word| word == name);
        let is_study = record.plan.command == "study";
        let names = || builtin::ALL.iter().map(|builtin| builtin.name);
        let found = names().find(|name| begins(name));
        let found = found.or_else(|| names().find(|name| asked(name)));
        found.filter(|_| is_study)
    };
    let Some(name) = named.or_else(of_record) else {
        return Ok(());
    };
    let study = |has_parts: bool| -> Result<Study, Failed> {
        let mut study = load(name)?;
        let parts: Vec<String> = study
            .parts()
            .iter()
            .map(|part| (*part).to_owned())
            .collect();
        let wanted = if has_parts { &parts[..] } else { &[] };
        study.keep_parts(wanted).map_err(Failed::usage)?;
        Ok(study)
    };
    // The size that has most of the record's steps, and fewest others.
    let mut best = None;
    for has_parts in [false, true] {
        let study = study(has_parts)?;
        for size in study.sizes() {
            let planned = study.expand(size);
            let labels: BTreeSet<&str> = planned.iter().map(|step| step.label.as_str()).collect();
            let is_of_size = |step: &&Step| labels.contains(step.name.as_str());
            let held = record.steps.iter().filter(is_of_size).count();
            best = best.max(Some((held, Reverse(planned.len()), has_parts, size)));
        }
    }
    match best {
        Some((1.., _, has_parts, size)) => {
            let judged = claims::judge(&study(has_parts)?, size, &record.steps, &[]);
            record.claims = judged.outcomes;
            record.charts = judged.charts;
            Ok(())
        }
        _ => Err(Failed::usage(format!(
            "none of the record's steps is one of the study `{name}`"
        ))),
    }
}

/// With the place in the file, as the error's own report draws it.
fn study_error(error: wallfinder_study::StudyError) -> Failed {
    let mut drawn = String::new();
    let theme = miette::GraphicalTheme::unicode_nocolor();
    let handler = miette::GraphicalReportHandler::new_themed(theme);
    match handler.render_report(&mut drawn, &error) {
        Ok(()) => Failed::usage(format!("{error}\n{drawn}")),
        Err(_) => Failed::usage(error),
    }
}

fn unknown(name: &str) -> Failed {
    let names: Vec<&str> = builtin::ALL.iter().map(|builtin| builtin.name).collect();
    Failed::usage(format!(
        "`{name}` is neither a file nor a built-in study ({})",
        names.join(", ")
    ))
}

fn run(study: &Study, size: Size, run_as: RunAs, output: &OutputFlags) -> Result<(), Failed> {
    let steps = study.expand(size);
    let Some(first) = steps.first() else {
        return Err(Failed::usage(format!(
            "the study has no steps of size {size}"
        )));
    };
    secrets::learn(study, &steps);
    let everywhere = process::allowed_cpus();
    let placement = placement(study);
    if !placement.client.is_empty() {
        process::pin_to(&placement.client).map_err(Failed::run)?;
    }
    let home = Home::here()?;
    let interrupts = Interrupts::catch();
    let address = address_of(subject_of(study, first)?);
    for step in &steps {
        precheck::check(&step.load, &address).map_err(Failed::run)?;
    }
    let plan = plan(study, size, &steps, &placement, output)?;
    let mut environment = wallfinder_probe::fingerprint(Some(address));
    note_versions(&mut environment, None);
    let mut presenter = Presenter::new(output.quiet, output.ascii);
    presenter.sides(&placement.client, &placement.server);
    presenter.say(&format!(
        "{}: {} steps, about {}",
        study.id,
        steps.len(),
        number::length(study.duration(size).0)
    ));
    let mut session = Session::begin(
        plan,
        Beside::default(),
        environment,
        output,
        interrupts,
        presenter,
    )?;
    let doubt = placement.shared_cores(&[]);
    session.record.caveats.extend(doubt);
    let mut bench = Bench {
        session,
        placement,
        everywhere,
        home,
        subject: None,
        failed: None,
        scratch: Scratch::new(run_as.user()).map_err(Failed::run)?,
        run_as,
    };
    let ran = wallfinder_study::run(study, size, &mut bench);
    let failed = bench.failed;
    let mut session = bench.session;
    session.record.steps = ran.steps;
    session.record.claims = ran.claims;
    session.record.charts = ran.charts;
    for skipped in &ran.skipped {
        session.record.caveats.push(Caveat::Note {
            text: format!("left out {}: {}", skipped.label, skipped.why),
        });
    }
    let result = match ran.faults.as_slice() {
        [] if session.record.steps.is_empty() && !ran.interrupted => Err(Failed::run(format!(
            "nothing was measured: {}",
            ran.skipped
                .first()
                .map_or("there was no step", |skipped| skipped.why.as_str())
        ))),
        // The other steps ran all the same.
        [] => failed.map_or(Ok(()), |why| Err(Failed::run(why))),
        faults => Err(Failed::usage(format!(
            "conditions of the study's claims are wrong: {}",
            faults.join("; ")
        ))),
    };
    session.finish(result, output).map(|_| ())
}

/// As many processors for each side as the study asks for, if they are there.
fn placement(study: &Study) -> Placement {
    Placement::counted(study.server_cpus as usize, study.client_cpus as usize)
}

fn subject_of<'s>(study: &'s Study, step: &StudyStep) -> Result<&'s SubjectSpec, Failed> {
    let subject = study.subjects.iter().find(|s| s.name == step.subject);
    subject.ok_or_else(|| Failed::usage(format!("no subject is called `{}`", step.subject)))
}

/// Studies load subjects on loopback, at the port that the study gives them.
fn address_of(subject: &SubjectSpec) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], subject.port))
}

/// What a step is held at; what is agreed on under TLS is known when its subject stands.
fn target(address: SocketAddr, step: &StudyStep, is_secure: bool) -> Target {
    let protocol = match step.speaks {
        Speaks::Http1 | Speaks::Http2 => "http",
        Speaks::Grpc => "grpc",
        Speaks::Framed | Speaks::FramedCredit => "tcp",
    };
    let scheme = format!("{protocol}{}", if is_secure { "s" } else { "" });
    let path = &step.path;
    Target {
        url: format!("{scheme}://{address}{path}"),
        scheme,
        host: address.ip().to_string(),
        port: address.port(),
        path: path.split('?').next().unwrap_or(path).to_owned(),
        address: address.to_string(),
        tls: None,
    }
}

/// The protocol inside TLS, as ALPN names it; framed messages have no registered one.
fn alpn(step: &StudyStep) -> Option<&'static str> {
    match step.speaks {
        Speaks::Http1 => Some(tls::HTTP1),
        Speaks::Http2 | Speaks::Grpc => Some(tls::H2),
        Speaks::Framed | Speaks::FramedCredit => None,
    }
}

/// What a step asks: the same message in each protocol, or a path alone.
fn exchange(address: SocketAddr, step: &StudyStep) -> Result<Exchange, String> {
    let message = step.payload.map(payload::echo);
    let http = || {
        let mut request = Request::get(address.to_string(), step.path.clone());
        request.headers.clone_from(&step.headers);
        if let Some(message) = message.clone() {
            request.method = "POST".to_owned();
            let kind = (
                "Content-Type".to_owned(),
                "application/x-protobuf".to_owned(),
            );
            request.headers.push(kind);
            request.body = message;
        }
        request
    };
    let exchange = match step.speaks {
        Speaks::Http1 => Exchange::Http1(http()),
        Speaks::Http2 => Exchange::Http2(http()),
        Speaks::Grpc => {
            let message = message.unwrap_or_default();
            Exchange::Grpc(grpc::Request::unary(
                address.to_string(),
                &step.path,
                message,
            ))
        }
        Speaks::Framed => framed_exchange(ECHO_FRAMES, message)?,
        Speaks::FramedCredit => framed_exchange(&format!("{ECHO_FRAMES},credit"), message)?,
    };
    exchange.check(step.load.in_flight_per_connection)?;
    Ok(exchange)
}

fn framed_exchange(format: &str, message: Option<Vec<u8>>) -> Result<Exchange, String> {
    let format = format.parse();
    Ok(Exchange::Framed(framed::Request {
        format: format.map_err(|why: framed::BadFormat| why.to_string())?,
        message: message.unwrap_or_default(),
    }))
}

/// The load of a step, with what only its request tells.
fn load_of(step: &StudyStep, exchange: &Exchange) -> Load {
    Load {
        method: exchange.method(),
        header_names: exchange.header_names(),
        body_bytes: exchange.body_bytes(),
        ..step.load.clone()
    }
}

fn plan(
    study: &Study,
    size: Size,
    steps: &[StudyStep],
    placement: &Placement,
    output: &OutputFlags,
) -> Result<Plan, Failed> {
    let planned = steps
        .iter()
        .map(|step| {
            let subject = subject_of(study, step)?;
            let address = address_of(subject);
            let request = exchange(address, step).map_err(Failed::usage)?;
            Ok(StepPlan {
                name: step.label.clone(),
                target: target(address, step, subject.tls),
                load: load_of(step, &request),
            })
        })
        .collect::<Result<Vec<StepPlan>, Failed>>()?;
    let name = format!("{}-{size}", study.id);
    Ok(Plan {
        name: output.name.clone().unwrap_or(name),
        command: "study".to_owned(),
        target: planned[0].target.clone(),
        steps: planned,
        seed: SEED,
        client_cpus: placement.client.clone(),
        server_cpus: placement.server.clone(),
        subject: study
            .subjects
            .first()
            .map(|subject| command::join(&subject.command)),
        driver: None,
        link: None,
        effort: None,
    })
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

/// The port that the study names, or any free one where somebody has that already.
fn free_port(port: u16) -> Option<u16> {
    let wanted = SocketAddr::from(([127, 0, 0, 1], port));
    match TcpListener::bind(wanted) {
        Ok(_) => Some(port),
        Err(_) => Some(0),
    }
}

/// How the echo subjects' messages stand on a plain stream.
const ECHO_FRAMES: &str = "u32be";

/// Studies are run again with the same seed.
const SEED: u64 = 1;

/// The subject that runs now, and where. The order of the fields is that of taking it down.
struct Running {
    /// Kept for its life: dropping it ends it.
    subject: Subject,
    address: SocketAddr,
    /// Whether it serves TLS.
    is_secure: bool,
    /// The link that it listens on, where it has one.
    lab: Option<Lab>,
    /// Its quota, where it has one.
    _quota: Option<Group>,
}

/// What a subject stands on.
struct Laid {
    lab: Option<Lab>,
    quota: Option<Group>,
    place: Place,
}

/// Lays a subject's link and makes its quota, where it has them.
fn lay(subject: &SubjectSpec) -> Result<Laid, Failed> {
    let shim = Shim::of_this_process();
    let lab = stand::lay(subject.link.as_deref(), &shim)?;
    let quota = subject
        .quota_cores
        .map(|cores| stand::server_quota(cores, &shim))
        .transpose()?;
    let folders = quota.iter().map(|group| group.folder().to_owned());
    let place = Place {
        netns: lab.as_ref().map(|lab| lab.server_netns().to_owned()),
        cgroups: folders.collect(),
    };
    Ok(Laid { lab, quota, place })
}

/// The real apparatus: subjects as children, our engine and foreign drivers, the probes.
struct Bench {
    session: Session,
    placement: Placement,
    /// Every processor that there is for both sides.
    everywhere: Vec<u32>,
    /// Where this thread is when there is no link.
    home: Home,
    subject: Option<Running>,
    /// The first step that broke down as it ran.
    failed: Option<String>,
    /// As whom subjects and drivers run.
    run_as: RunAs,
    /// Files that drivers are given.
    scratch: Scratch,
}

impl Bench {
    fn order(&self, step: &StudyStep, address: SocketAddr) -> Result<StepOrder, String> {
        let subject = self.subject.as_ref().map(|running| &running.subject);
        let (server, server_not_seen) = sight::server(address, sight::Named::Nobody, subject);
        let request = exchange(address, step)?;
        let load = Load {
            workers: self.placement.workers(None, step.load.connections),
            ..load_of(step, &request)
        };
        let running = self.subject.as_ref();
        let is_secure = running.is_some_and(|running| running.is_secure);
        let greet = || tls::greet_subject(address, alpn(step)).map_err(|failed| failed.message);
        let secured = is_secure.then(greet).transpose()?;
        let target = Target {
            tls: secured.as_ref().map(|secured| secured.agreed.clone()),
            ..target(address, step, is_secure)
        };
        let index = self.session.record.steps.len() as u32;
        let lab = running.and_then(|running| running.lab.as_ref());
        Ok(StepOrder {
            index,
            name: step.label.clone(),
            producer: self.producer(step, &request, &target.url)?,
            target,
            address,
            load,
            request,
            tls: secured.map(|secured| secured.client),
            client_cpus: match step.driver.everywhere {
                true => self.everywhere.clone(),
                false => self.placement.client.clone(),
            },
            null_server_cpu: self.placement.null_server_cpu(),
            seed: SEED,
            server,
            server_not_seen,
            calibrate: step.calibrate.then(|| Calibration::anew(CALIBRATE_FOR)),
            samples: step.samples.then(|| self.session.folder().clone()),
            profiles: self.profiles(step, address)?,
            watched: true,
            paced: true,
            relay: lab.and_then(Lab::relay_watch),
        })
    }

    /// Every kind, from wherever the subject says that it offers them, and what the kernel is to
    /// tell of both sides.
    fn profiles(
        &self,
        step: &StudyStep,
        address: SocketAddr,
    ) -> Result<Option<ProfileOrder>, String> {
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
            let subject = self.subject.as_ref().map(|running| &running.subject);
            offered = addresses(&[], subject, address, &Reach::default())
                .map_err(|failed| failed.message)?;
            if offered.is_empty() {
                return Err("the subject offers no profiles: --pprof 0 in its command".to_owned());
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
        let ground = Ground {
            placement: &self.placement,
            family: order.server.as_ref(),
            backend_pids: &[],
            backend_cores: 0.0,
            own_engine: true,
            seed: SEED,
        };
        let lab = self
            .subject
            .as_mut()
            .and_then(|running| running.lab.as_mut());
        let shapers = lab.map_or((None, None), Lab::take_shapers);
        let proof = ground.proof(effort, shapers, order, &self.session.record.steps);
        self.session.prove(order, proof, None).map(drop)
    }

    fn producer(
        &self,
        step: &StudyStep,
        request: &Exchange,
        url: &str,
    ) -> Result<Producer, String> {
        if step.driver.is_engine() {
            return Ok(Producer::Engine(IoChoice::Auto));
        }
        let program =
            programs::find_driver(&step.driver.program).map_err(|error| error.to_string())?;
        let program = program.display().to_string();
        let arguments = arguments(step);
        let command = driver_command(&program, &arguments, &step.load, request, &self.scratch)?;
        let command = command::with_env(&step.driver.env, &command);
        let spec = DriverSpec::parse(&command).map_err(|error| error.to_string())?;
        let checked = Reach::default().check_driver(&spec);
        checked.map_err(|failed| failed.message)?;
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
}

impl Apparatus for Bench {
    fn environment(&self) -> Environment {
        self.session.record.environment.clone()
    }

    fn driver_available(&mut self, driver: &Driver) -> Availability {
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
        let laid = lay(subject).map_err(|failed| self.interrupted_or(failed.message))?;
        let cpus = &self.placement.server;
        let cpus = match subject.everywhere {
            true => &self.everywhere[..],
            false => &cpus[..cpus.len().min(subject.cpus as usize)],
        };
        let command = command::with_env(&subject.env, &command::join(&subject.command));
        let ip = laid.lab.as_ref().map(Lab::server_address);
        // On a host of its own every port is free.
        let port = match ip {
            Some(_) => Some(subject.port),
            None => free_port(subject.port),
        };
        let mut spec = subject_spec(&command, cpus, port, ip);
        spec.place = laid.place;
        spec.run_as = self.run_as.clone();
        let started = start_subject(spec, ip, &Reach::default());
        let (running, address) = started.map_err(|failed| self.interrupted_or(failed.message))?;
        if let Some(lab) = &laid.lab {
            let relay_cpus = self.placement.relay(&self.everywhere);
            lab.relay_on(&relay_cpus)
                .map_err(|why| self.interrupted_or(why))?;
            namespace::enter_netns(lab.client_netns()).map_err(|why| self.interrupted_or(why))?;
        }
        let environment = &mut self.session.record.environment;
        note_versions(environment, Some(&running));
        environment.interface = wallfinder_probe::fingerprint(Some(address)).interface;
        self.subject = Some(Running {
            subject: running,
            address,
            is_secure: subject.tls,
            lab: laid.lab,
            _quota: laid.quota,
        });
        Ok(())
    }

    fn stop_subject(&mut self) {
        let linked = self.subject.as_ref().is_some_and(|it| it.lab.is_some());
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
        let address = match &self.subject {
            Some(running) => running.address,
            None => return Err(ApparatusError::Failed("no subject runs".to_owned())),
        };
        let order = self.order(step, address).map_err(ApparatusError::Failed)?;
        let shim = Shim::of_this_process();
        let quota = step
            .client_quota
            .map(|cores| stand::client_quota(cores, &shim))
            .transpose();
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
        let subject = self.subject.as_ref().map(|running| &running.subject);
        if let Some(went) = subject.and_then(Subject::in_background) {
            return Err(ApparatusError::Failed(went.to_string()));
        }
        match ran {
            Ok(()) => {
                let measured = self.session.record.steps.last();
                Ok(measured.expect("it was just measured").clone())
            }
            Err(failed) => {
                let why = format!("{}: {}", step.label, failed.message);
                self.failed.get_or_insert(why);
                Err(self.interrupted_or(failed.message))
            }
        }
    }

    fn calibrate(
        &mut self,
        _step: &StudyStep,
        _measured: &Step,
    ) -> Result<Option<Ceiling>, ApparatusError> {
        // Measured with the step where it was asked for; a foreign driver has none.
        Ok(None)
    }

    fn progress(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Skipped { step, why } => {
                let text = format!("left out {}: {why}", step.label);
                self.session.presenter.say(&text);
            }
            Progress::Again { step, why } => {
                let text = format!("again {}: {why}", step.label);
                self.session.presenter.say(&text);
                self.session.one_more_step();
            }
            Progress::Subject { .. } | Progress::Starting { .. } | Progress::Ended { .. } => {}
        }
    }
}
