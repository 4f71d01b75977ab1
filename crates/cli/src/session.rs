//! One run from its folder to its seal: steps are conducted, journalled as they go, and
//! the record is whole or says what is missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wallfinder_conduct::experiment::{ExperimentAudience, ExperimentOrder, Restart, experiment};
use wallfinder_conduct::{Audience, ClientNow, ConductError, Producer, StepOrder, conduct};
use wallfinder_hosts::{ClientHost, cpus_of};
use wallfinder_judge::routes;
use wallfinder_judge::{judge_step, proof};
use wallfinder_model::experiment::{
    Alone, Condition, Effort, Experiment, OutOfReach, Setting, Squeeze,
};
use wallfinder_model::profile::ProfileKind;
use wallfinder_model::record::{Ab, Interval, SCHEMA};
use wallfinder_model::record::{MixStacks, MixWindow, RequestKind};
use wallfinder_model::sizes::Sizes;
use wallfinder_model::telemetry::Sample;
use wallfinder_model::{Arrival, Caveat, Environment, Nanos, Plan, Record, Scenario, Step};
use wallfinder_report::text::Paths;
use wallfinder_report::text::live::Phase;
use wallfinder_report::{number, words};
use wallfinder_store::{Folder, Journal, RunFolder, StoreError, utc_rfc3339};
use wallfinder_testbed::squeeze::Lever;

use crate::commands::note_versions;
use crate::exit::Failed;
use crate::flags::OutputFlags;
use crate::interrupt::Interrupts;
use crate::output;
use crate::present::Presenter;
use crate::secrets::{self, Kept};
use crate::testbed::{SubjectEnded, Testbed};
use crate::tls;

/// A run under way.
pub(crate) struct Session {
    folder: RunFolder,
    journal: Journal,
    pub(crate) record: Record,
    interrupts: Interrupts,
    pub(crate) presenter: Presenter,
    /// Steps planned: what progress counts towards.
    steps: u32,
    /// Where loads came from.
    clients: Vec<Arc<dyn ClientHost>>,
}

/// What a run is beside its steps, known before they are measured.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// As it may be kept.
    pub(crate) scenario: Option<Scenario>,
    pub(crate) ab: Option<Ab>,
    pub(crate) sizes: Option<Sizes>,
}

impl Beside {
    /// A scenario alone.
    pub(crate) fn of(scenario: &Scenario) -> Beside {
        Beside {
            scenario: Some(secrets::shown_scenario(scenario)),
            ..Beside::default()
        }
    }
}

impl Session {
    /// Makes the folder and the journal: after this the disk is known to take the record.
    pub(crate) fn begin(
        plan: Plan,
        beside: Beside,
        environment: Environment,
        output: &OutputFlags,
        interrupts: Interrupts,
        presenter: Presenter,
    ) -> Result<Session, Failed> {
        // After the load it would be too late to hear of a name that is wrong.
        output::check(output.output.as_deref())?;
        let now = SystemTime::now();
        let plan = plan.without(secrets::ours()).into_owned();
        let folder = create_folder(&output.runs, &plan.name, now)?;
        let steps = plan.steps.len() as u32;
        let record = Record {
            schema: SCHEMA.to_owned(),
            id: folder.id().to_owned(),
            started_utc: utc_rfc3339(now),
            tool_version: crate::VERSION.to_owned(),
            command_line: secrets::shown_command_line(),
            scenario: beside.scenario,
            plan,
            environment,
            server_environment: None,
            steps: Vec::new(),
            caveats: Vec::new(),
            complete: false,
            interrupted: None,
            ab: beside.ab,
            sizes: beside.sizes,
            charts: Vec::new(),
            claims: Vec::new(),
        };
        let record = record.without(secrets::ours()).into_owned();
        let journal = folder.begin(&record).map_err(store)?;
        Ok(Session {
            folder,
            journal,
            record,
            interrupts,
            presenter,
            steps,
            clients: Vec::new(),
        })
    }

    /// The same for a load on a testbed: what it runs on is looked at here.
    pub(crate) fn begin_on(
        testbed: &Testbed,
        plan: Plan,
        beside: Beside,
        output: &OutputFlags,
        interrupts: Interrupts,
    ) -> Result<Session, Failed> {
        let server = &testbed.server;
        let mut environment = testbed.client.facts();
        note_versions(&mut environment, server.subject.as_ref());
        let mut presenter = Presenter::new(output.quiet, output.ascii);
        let server_cpus = server.host.family().and_then(cpus_of);
        let server_cpus = server_cpus.unwrap_or_default();
        presenter.sides(&testbed.placement.client, &server_cpus);
        let session = Session::begin(plan, beside, environment, output, interrupts, presenter);
        let mut session = session?;
        session.record.server_environment.clone_from(&server.facts);
        let doubt = testbed.placement.shared_cores(&server_cpus);
        session.record.caveats.extend(doubt);
        Ok(session)
    }

