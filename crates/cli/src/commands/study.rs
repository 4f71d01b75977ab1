//! `study`: the built-in experiments, run over the real engine, drivers and subjects.

mod all;
mod resume;
mod sums;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use wallfinder_hosts::{ClientHost, LoadHere};
use wallfinder_model::plan::StepPlan;
use wallfinder_model::scenario::{Deal, Hub, Programs};
use wallfinder_model::{Caveat, Load, Plan, Record, Step, StudyAsked};
use wallfinder_report::number;
use wallfinder_scenario::{is_at_hub, is_pattern, named_once};
use wallfinder_study::results::{Kept, fingerprint};
use wallfinder_study::{
    Hosts, SEED, Size, Skipped, Study, StudyStep, SubjectSpec, builtin, claims, is_reached_by_ssh,
};
use wallfinder_sys::file::{self, Source};
use wallfinder_sys::process;
use wallfinder_testbed::child::RunAs;
use wallfinder_testbed::command;
use wallfinder_testbed::scratch::Scratch;

use crate::bench::Bench;
use crate::bench::elsewhere::{self, Elsewhere};
use crate::commands::{note_versions, record};
use crate::exchange::ask;
use crate::exit::{self, Failed};
use crate::flags::{OutputFlags, StudyCommand, StudyHostFlags};
use crate::interrupt::Interrupts;
use crate::job::Around;
use crate::output;
use crate::placement::Placement;
use crate::present::Presenter;
use crate::secrets;
use crate::session::{Beside, Session};
use crate::testbed::Home;

/// `wallfinder study …`.
pub(crate) fn dispatch(command: StudyCommand) -> Result<(), Failed> {
    match command {
        StudyCommand::List => list(),
        StudyCommand::Show { study } => show(&study),
        StudyCommand::Run(flags) if flags.study == all::NAME => all::run(&flags),
        StudyCommand::Run(flags) => {
            let mut study = load(&flags.study)?;
            study.keep_parts(&flags.with).map_err(Failed::usage)?;
            place(&mut study.hosts, flags.hosts)?;
            let children = &flags.children;
            let is_told = children.as_user.is_some() || !children.env.is_empty();
            if is_told && study.hosts.server.is_some() {
                return Err(Failed::usage(
                    "--as and --env are for programs that are started here; on another host its agent decides",
                ));
            }
            let programs = Programs {
                as_user: flags.children.as_user,
                env: flags.children.env,
            };
            let resumed = flags.resume.then_some(&flags.with[..]);
            run(&study, flags.size, programs, &flags.output, resumed)
        }
        StudyCommand::Keep { run, into } => keep(&run, &into),
        StudyCommand::New { file, from } => new(&file, &from),
    }
}