    /// Whether a signal has ended the run.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupts.came().is_some()
    }

    /// The record's folder, for what is kept beside it.
    pub(crate) fn folder(&self) -> &Folder {
        self.folder.folder()
    }

    /// There will be one step more than was planned.
    pub(crate) fn one_more_step(&mut self) {
        self.steps = self.steps.saturating_add(1);
    }

    /// Runs one step and keeps it.
    pub(crate) fn step(&mut self, order: &StepOrder) -> Result<&Step, Failed> {
        let signals = self.interrupts.next_step();
        let mut live = Live {
            presenter: &mut self.presenter,
            journal: &self.journal,
            interrupts: &self.interrupts,
            failure: None,
            index: order.index,
            steps: self.steps,
        };
        let conducted = conduct(order, &self.record.environment, &signals, &mut live);
        let failure = live.failure;
        let step = match conducted {
            Ok(step) => step,
            Err(error) => return Err(self.conduct_failed(&error, &*order.client)),
        };
        if let Some(error) = failure {
            return Err(store(error));
        }
        let step = step.without(secrets::ours()).into_owned();
        self.journal.step_ends(&step).map_err(store)?;
        self.presenter.ended(&step, self.steps);
        self.hint(order, &step);
        self.record.steps.push(step);
        self.clients.push(Arc::clone(&order.client));
        let lost = order.client.lost().or_else(|| order.server.lost());
        if let Some(lost) = lost.filter(|_| !self.interrupted()) {
            return Err(Failed::run(lost));
        }
        Ok(self.record.steps.last().expect("it was just pushed"))
    }

    /// Keeps a step that an earlier run measured, as if it had just ended.
    pub(crate) fn take_over(&mut self, measured: Step) -> Result<(), Failed> {
        let step = Step {
            index: self.record.steps.len() as u32,
            ..measured
        };
        let step = step.without(secrets::ours()).into_owned();
        self.journal.step_ends(&step).map_err(store)?;
        self.record.steps.push(step);
        Ok(())
    }

    /// Where nothing was answered well: whether the server speaks TLS, and the load did not.
    fn hint(&mut self, order: &StepOrder, step: &Step) {
        let is_plain = order.tls.is_none() && matches!(order.producer, Producer::Engine(_));
        if !is_plain || step.counts.answered > 0 || self.interrupted() {
            return;
        }
        let hint = tls::hint_of_tls(order.address, &order.target.scheme);
        let caveat = hint.map(|text| Caveat::Note { text });
        let caveat = caveat.filter(|caveat| !self.record.caveats.contains(caveat));
        self.record.caveats.extend(caveat);
    }

    /// What came of a load, unless the server that was started for the run went into the background
    /// meanwhile, or ended: that is why what follows could not be measured.
    pub(crate) fn served(
        &mut self,
        testbed: &Testbed,
        result: Result<(), Failed>,
    ) -> Result<(), Failed> {
        testbed.in_foreground()?;
        let of_set_up = testbed.told_of_set_up().map(|text| Caveat::Note { text });
        self.record.caveats.extend(of_set_up);
        match testbed.subject_ended().filter(|_| !self.interrupted()) {
            Some(ended) => Err(self.subject_ended(ended)),
            None => result,
        }
    }

    fn subject_ended(&mut self, ended: SubjectEnded) -> Failed {
        let SubjectEnded { how, said } = ended;
        let mut message = format!("the subject ended during the load, with {how}");
        if !said.is_empty() {
            message.push_str(&format!(". It said:\n    {}", said.replace('\n', "\n    ")));
        }
        self.record.caveats.push(Caveat::SubjectEnded { how, said });
        Failed::run(message)
    }

    /// Squeezes at the load of the last step, and judges it by that. `restart` is who can
    /// start the server anew, where it is ours.
    pub(crate) fn prove(
        &mut self,
        step: &StepOrder,
        how: Proof,
        restart: Option<&mut dyn Restart>,
    ) -> Result<&Step, Failed> {
        let signals = self.interrupts.next_step();
        let base = self.record.steps.last().expect("a step was measured");
        let order = ExperimentOrder {
            step,
            base,
            effort: how.effort,
            window: how.window.map(|window| Duration::from_nanos(window.0)),
            seed: how.seed,
            levers: how.levers,
            out_of_reach: how.out_of_reach,
            setting: how.setting,
            null: how.null,
            restart: restart.map(|restart| restart as &mut dyn Restart),
        };
        let mut live = Squeezing {
            presenter: &mut self.presenter,
            journal: &self.journal,
            interrupts: &self.interrupts,
            failure: None,
            index: base.index,
            conditions: 0,
            so_far: String::new(),
        };
        let conducted = experiment(order, &self.record.environment, &signals, &mut live);
        let failure = live.failure;
        let (experiment, doubts) =
            conducted.map_err(|error| self.conduct_failed(&error, &*step.client))?;
        let step = self.record.steps.last_mut().expect("it is still there");
        step.experiment = Some(experiment);
        step.caveats.extend(doubts);
        step.verdict = Some(judge_step(step, &self.record.environment));
        if let Some(error) = failure {
            return Err(store(error));
        }
        let kept = step.without(secrets::ours());
        self.journal.step_ends(&kept).map_err(store)?;
        Ok(step)
    }

    /// Asks for one request at a time, and judges the step that was squeezed again by what each takes. That
    /// nothing was answered leaves the wall as it is.
    pub(crate) fn ask_alone(&mut self, order: &StepOrder) -> Result<(), Failed> {
        let pause_ns = match order.load.arrival {
            Arrival::Closed { think } => think.0,
            _ => 0,
        };
        self.once_more("nothing: one request at a time", order, |step, asked| {
            let latency = asked.ok().and_then(|asked| asked.latency);
            if let (Some(experiment), Some(latency)) = (&mut step.experiment, latency)
                && latency.count > 0
            {
                experiment.alone = Some(Alone {
                    answered: latency.count,
                    mean_ns: latency.mean_ns,
                    pause_ns,
                });
            }
            None
        })
    }

    /// Holds the mix of the step that was squeezed with other weights, and keeps what each kind costs. Whether as many
    /// windows again may tell of kinds that cost each other.
    pub(crate) fn ask_mixes(&mut self, orders: &[StepOrder]) -> Result<bool, Failed> {
        let mut is_open = false;
        let of = orders.len();
        for (order, nth) in orders.iter().zip(1..) {
            if self.interrupted() {
                return Ok(false);
            }
            let what = format!("nothing: other weights of the mix, {nth} of {of}");
            // Without all of its windows it is not told which requests cost each other: one that failed is tried again.
            let mut is_measured = false;
            for is_last in [false, true] {
                if is_measured {
                    break;
                }
                self.once_more(&what, order, |step, asked| match asked {
                    Ok(asked) => {
                        step.mix_windows.push(mix_window(&asked));
                        (is_open, is_measured) = (routes::fill(step), true);
                        None
                    }
                    Err(error) => is_last.then(|| Caveat::OtherWeightsUnmeasured {
                        why: error.to_string(),
                    }),
                })?;
            }
        }
        Ok(is_open)
    }

    /// Holds the load of the step that was squeezed once more while the server is profiled, and
    /// judges that step again by what it shows. That there are no profiles is a doubt, and no
    /// failure: the wall stands without them.
    pub(crate) fn look_inside(&mut self, order: &StepOrder) -> Result<(), Failed> {
        self.once_more("nothing: the server is profiled", order, |step, looked| {
            let looked = match looked {
                Ok(looked) => looked,
                Err(error) => {
                    let why = Some(error.to_string());
                    return Some(Caveat::NothingProfiled { why });
                }
            };
            step.profiles = looked.profiles;
            step.client_profiles = looked.client_profiles;
            None
        })
    }

    /// Holds one more load at the server of the step that was squeezed, gives what came of it to that
    /// step, and judges it again. What `keep` gives back is a doubt.
    fn once_more(
        &mut self,
        what: &str,
        order: &StepOrder,
        keep: impl FnOnce(&mut Step, Result<Step, ConductError>) -> Option<Caveat>,
    ) -> Result<(), Failed> {
        let signals = self.interrupts.next_step();
        self.presenter.phase(Phase::Squeezing(what.to_owned()));
        let environment = &self.record.environment;
        let nobody = &mut wallfinder_conduct::Nobody;
        let conducted = conduct(order, environment, &signals, nobody);
        let step = self.record.steps.last_mut().expect("a step was squeezed");
        self.record.caveats.extend(keep(step, conducted));
        step.verdict = Some(judge_step(step, environment));
        let kept = step.without(secrets::ours());
        self.journal.step_ends(&kept).map_err(store)
    }

    /// Who was interrupted before there was any load has not failed. What became of client hosts that are lost is told.
    fn conduct_failed(&self, error: &ConductError, client: &dyn ClientHost) -> Failed {
        match self.interrupts.came() {
            Some((code, _)) => {
                let lost = client.lost().map(|lost| lost.to_string());
                Failed::with_code(code, lost.unwrap_or_default())
            }
            None => Failed::run(error),
        }
    }

    /// Seals the record, writes the report beside it, prints the result, and gives the
    /// record back. `result` is what the steps came to: a failure is reported after what
    /// was measured until then has been sealed and printed.
    pub(crate) fn finish(
        self,
        result: Result<(), Failed>,
        output: &OutputFlags,
    ) -> Result<Record, Failed> {
        let interrupts = self.interrupts.clone();
        let sealed = self.seal(result);
        let record = sealed.record;
        if sealed.result.is_err() && record.steps.is_empty() {
            return sealed.result.map(|()| record);
        }
        let folder = shown(&sealed.folder);
        let paths = Paths {
            record: Some(&folder),
            report: Some(&shown(&sealed.folder.join(PAGE))),
        };
        let file = output.output.as_deref();
        let printed = output::print(&record, &paths, output.format, file, output.ascii);
        sealed
            .result
            .map_err(|failed| match failed.message.as_str() {
                "" => failed,
                message => Failed {
                    message: format!(
                        "{message}\nWhat was measured until then: `wallfinder report {folder}`"
                    ),
                    ..failed
                },
            })?;
        printed?;
        interrupts.none_came()?;
        Ok(record)
    }

    /// As [`Session::finish`], without printing, and whether interrupted or not.
    pub(crate) fn seal(mut self, result: Result<(), Failed>) -> Sealed {
        if let Some((_, name)) = self.interrupts.came() {
            self.record.interrupted = Some(name.to_owned());
        }
        self.record.complete = result.is_ok() && self.record.interrupted.is_none();
        if !self.record.complete {
            let (measured, steps) = (self.record.steps.len(), self.steps);
            let fewer = (measured < steps as usize)
                .then(|| format!("{measured} of {steps} steps were measured"));
            let why = result.as_ref().err().map(|failed| failed.message.clone());
            let what: Vec<String> = fewer.into_iter().chain(why).collect();
            let what = what.join("; ");
            if !what.is_empty() {
                self.record.caveats.push(Caveat::Incomplete { what });
            }
        }
        self.record = self.record.without(secrets::ours()).into_owned();
        // Words for who reads the file; nothing reads them back.
        let worded = wallfinder_report::json::worded(&self.record);
        let sealed = self.folder.seal(&self.journal, &worded);
        let page = wallfinder_report::html::render(&self.record);
        let page = self.folder.folder().write(PAGE, page.as_bytes());
        if sealed.is_ok() {
            self.clients.iter().for_each(|client| client.kept());
        }
        Sealed {
            folder: self.folder.path().to_owned(),
            record: self.record,
            // What failed first is the cause.
            result: result.and(sealed.map(drop).and(page).map_err(store)),
        }
    }
}

/// What a window with other weights shows.
fn mix_window(asked: &Step) -> MixWindow {
    let telemetry = &asked.telemetry;
    let server = telemetry.server.as_ref();
    let ended = |kind: &RequestKind| kind.answered + kind.failed.values().sum::<u64>();
    let stacks = asked.profiles.as_ref();
    let stacks = stacks.and_then(|profiles| profiles.of(ProfileKind::Stacks));
    MixWindow {
        weights: asked.requests.iter().map(|kind| kind.weight).collect(),
        answered: asked.requests.iter().map(ended).collect(),
        window_ns: asked.window_ns,
        server_cpu_ns: server.map_or(0, |server| server.cpu_ns),
        cpu_span_ns: telemetry.window_ns,
        reference_ns: telemetry.server_reference_ns,
        backend: telemetry.backend,
        client_cpu_ns: telemetry.client.as_ref().map(|client| client.cpu_ns),
        client_reference_ns: telemetry.client_reference_ns,
        stacks: stacks.map(MixStacks::of),
    }
}

/// A run that has ended.
pub(crate) struct Sealed {
    pub(crate) record: Record,
    pub(crate) folder: PathBuf,
    /// What the steps came to, and the sealing.
    pub(crate) result: Result<(), Failed>,
}

/// The page beside a record.
pub(crate) const PAGE: &str = "report.html";