/// The hosts that the command line names, in the place of those of the file.
fn place(hosts: &mut Hosts, flags: StudyHostFlags) -> Result<(), Failed> {
    if flags.server_host.is_some() {
        (hosts.server, hosts.server_address) = (flags.server_host, flags.server_address);
    }
    if !flags.client_host.is_empty() {
        hosts.clients = flags.client_host;
    }
    hosts.ssh = flags.ssh.or_else(|| hosts.ssh.take());
    hosts.hub = flags.at.place();
    hosts.deal = flags.deal.into();
    let has_hub = hosts.hub != Hub::default();
    for host in hosts.server.iter().chain(&hosts.clients) {
        if !(has_hub && is_at_hub(host)) {
            is_reached_by_ssh(host).map_err(|why| Failed::usage(format!("`{host}`: {why}")))?;
        }
    }
    let clients = &hosts.clients;
    let is_several = clients.len() > 1 || clients.iter().any(|host| is_pattern(host));
    if hosts.deal != Deal::default() && !is_several {
        return Err(Failed::usage(
            "--deal is about several hosts that make a load together: give --client-host for each",
        ));
    }
    match &hosts.server {
        None if !clients.is_empty() => Err(Failed::usage(
            "where the load comes from another host, the servers stand on one too: name it with --server-host",
        )),
        Some(server) if clients.contains(server) => Err(Failed::usage(
            "client and server are on one host there: run Wallfinder on it",
        )),
        _ => named_once(clients).map_err(Failed::usage),
    }?;
    elsewhere::name_clients(hosts)
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
        let by_figures = match claim.is_by_figures() {
            true => " (by the source's figures)",
            false => "",
        };
        text.push_str(&format!("   {:24} {}{by_figures}\n", claim.id, claim.text));
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

/// What a run came to, as it said itself, in a file that pages are made of: claims that were changed since would be
/// asked after the data, and another version may judge otherwise. One that was cut short is not kept: what it lacks
/// is not known to be missing.
fn keep(run: &Path, into: &Path) -> Result<(), Failed> {
    let (mut record, folder) = record::open_with_folder(run)?;
    if !record.complete {
        return Err(Failed::usage(format!(
            "{} did not end as planned: run it again",
            run.display()
        )));
    }
    let name = as_run(folder.path(), &record.plan)?;
    let (has_parts, size) = extent(&record, &name)?;
    let study = with_parts(&name, has_parts)?;
    if builtin::find(&study.id).is_some_and(|builtin| !is_of_builtin(&record, builtin)) {
        return Err(Failed::usage(format!(
            "the run is of a file whose id is that of the built-in study `{}`, and would take its results' place: \
             give it another id",
            study.id
        )));
    }
    let is_judged = !record.claims.is_empty();
    if !is_judged {
        record::judge_steps(&mut record);
        let judged = claims::judge(&study, size, &record.steps, &skipped(&record));
        record.claims = judged.outcomes;
    }
    let asked = record.plan.study.as_ref();
    let kept = Kept {
        as_run: is_judged && asked.is_some_and(|asked| !asked.asked_otherwise),
        ..Kept::of(&study, size, &record)
    };
    let file = into.join(format!("{}.toml", kept.study));
    let kept = match file.exists() && !has_parts {
        true => kept.beside(&kept_in(&file)?, &with_parts(&name, true)?),
        false => kept,
    };
    output::put(&kept.text(), Some(&file))
}

/// Whether a run was of this built-in study, in this version or an earlier one, or of a file that says the same.
fn is_of_builtin(record: &Record, builtin: &builtin::Builtin) -> bool {
    match &record.plan.study {
        Some(asked) => asked.built_in || asked.fingerprint == fingerprint(builtin.text),
        // Of before, when only the command line told.
        None => record.command_line.iter().any(|word| word == builtin.name),
    }
}

/// The study that a run was of, as it was then: the built-in one where that is still the same, else the file in the
/// run's folder.
fn as_run(folder: &Path, plan: &Plan) -> Result<String, Failed> {
    let file = folder.join(resume::STUDY);
    if !file.exists() {
        return Err(Failed::usage(format!(
            "{} is no run of a study, or of a version that did not write down what it asked: there is no {}",
            folder.display(),
            resume::STUDY
        )));
    }
    let text = text_of(&file)?;
    let mut asked = plan.study.iter();
    if asked.any(|asked| asked.fingerprint != fingerprint(&text)) {
        return Err(Failed::usage(format!(
            "{} is not what the run was asked: it was changed since",
            file.display()
        )));
    }
    let same = builtin::ALL.iter().find(|builtin| builtin.text == text);
    Ok(same.map_or_else(
        || file.display().to_string(),
        |builtin| builtin.name.to_owned(),
    ))
}

/// What was kept before in a file.
fn kept_in(file: &Path) -> Result<Kept, Failed> {
    Kept::parse(&file.display().to_string(), &text_of(file)?).map_err(|error| exit::in_file(&error))
}

/// Longest study file.
const STUDY_BYTES_MAX: u64 = 8 << 20;

/// The text of a study, or of what is kept of one.
fn text_of(file: &Path) -> Result<String, Failed> {
    file::read_text(Source::File(file.into()), STUDY_BYTES_MAX, file::PATIENCE)
        .map_err(|error| Failed::usage(format!("{} cannot be read: {error}", file.display())))
}

/// A built-in study by its name, or a file by its path.
fn load(name: &str) -> Result<Study, Failed> {
    if let Some(builtin) = builtin::find(name) {
        return builtin.study().map_err(|error| exit::in_file(&error));
    }
    if !Path::new(name).exists() {
        return Err(unknown(name));
    }
    Study::parse(name, &text_of(Path::new(name))?).map_err(|error| exit::in_file(&error))
}

/// A study's claims anew, by this version and from the record's steps: those of the study that is named,
/// or of the built-in one that the record is of. Other records are left as they are.
pub(crate) fn judge_claims(record: &mut Record, named: Option<&str>) -> Result<(), Failed> {
    let Some((name, has_parts, size)) = study_of(record, named)? else {
        return Ok(());
    };
    let skipped = skipped(record);
    let judged = claims::judge(
        &with_parts(&name, has_parts)?,
        size,
        &record.steps,
        &skipped,
    );
    record.claims = judged.outcomes;
    record.charts = judged.charts;
    Ok(())
}

/// What the run left out, and why: a driver that is not installed, and how it is.
fn skipped(record: &Record) -> Vec<Skipped> {
    let left_out = record.caveats.iter().filter_map(|caveat| match caveat {
        Caveat::LeftOut { step, why } => Some(Skipped {
            label: step.clone(),
            why: why.clone(),
        }),
        _ => None,
    });
    left_out.collect()
}

/// The study that a record is of, by its name or the one given: whether its parts were run, and at which size. `None`
/// where it is of no built-in one.
fn study_of(record: &Record, named: Option<&str>) -> Result<Option<(String, bool, Size)>, Failed> {
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
        return Ok(None);
    };
    let (has_parts, size) = extent(record, name)?;
    Ok(Some((name.to_owned(), has_parts, size)))
}

/// Whether a record has a study's parts, and its size: those that have most of the record's steps, and fewest
/// others.
fn extent(record: &Record, name: &str) -> Result<(bool, Size), Failed> {
    let mut best = None;
    for has_parts in [false, true] {
        let study = with_parts(name, has_parts)?;
        for size in study.sizes() {
            let planned = study.expand(size);
            let labels: BTreeSet<&str> = planned.iter().map(|step| step.label.as_str()).collect();
            let is_of_size = |step: &&Step| labels.contains(step.name.as_str());
            let held = record.steps.iter().filter(is_of_size).count();
            best = best.max(Some((held, Reverse(planned.len()), has_parts, size)));
        }
    }
    match best {
        Some((1.., _, has_parts, size)) => Ok((has_parts, size)),
        _ => Err(Failed::usage(format!(
            "none of the record's steps is one of the study `{name}`"
        ))),
    }
}

/// A study with all of its parts, or with none.
fn with_parts(name: &str, has_parts: bool) -> Result<Study, Failed> {
    let mut study = load(name)?;
    let parts: Vec<String> = study
        .parts()
        .iter()
        .map(|part| (*part).to_owned())
        .collect();
    let wanted = if has_parts { &parts[..] } else { &[] };
    study.keep_parts(wanted).map_err(Failed::usage)?;
    Ok(study)
}

fn unknown(name: &str) -> Failed {
    let names: Vec<&str> = builtin::ALL.iter().map(|builtin| builtin.name).collect();
    Failed::usage(format!(
        "`{name}` is neither a file nor a built-in study ({})",
        names.join(", ")
    ))
}