/// What is to be squeezed, and how much time that may take.
pub(crate) struct Proof {
    pub(crate) effort: Effort,
    pub(crate) window: Option<Nanos>,
    pub(crate) seed: u64,
    pub(crate) levers: Vec<Box<dyn Lever>>,
    pub(crate) out_of_reach: Vec<OutOfReach>,
    pub(crate) setting: Setting,
    pub(crate) null: bool,
}

/// Shows an experiment while it goes on, and journals its windows as they end.
struct Squeezing<'s> {
    presenter: &'s mut Presenter,
    journal: &'s Journal,
    interrupts: &'s Interrupts,
    failure: Option<StoreError>,
    index: u32,
    /// Conditions that the journal knows.
    conditions: usize,
    /// What the windows say by now.
    so_far: String,
}

impl ExperimentAudience for Squeezing<'_> {
    fn window_begins(&mut self, condition: &Condition, left: Duration) {
        let labels: Vec<&str> = condition.squeezes().map(Squeeze::label).collect();
        let by = (1.0 - condition.retained).abs() * 100.0;
        let what = match labels[..] {
            [] => "nothing (the base)".to_owned(),
            [one] => format!("{}, {by:.0} %", one.replace('-', " ")),
            _ => format!("{} resources at once, {by:.0} %", labels.len()),
        };
        self.presenter.squeezing(&what, left, &self.so_far);
    }

    fn window_ends(&mut self, experiment: &Experiment) {
        let mut result = Ok(());
        if self.conditions < experiment.conditions.len() {
            self.conditions = experiment.conditions.len();
            let kept = experiment.without(secrets::ours());
            result = self.journal.experiment(self.index, &kept);
        }
        if let Some(window) = experiment.windows.last() {
            result = result.and_then(|()| self.journal.window(self.index, window));
        }
        note(result, &mut self.failure, self.interrupts);
        self.so_far = proof::strongest(experiment).map_or_else(String::new, |(squeeze, it)| {
            let name = words::squeeze(squeeze.label());
            let [value, half] = [it.value, (it.high - it.low) / 2.0].map(number::elasticity);
            format!(" · so far {name} {value} ± {half}")
        });
    }

    fn server_restarts(&mut self) {
        let what = "nothing: the server is started anew".to_owned();
        self.presenter.phase(Phase::Squeezing(what));
    }

    fn interval(&mut self, interval: &Interval) {
        self.presenter.interval(interval, None);
    }
}