/// `resumed` are the parts that earlier runs are to have had, where what they measured is taken over.
fn run(
    study: &Study,
    size: Size,
    programs: Programs,
    output: &OutputFlags,
    resumed: Option<&[String]>,
) -> Result<(), Failed> {
    let run_as =
        RunAs::decide(programs.as_user.as_deref(), &programs.env).map_err(Failed::usage)?;
    let steps = study.expand(size);
    let Some(first) = steps.first() else {
        return Err(Failed::usage(format!(
            "the study has no steps of size {size}"
        )));
    };
    secrets::learn(study, &steps);
    let around = Around::of(output);
    let home = Home::here()?;
    let elsewhere = Elsewhere::of(study, &around.reach)?;
    let first = address_of(subject_of(study, first)?, elsewhere.as_ref());
    let from: Arc<dyn ClientHost> = match &elsewhere {
        Some(elsewhere) => Arc::clone(&elsewhere.from),
        None => Arc::new(LoadHere::towards(first)),
    };
    let everywhere = from.processors();
    let placement = match &elsewhere {
        Some(elsewhere) => elsewhere.placement(study),
        None => placement(study),
    };
    if from.name().is_none() && !placement.client.is_empty() {
        process::pin_to(&placement.client).map_err(Failed::run)?;
    }
    let interrupts = Interrupts::catch();
    for step in &steps {
        from.fits(&step.load).map_err(Failed::run)?;
    }
    let mut plan = plan(
        (study, size, &steps),
        &placement,
        &around,
        elsewhere.as_ref(),
    )?;
    let mut environment = from.facts();
    note_versions(&mut environment, None);
    let mut presenter = Presenter::new(output.quiet, output.ascii);
    presenter.sides(&placement.client, &placement.server);
    presenter.say(&format!(
        "{}: {} steps, about {}",
        study.id,
        steps.len(),
        number::length(study.duration(size).0)
    ));
    let sums = sums::sums(study, &programs);
    let mut measured = resume::Measured::default();
    if let Some(parts) = resumed {
        let asked = (study, parts, size);
        measured = resume::measured(&output.runs, asked, &plan, &environment, &sums);
        presenter.say(&measured.said(&steps));
        if let Some(whole) = &measured.whole {
            let shown = whole.display();
            presenter.say(&format!("a run has it whole: wallfinder report {shown}"));
            return record::print_again(whole, output);
        }
    }
    let text = secrets::scrubbed_so_far(&study.text);
    plan.study = Some(StudyAsked {
        fingerprint: fingerprint(&text),
        built_in: builtin::find(&study.id).is_some_and(|builtin| builtin.text == study.text),
        asked_otherwise: measured.asked_otherwise,
    });
    let mut session = Session::begin(
        plan,
        Beside::default(),
        environment,
        output,
        interrupts,
        presenter,
    )?;
    let written = session.folder().write(resume::STUDY, text.as_bytes());
    written.map_err(Failed::run)?;
    let written = session.folder().write(sums::SUMS, sums.as_bytes());
    written.map_err(Failed::run)?;
    let doubt = placement.shared_cores(&[]);
    session.record.caveats.extend(doubt);
    session.record.caveats.extend(measured.caveat());
    let mut bench = Bench {
        session,
        placement,
        everywhere,
        home,
        elsewhere,
        is_broken: false,
        around,
        subject: None,
        failed: None,
        scratch: Scratch::new(run_as.user()).map_err(Failed::run)?,
        programs,
        run_as,
    };
    let ran = wallfinder_study::resume(study, size, &mut bench, measured.steps);
    let failed = bench.failed;
    let mut session = bench.session;
    session.record.steps = ran.steps;
    session.record.claims = ran.claims;
    session.record.charts = ran.charts;
    for skipped in &ran.skipped {
        session.record.caveats.push(Caveat::LeftOut {
            step: skipped.label.clone(),
            why: skipped.why.clone(),
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
    let subject = study.subject(&step.subject);
    subject.ok_or_else(|| Failed::usage(format!("no subject is called `{}`", step.subject)))
}

/// Studies load subjects on loopback, or on a host of their own, at the port that the study gives them.
fn address_of(subject: &SubjectSpec, elsewhere: Option<&Elsewhere>) -> SocketAddr {
    match elsewhere {
        Some(elsewhere) => elsewhere.address(subject.port),
        None => SocketAddr::from(([127, 0, 0, 1], subject.port)),
    }
}

fn plan(
    (study, size, steps): (&Study, Size, &[StudyStep]),
    placement: &Placement,
    around: &Around,
    elsewhere: Option<&Elsewhere>,
) -> Result<Plan, Failed> {
    let planned = steps
        .iter()
        .map(|step| {
            let subject = subject_of(study, step)?;
            let address = address_of(subject, elsewhere);
            let job = around.job(step.scenario(&address.to_string(), subject.tls))?;
            let asked = ask(&job)?;
            let request = asked.known().expect("a study says what it sends");
            Ok(StepPlan {
                name: step.label.clone(),
                target: job.url.target(address),
                load: Load {
                    method: request.method(),
                    header_names: request.header_names(),
                    body_bytes: request.body_bytes(),
                    ..step.load.clone()
                },
            })
        })
        .collect::<Result<Vec<StepPlan>, Failed>>()?;
    let name = format!("{}-{size}", study.id);
    Ok(Plan {
        name: around.output.name.clone().unwrap_or(name),
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
        study: None,
    })
}