/// A disk that takes no more ends the load.
fn note(result: Result<(), StoreError>, failure: &mut Option<StoreError>, interrupts: &Interrupts) {
    if let Err(error) = result
        && failure.is_none()
    {
        *failure = Some(error);
        interrupts.stop_step();
    }
}

/// Folders made for one name within one second.
const SAME_SECOND_MAX: u32 = 20;

/// A folder of its own for each run, also for several of one name within a second.
fn create_folder(runs: &Path, name: &str, now: SystemTime) -> Result<RunFolder, Failed> {
    let mut folder = RunFolder::create(runs, name, now);
    for number in 2..=SAME_SECOND_MAX {
        if !matches!(folder, Err(StoreError::Exists { .. })) {
            break;
        }
        folder = RunFolder::create(runs, &format!("{name}-{number}"), now);
    }
    folder.map_err(|error| match error {
        StoreError::UnsafePlace { .. } => Failed::run(format!(
            "{error}. Name another folder with --runs DIR; one that is missing is made"
        )),
        error => store(error),
    })
}

/// Passes what happens in a step on to the journal and to who watches.
struct Live<'s> {
    presenter: &'s mut Presenter,
    journal: &'s Journal,
    interrupts: &'s Interrupts,
    failure: Option<StoreError>,
    index: u32,
    steps: u32,
}

impl Live<'_> {
    fn note(&mut self, result: Result<(), StoreError>) {
        note(result, &mut self.failure, self.interrupts);
    }
}

impl Audience for Live<'_> {
    fn begins(&mut self, step: &Step) {
        let step = &*step.without(secrets::ours());
        self.presenter.begins(step, self.index + 1, self.steps);
        let result = self.journal.step_begins(step);
        self.note(result);
    }

    fn interval(&mut self, interval: &Interval, sample: Option<&Sample>) {
        self.presenter.interval(interval, sample);
        let result = self.journal.interval(self.index, interval);
        self.note(result);
        if let Some(sample) = sample {
            let result = self.journal.samples(self.index, vec![sample.clone()]);
            self.note(result);
        }
    }

    fn clients(&mut self, hosts: &[ClientNow]) {
        self.presenter.clients(hosts);
    }

    fn calibrating(&mut self) {
        self.presenter.phase(Phase::Judging);
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn store(error: StoreError) -> Failed {
    Failed::run(error)
}
