//! From what a file says to what workers send: names resolved, values checked, each step a kind of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use wallfinder_model::Nanos;
use wallfinder_model::traffic::{CALL, OnFail, Request, Session, Traffic};
use wallfinder_scenario::Fault;
use wallfinder_wire::mix::{
    Expect, FieldPath, Flow, Follow, KINDS_MAX, Kind, Known, Mix, Piece, Protocol, Row, Slot,
    Spelling, Step, Table, Template, Text, Think, Value,
};
use wallfinder_wire::{Redirect, grpc};

use crate::replay::replayed;
use crate::slots::{Scope, is_word, text};
use crate::{calls, data, expect, multipart};

/// Most redirects that one request is followed over.
const FOLLOW_MAX: u32 = 10;
/// The shortest time after which set-up is made again.
const REFRESH_MIN: Nanos = Nanos::from_millis(100);

/// To whom everything is sent.
#[derive(Debug, Clone)]
pub struct Origin {
    /// In which protocol.
    pub protocol: Protocol,
    /// `host[:port]`.
    pub authority: String,
    /// `scheme://host[:port]`, in each way in which it may be written.
    pub origins: Vec<String>,
    /// Fields that every request has.
    pub headers: Vec<(String, String)>,
    /// Of what is drawn at random before the load.
    pub seed: u64,
}

/// What is asked of the outside.
pub trait World {
    /// A file's bytes; an error names it.
    fn read(&self, file: &Path) -> Result<Vec<u8>, String>;
    /// The path of a URL, which must be of the target's origin.
    fn path_of(&self, url: &str) -> Result<String, String>;
    /// The value of a header field: what a reference stands for, or the text itself.
    fn value(&self, text: &str) -> String;
    /// A call of gRPC, its message from JSON.
    fn call(&self, method: &str, json: Option<&str>) -> Result<grpc::Request, String>;
    /// The messages of a call of gRPC, with their prefixes, from JSON with places.
    fn message(&self, method: &str, json: &Text) -> Result<Text, String>;
    /// Where a JSON pointer leads in the answers of a method of gRPC.
    fn field(&self, method: &str, pointer: &str) -> Result<FieldPath, String>;
}

/// What is sent: the load, and before and after it.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The load.
    pub mix: Mix,
    /// What is around it.
    pub around: Around,
}

/// Requests that are made once, in a session of their own.
#[derive(Debug, Clone)]
pub struct Once {
    /// They.
    pub mix: Mix,
    /// What they take, in the order of the session's variables.
    pub names: Vec<String>,
}

/// What is made again while a load runs: values that would grow old.
#[derive(Debug, Clone)]
pub struct Refresh {
    /// The last requests of set-up; what they take is among what that takes, and they begin with its cookies.
    pub once: Once,
    /// How often.
    pub every: Duration,
}

/// What is made before a load and after it.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// What is made before it. What it takes are the values that its load's mix and the others of these know, in this
    /// order.
    pub setup: Option<Once>,
    /// What is made again while it runs.
    pub refresh: Option<Refresh>,
    /// What is made after it.
    pub teardown: Option<Mix>,
    /// What there is to say of the load, in words.
    pub notes: Vec<String>,
}

/// Resolves and checks. What set-up takes is not known yet.
///
/// # Errors
///
/// The first fault, with its key in the scenario: `traffic.session.0.steps.1.take.token`.
pub fn compile(traffic: &Traffic, origin: &Origin, world: &dyn World) -> Result<Compiled, Fault> {
    if let Some(wanted) = &traffic.replay {
        let alone = Traffic {
            replay: Some(wanted.clone()),
            ..Traffic::default()
        };
        if *traffic != alone {
            let why = "what was logged is replayed alone: leave out requests, sessions, data, set-up and tear-down";
            return Err(Fault::at("traffic.replay", why));
        }
        let (mix, notes) = replayed(wanted, origin, world)?;
        return Ok(Compiled {
            mix,
            around: Around {
                notes,
                ..Around::default()
            },
        });
    }
    let tables = traffic
        .data
        .iter()
        .map(|(name, of)| data::table(name, of, world));
    let tables = tables.collect::<Result<Vec<Table>, Fault>>()?;
    let mut compiler = Compiler {
        origin,
        world,
        tables,
        kinds: Vec::new(),
        names: BTreeSet::new(),
        variables: 0,
        known: Known::default(),
    };
    let mut setup = match traffic.setup.as_slice() {
        [] => None,
        steps => Some(compiler.aside("setup", (steps, 0), &Scope::default())?),
    };
    let names = setup.iter().flat_map(|setup| &setup.names);
    let known = Scope {
        known: names.cloned().zip(0..).collect(),
        ..Scope::default()
    };
    compiler.known = Known::unknown(known.known.len());
    let mut refresh = compiler.refresh(&traffic.setup, &known)?;
    let teardown = match traffic.teardown.as_slice() {
        [] => None,
        steps => Some(compiler.aside("teardown", (steps, 0), &known)?.mix),
    };
    let scope = Scope {
        known: known.known,
        ..compiler.scope()
    };
    compiler.names.clear();
    let mut flows = Vec::new();
    for (nth, request) in traffic.request.iter().enumerate() {
        flows.push(compiler.alone(&format!("traffic.request.{nth}"), request, &scope)?);
    }
    for (nth, session) in traffic.session.iter().enumerate() {
        flows.push(compiler.session(&format!("traffic.session.{nth}"), session, &scope)?);
    }
    if compiler.kinds.len() > KINDS_MAX {
        let why = format!(
            "there are {} kinds of request, the steps of sessions and each redirect that is followed among them, and \
             {KINDS_MAX} are the most",
            compiler.kinds.len()
        );
        return Err(Fault::at("traffic", why));
    }
    if let Some(setup) = &mut setup {
        calls::fit_setup(setup, refresh.as_mut(), teardown.as_ref(), &compiler.kinds);
    }
    Ok(Compiled {
        mix: compiler.mix(flows),
        around: Around {
            setup,
            refresh,
            teardown,
            notes: Vec::new(),
        },
    })
}

pub(crate) struct Compiler<'c> {
    origin: &'c Origin,
    pub(crate) world: &'c dyn World,
    pub(crate) tables: Vec<Table>,
    kinds: Vec<Kind>,
    names: BTreeSet<String>,
    /// Of the session that takes the most.
    variables: u16,
    /// What set-up takes.
    known: Known,
}

/// A step that was compiled: its request, and those that follow its redirects, in turn.
struct Made {
    kind: u16,
    hops: Vec<Redirect>,
    continues: bool,
}

impl Compiler<'_> {
    fn scope(&self) -> Scope {
        let table = |(nth, table): (usize, &Table)| {
            (table.name.clone(), (nth as u16, table.columns.clone()))
        };
        Scope {
            tables: self.tables.iter().enumerate().map(table).collect(),
            ..Scope::default()
        }
    }

    fn mix(self, flows: Vec<Flow>) -> Mix {
        Mix {
            protocol: self.origin.protocol,
            kinds: self.kinds,
            flows,
            tables: self.tables,
            variables: self.variables,
            known: self.known,
            origins: self.origin.origins.clone(),
            replay: None,
        }
    }

    /// Requests that are made once, from the nth of a list on, as a mix of their own.
    fn aside(
        &self,
        list: &str,
        (steps, first): (&[Request], usize),
        scope: &Scope,
    ) -> Result<Once, Fault> {
        let mut compiler = Compiler {
            tables: Vec::new(),
            kinds: Vec::new(),
            names: BTreeSet::new(),
            variables: 0,
            known: self.known.clone(),
            ..*self
        };
        if let Some(nth) = steps.iter().position(|step| step.think.is_some()) {
            let why = format!("[[{list}]] is made once, without pauses");
            return Err(Fault::at(
                format!("traffic.{list}.{}.think", first + nth),
                why,
            ));
        }
        if let Some(nth) = steps.iter().position(|step| step.on_fail.is_some()) {
            let why = format!("[[{list}]] is made once, and ends with what fails");
            return Err(Fault::at(
                format!("traffic.{list}.{}.on-fail", first + nth),
                why,
            ));
        }
        let session = Session {
            name: list.to_owned(),
            cookies: true,
            steps: steps.to_vec(),
            ..Session::default()
        };
        let mut scope = scope.clone();
        let flow = compiler.steps((&format!("traffic.{list}"), first), &session, &mut scope)?;
        let mut taken: Vec<(u16, String)> = scope
            .variables
            .into_iter()
            .map(|(name, number)| (number, name))
            .collect();
        taken.sort_unstable();
        let names = taken.into_iter().map(|(_, name)| name).collect();
        Ok(Once {
            mix: compiler.mix(vec![flow]),
            names,
        })
    }

    /// What of set-up is made again while the load runs: what says so, and all behind it.
    fn refresh(&self, setup: &[Request], known: &Scope) -> Result<Option<Refresh>, Fault> {
        let mut first = None;
        for (nth, step) in setup.iter().enumerate() {
            let Some(given) = &step.refresh else { continue };
            let fault = |why: String| Fault::at(format!("traffic.setup.{nth}.refresh"), why);
            if let Some((first, _)) = first {
                let why = format!(
                    "set-up is made again from `{first}` on already, all behind it included"
                );
                return Err(fault(why));
            }
            let every = given
                .parse::<Nanos>()
                .ok()
                .filter(|every| *every >= REFRESH_MIN);
            let why = || {
                format!(
                    "`{given}` is no time after which a value grows old: write 50s; 100ms is the least"
                )
            };
            first = Some((
                setup[nth].shown_name(),
                (nth, every.ok_or_else(|| fault(why()))?),
            ));
        }
        let Some((_, (nth, every))) = first else {
            return Ok(None);
        };
        Ok(Some(Refresh {
            once: self.aside("setup", (&setup[nth..], nth), known)?,
            every: Duration::from_nanos(every.0),
        }))
    }

    /// A request alone.
    fn alone(&mut self, key: &str, request: &Request, scope: &Scope) -> Result<Flow, Fault> {
        let fault = |part: &str, why: &str| Err(Fault::at(format!("{key}{part}"), why));
        if request.weight == Some(0) {
            return fault(
                ".weight",
                "its weight is 0, so it would never be sent: leave it out",
            );
        }
        if request.think.is_some() {
            return fault(
                ".think",
                "a pause stands before a step of a session; that of every request is --think",
            );
        }
        if request.on_fail.is_some() {
            return fault(
                ".on-fail",
                "nothing follows a request that stands alone: on-fail is of a step of a [[session]]",
            );
        }
        if !request.take.is_empty() {
            return fault(
                ".take",
                "what is taken is for later steps: make it a step of a [[session]], or of [[setup]]",
            );
        }
        let name = request.shown_name();
        let first = self.kinds.len();
        let made = self.request(key, request, (scope, &scope.variables), &name, false)?;
        self.flow(key, name, request.weight, vec![(made, Think::None)], first)
    }

    fn session(&mut self, key: &str, session: &Session, scope: &Scope) -> Result<Flow, Fault> {
        if session.weight == Some(0) {
            let why = "its weight is 0, so it would never begin: leave it out";
            return Err(Fault::at(format!("{key}.weight"), why));
        }
        if session.name.is_empty() {
            return Err(Fault::at(
                key,
                "a session has a `name`, which results carry",
            ));
        }
        self.take_name(key, &session.name)?;
        if session.steps.is_empty() {
            return Err(Fault::at(key, "a session has `steps`, and this one none"));
        }
        self.steps((&format!("{key}.steps"), 0), session, &mut scope.clone())
    }

    /// A name stands for one kind of request or session.
    fn take_name(&mut self, key: &str, name: &str) -> Result<(), Fault> {
        if self.names.insert(name.to_owned()) {
            return Ok(());
        }
        let why = format!("`{name}` stands there twice: give each a `name` of its own");
        Err(Fault::at(key, why))
    }

    /// The steps of a session, whose scope comes to have all that they take.
    fn steps(
        &mut self,
        (key, from): (&str, usize),
        session: &Session,
        scope: &mut Scope,
    ) -> Result<Flow, Fault> {
        let first = self.kinds.len();
        let mut made = Vec::new();
        for (nth, step) in session.steps.iter().enumerate() {
            let key = format!("{key}.{}", from + nth);
            let fault = |part: &str, why: &str| Err(Fault::at(format!("{key}{part}"), why));
            if step.weight.is_some() {
                return fault(".weight", "a step has no weight: its session has one");
            }
            let think = match &step.think {
                None => Think::None,
                Some(_) if nth == 0 => {
                    return fault(
                        ".think",
                        "there is no pause before the first step: a session begins when its turn comes",
                    );
                }
                Some(given) => {
                    let think = expect::think(given);
                    think.map_err(|why| Fault::at(format!("{key}.think"), why))?
                }
            };
            let is_last = nth + 1 == session.steps.len();
            if is_last && step.on_fail == Some(OnFail::Continue) {
                return fault(
                    ".on-fail",
                    "no step follows the last, so there is nothing to continue with: leave it out",
                );
            }
            let taken = step.take.keys();
            let mut after = scope.variables.clone();
            for name in taken {
                if !is_word(name) {
                    return fault(
                        ".take",
                        "a name is a letter and then letters, digits, `_` or `-`: so it stands in braces",
                    );
                }
                let number = after.len() as u16;
                after.entry(name.clone()).or_insert(number);
            }
            let name = format!("{}.{}", session.name, step.shown_name());
            let one = self.request(&key, step, (scope, &after), &name, session.cookies)?;
            made.push((one, think));
            scope.variables = after;
        }
        self.variables = self.variables.max(scope.variables.len() as u16);
        self.flow(key, session.name.clone(), session.weight, made, first)
    }

    fn flow(
        &mut self,
        key: &str,
        name: String,
        weight: Option<u32>,
        made: Vec<(Made, Think)>,
        first: usize,
    ) -> Result<Flow, Fault> {
        calls::fit(&mut self.kinds[first..]);
        let mut steps = Vec::new();
        for (one, think) in made {
            let Made {
                kind,
                hops,
                continues,
            } = one;
            steps.push(Step {
                kind,
                think,
                hop: None,
                continues,
            });
            steps.extend(hops.into_iter().zip(kind + 1..).map(|(hop, kind)| Step {
                kind,
                think: Think::None,
                hop: Some(hop),
                continues,
            }));
        }
        let kinds = self.kinds[first..].iter();
        let slots = kinds.flat_map(|kind| kind.request.texts().flat_map(Text::slots));
        let walked: BTreeSet<u16> = slots
            .filter_map(|slot| match slot.value {
                Value::Column { table, .. } => Some(table),
                _ => None,
            })
            .filter(|table| self.tables[usize::from(*table)].order.is_walked())
            .collect();
        if walked.len() > 1 {
            let names = walked
                .iter()
                .map(|table| self.tables[usize::from(*table)].name.as_str());
            let names: Vec<&str> = names.collect();
            let why = format!(
                "`{name}` takes rows in order from {}: only one of them can be walked; give the others order = \"random\", or put \
                 their columns beside each other",
                names.join(" and ")
            );
            return Err(Fault::at(key, why));
        }
        Ok(Flow {
            name,
            weight: weight.unwrap_or(1),
            steps,
            walks: walked.first().copied(),
        })
    }

    /// A request as it may be filled in before it; what it takes has its number among the variables after it.
    fn request(
        &mut self,
        key: &str,
        request: &Request,
        (before, after): (&Scope, &BTreeMap<String, u16>),
        name: &str,
        cookies: bool,
    ) -> Result<Made, Fault> {
        self.take_name(key, name)?;
        let fault = |(part, why): (String, String)| Fault::at(format!("{key}{part}"), why);
        if request.refresh.is_some() && !key.starts_with("traffic.setup.") {
            let why = "only a request of [[setup]] is made again while the load runs";
            return Err(fault((".refresh".to_owned(), why.to_owned())));
        }
        let (request_template, call) = self.template(request, before, name).map_err(fault)?;
        let found = expect::expect(request.check.as_ref(), &request.take, after);
        let mut expect = found.map_err(fault)?;
        if let Some(method) = &request.call {
            self.in_messages(method, &mut expect).map_err(fault)?;
        }
        expect.keeps_cookies = cookies;
        let hops = request.follow.unwrap_or(0);
        if hops > FOLLOW_MAX {
            let why = format!("at most {FOLLOW_MAX} redirects are followed");
            return Err(fault((".follow".to_owned(), why)));
        }
        if hops > 0 {
            expect.follow = Follow::Yes;
        }
        let kind = self.kinds.len() as u16;
        let is_get = request_template.is_get();
        let made = Kind {
            name: name.to_owned(),
            request: request_template,
            call,
            expect,
        };
        let mut ways = Vec::new();
        let mut follow = Vec::new();
        for hop in 1..=hops {
            ways.push(Redirect::ToGet);
            follow.push(hop_of(&made, (hop, hops), Redirect::ToGet));
            if !is_get {
                ways.push(Redirect::AsItIs);
                follow.push(hop_of(&made, (hop, hops), Redirect::AsItIs));
            }
        }
        self.kinds.push(made);
        self.kinds.extend(follow);
        Ok(Made {
            kind,
            hops: ways,
            continues: request.on_fail == Some(OnFail::Continue),
        })
    }

    fn template(
        &mut self,
        request: &Request,
        scope: &Scope,
        name: &str,
    ) -> Result<(Template, Option<grpc::Terms>), (String, String)> {
        let nowhere = |why: String| (String::new(), why);
        let methods: Vec<(&str, &str)> = request.methods().collect();
        let [(method, place)] = methods[..] else {
            let has = match methods.is_empty() {
                true => "no method".to_owned(),
                false => methods
                    .iter()
                    .map(|(method, _)| *method)
                    .collect::<Vec<&str>>()
                    .join(" and "),
            };
            return Err(nowhere(format!(
                "it has {has}; one of get, head, post, put, patch, delete, options, call has its path"
            )));
        };
        let is_call = method == CALL;
        if is_call != (self.origin.protocol == Protocol::Grpc) {
            return Err(nowhere(match is_call {
                true => "`call` is of gRPC, and the target is http: write get or post, or name a target of grpc://".to_owned(),
                false => format!("{method} is of HTTP, and the target is gRPC: write call = \"/package.Service/Method\""),
            }));
        }
        let headers = self.headers(request, scope)?;
        if is_call {
            if !request.multipart.is_empty() || request.follow.is_some() {
                return Err(nowhere(
                    "multipart and follow are of HTTP, and this is a call of gRPC".to_owned(),
                ));
            }
            let body = request.body.as_deref();
            let (mut template, terms) = self
                .call(place, body, scope, name)
                .map_err(|why| (".body".to_owned(), why))?;
            template.headers = headers;
            template.authority.clone_from(&self.origin.authority);
            return Ok((template, Some(terms)));
        }
        let in_path = |why: String| (format!(".{}", method.to_ascii_lowercase()), why);
        let path = match place.starts_with(['/', '{']) {
            true => place.to_owned(),
            false => self.world.path_of(place).map_err(in_path)?,
        };
        let mut template = Template {
            method: method.to_owned(),
            authority: self.origin.authority.clone(),
            target: text(&path, Spelling::Url, scope).map_err(in_path)?,
            headers,
            body: Text::default(),
        };
        self.check_beginning(&template.target).map_err(in_path)?;
        if !request.multipart.is_empty() {
            if request.body.is_some() {
                return Err(nowhere(
                    "it has a body and a multipart: leave one of them out".to_owned(),
                ));
            }
            let body = multipart::body(&request.multipart, scope, self.world);
            template.body = body.map_err(|(nth, why)| (format!(".multipart.{nth}"), why))?;
            // It names the boundary, which is ours.
            template
                .headers
                .retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            template.headers.push((
                "Content-Type".to_owned(),
                Text::fixed(multipart::content_type()),
            ));
        } else if let Some(given) = &request.body {
            let body = self.body(given, &template.headers, scope);
            template.body = body.map_err(|why| (".body".to_owned(), why))?;
        }
        template
            .check()
            .map_err(|error| nowhere(error.to_string()))?;
        Ok((template, None))
    }

    /// Fields: those of every request, but for those that this one says otherwise.
    fn headers(
        &self,
        request: &Request,
        scope: &Scope,
    ) -> Result<Vec<(String, Text)>, (String, String)> {
        let own = |name: &str| {
            request
                .header
                .keys()
                .any(|other| other.eq_ignore_ascii_case(name))
        };
        let usual = self.origin.headers.iter().filter(|(name, _)| !own(name));
        let mut headers: Vec<(String, Text)> = usual
            .map(|(name, value)| (name.clone(), Text::fixed(value.as_str())))
            .collect();
        for (name, given) in &request.header {
            let at = |why: String| (format!(".header.{name}"), why);
            let value = self.world.value(given);
            // What a reference stands for has no places.
            let value = match value == *given {
                true => text(given, Spelling::Raw, scope).map_err(at)?,
                false => Text::fixed(value),
            };
            self.check_cells(&value).map_err(at)?;
            headers.push((name.clone(), value));
        }
        Ok(headers)
    }

    /// A place at the beginning of a path stands for one, which begins with a slash.
    fn check_beginning(&self, target: &Text) -> Result<(), String> {
        let Some(Piece::Slot(slot)) = target.0.first() else {
            return Ok(());
        };
        let Value::Column { table, column } = slot.value else {
            return Err(
                "a path that begins with what was taken could lead elsewhere: write /{name}"
                    .to_owned(),
            );
        };
        let table = &self.tables[usize::from(table)];
        let is_path = |row: &Row| {
            let cell = row.0.get(usize::from(column));
            cell.is_some_and(|cell| cell.starts_with(b"/"))
        };
        let is_spelled = slot.spelling != Spelling::Path;
        match table.rows().iter().position(|row| !is_path(row)) {
            None if !is_spelled => Ok(()),
            None => Err(format!(
                "a path that begins with a place is written with |raw: {{{}.{}|raw}}",
                table.name,
                table.columns[usize::from(column)]
            )),
            Some(nth) => Err(format!(
                "row {} of [data.{}] begins with no slash, and a path does: write it there, or before the place",
                nth + 1,
                table.name
            )),
        }
    }

    /// What would end a line stands in no field.
    fn check_cells(&self, value: &Text) -> Result<(), String> {
        for slot in value.slots().filter(|slot| slot.spelling == Spelling::Raw) {
            let Value::Column { table, column } = slot.value else {
                continue;
            };
            let table = &self.tables[usize::from(table)];
            let is_wrong = |row: &Row| {
                let cell = row.0.get(usize::from(column));
                cell.is_some_and(|cell| {
                    cell.iter()
                        .any(|byte| *byte < 0x20 && *byte != b'\t' || *byte == 0x7f)
                })
            };
            if let Some(nth) = table.rows().iter().position(is_wrong) {
                return Err(format!(
                    "row {} of [data.{}] has a line break or another control character in `{}`, which no header field \
                     may have: take it out, or spell it, such as {{{}.{}|url}}",
                    nth + 1,
                    table.name,
                    table.columns[usize::from(column)],
                    table.name,
                    table.columns[usize::from(column)]
                ));
            }
        }
        Ok(())
    }

    fn body(&self, given: &str, headers: &[(String, Text)], scope: &Scope) -> Result<Text, String> {
        let literal = given.strip_prefix("@@").map(|rest| format!("@{rest}"));
        if let Some(file) = given.strip_prefix('@').filter(|_| literal.is_none()) {
            if file == "-" {
                return Err("standard input is of one request: name a file, @FILE".to_owned());
            }
            return self.world.read(Path::new(file)).map(Text::fixed);
        }
        let content_type = headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let content_type = content_type.map(|(_, value)| match value.0.first() {
            Some(Piece::Fixed(bytes)) => String::from_utf8_lossy(bytes).to_ascii_lowercase(),
            _ => String::new(),
        });
        let spelling = match content_type {
            Some(said) if said.contains("json") => Spelling::Json,
            Some(said) if said.contains("x-www-form-urlencoded") => Spelling::Url,
            None if given.trim_start().starts_with(['{', '[']) => Spelling::Json,
            _ => Spelling::Raw,
        };
        text(literal.as_deref().unwrap_or(given), spelling, scope)
    }
}

/// The request that follows a redirect, the nth of so many.
fn hop_of(of: &Kind, (nth, hops): (u32, u32), way: Redirect) -> Kind {
    let nth_of_several = match hops {
        1 => String::new(),
        _ => format!(" {nth}"),
    };
    let Template {
        method,
        authority,
        headers,
        body,
        ..
    } = of.request.clone();
    let target = Text(vec![Piece::Slot(Slot {
        value: Value::Location,
        spelling: Spelling::Path,
    })]);
    let follow = match nth == hops {
        true => Follow::Spent,
        false => Follow::Yes,
    };
    let (name, request) = match way {
        Redirect::AsItIs => (
            format!("{} redirected{nth_of_several} ({method})", of.name),
            Template {
                method,
                authority,
                target,
                headers,
                body,
            },
        ),
        Redirect::ToGet => (
            format!("{} redirected{nth_of_several}", of.name),
            Template {
                // Who asks for a head alone goes on asking for one.
                method: match method.as_str() {
                    "HEAD" => method,
                    _ => "GET".to_owned(),
                },
                authority,
                target,
                // Its body stayed behind, and what describes it.
                headers: headers
                    .into_iter()
                    .filter(|(name, _)| !is_of_body(name))
                    .collect(),
                body: Text::default(),
            },
        ),
    };
    Kind {
        name,
        request,
        call: None,
        expect: Expect {
            follow,
            ..of.expect.clone()
        },
    }
}

fn is_of_body(name: &str) -> bool {
    ["content-type", "content-encoding"]
        .iter()
        .any(|of| name.eq_ignore_ascii_case(of))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use wallfinder_wire::mix::{FieldStep, Prefix, Scalar, Source, Which};

    use super::*;
    use crate::TrafficFile;

    /// Files in memory, and calls whose message is their JSON.
    pub(crate) struct Files(pub(crate) BTreeMap<PathBuf, Vec<u8>>);

    impl World for Files {
        fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
            self.0
                .get(file)
                .cloned()
                .ok_or_else(|| format!("{}: no such file", file.display()))
        }

        fn path_of(&self, url: &str) -> Result<String, String> {
            url.strip_prefix("http://h")
                .map(str::to_owned)
                .ok_or_else(|| format!("{url} is another's"))
        }

        fn value(&self, text: &str) -> String {
            text.replace("env:TOKEN", "secret {users.name}")
        }

        fn call(&self, method: &str, json: Option<&str>) -> Result<grpc::Request, String> {
            Ok(grpc::Request::unary("h", method, json.unwrap_or("{}")))
        }

        fn message(&self, _: &str, json: &Text) -> Result<Text, String> {
            let number = |piece: &Piece| match piece {
                Piece::Slot(slot) => Piece::Slot(Slot {
                    value: slot.value,
                    spelling: Spelling::Scalar(Scalar::Int64),
                }),
                other => other.clone(),
            };
            let text = Text(json.0.iter().map(number).collect());
            Ok(Text::sized(Prefix::Call, text))
        }

        fn field(&self, _: &str, pointer: &str) -> Result<FieldPath, String> {
            let number = pointer.trim_start_matches('/').parse();
            let number = number.map_err(|_| format!("{pointer} leads nowhere"))?;
            Ok(FieldPath {
                steps: vec![FieldStep {
                    number,
                    which: Which::Only,
                }],
                scalar: Scalar::Int64,
                names: Vec::new(),
                has_default: true,
            })
        }
    }

    pub(crate) fn origin(protocol: Protocol) -> Origin {
        Origin {
            protocol,
            authority: "h".to_owned(),
            origins: vec!["http://h".to_owned()],
            headers: vec![("Accept".to_owned(), "*/*".to_owned())],
            seed: 1,
        }
    }

    fn made(text: &str) -> Result<Compiled, String> {
        let file = TrafficFile::parse("shop.toml", text).map_err(|error| error.to_string())?;
        let files = Files([("users.csv".into(), b"name,term\nann,a b\nbob,c\n".to_vec())].into());
        let protocol = if text.contains("call =") {
            Protocol::Grpc
        } else {
            Protocol::Http1
        };
        compile(&file.traffic, &origin(protocol), &files).map_err(|fault| {
            let placed = file.error(&fault);
            placed.map_or(fault.message, |error| error.to_string())
        })
    }

    /// The example of the guide.
    const SHOP: &str = r#"
[data.users]
file = "users.csv"
order = "random"

[[request]]
name = "search"
weight = 60
get = "/search?q={users.term}"
check = { status = 200, body-contains = "results" }

[[session]]
name = "buy"
weight = 5
steps = [
  { name = "login", post = "/login", body = '{"user": "{users.name}"}', take = { token = "json:/token" } },
  { name = "cart",  post = "/cart", header = { authorization = "Bearer {token}" }, think = "exp(300ms)" },
  { name = "pay",   post = "/pay",  header = { authorization = "Bearer {token}" }, check = { status = 201 }, follow = 2 },
]
"#;

    #[test]
    fn a_file_becomes_kinds_and_flows() {
        let mix = made(SHOP).expect("it is one").mix;
        let names: Vec<&str> = mix.kinds.iter().map(|kind| kind.name.as_str()).collect();
        let hops = [
            "buy.pay redirected 1",
            "buy.pay redirected 1 (POST)",
            "buy.pay redirected 2",
            "buy.pay redirected 2 (POST)",
        ];
        assert_eq!(
            names,
            [&["search", "buy.login", "buy.cart", "buy.pay"][..], &hops].concat()
        );
        assert_eq!(mix.weights(), [60, 5, 5, 5, 0, 0, 0, 0]);
        assert_eq!(mix.variables, 1);
        assert_eq!(mix.flows[1].steps[1].think, Think::Exponential(300_000_000));
        let hops = mix.flows[1].steps.iter().map(|step| step.hop);
        let (get, same) = (Some(Redirect::ToGet), Some(Redirect::AsItIs));
        let hops: Vec<Option<Redirect>> = hops.collect();
        assert_eq!(hops, [None, None, None, get, same, get, same]);
        assert_eq!(mix.kinds[6].expect.follow, Follow::Spent);
        assert_eq!(mix.kinds[7].request.method, "POST");
        assert!(
            wallfinder_wire::Exchange::Mix(Box::new(mix))
                .check(1)
                .is_ok()
        );
    }

    #[test]
    fn a_session_continues_behind_a_step_and_its_redirects_where_that_is_asked_for() {
        let text = "[[session]]\nname = \"a\"\nsteps = [\n { get = \"/a\", on-fail = \"continue\", follow = 1 },\n \
                    { get = \"/b\", on-fail = \"break\" },\n { get = \"/c\" } ]\n";
        let mix = made(text).expect("it is one").mix;
        let steps = mix.flows[0].steps.iter();
        let continues: Vec<bool> = steps.map(|step| step.continues).collect();
        assert_eq!(continues, [true, true, false, false]);
    }

    #[test]
    fn set_up_gives_what_all_others_use() {
        let text = "[[setup]]\nget = \"/user\"\ntake = { id = \"header:X-Id\" }\n\
                    [[setup]]\npost = \"/token/{id}\"\nrefresh = \"50s\"\ntake = { key = \"header:X-Key\" }\n\
                    [[request]]\nget = \"/a/{key}\"\n[[teardown]]\ndelete = \"/token/{key}\"\n";
        let Compiled { mix, around } = made(text).expect("it is one");
        let key = |before: &str| {
            let slot = Slot {
                value: Value::Known(1),
                spelling: Spelling::Url,
            };
            Text(vec![Piece::Fixed(before.into()), Piece::Slot(slot)])
        };
        assert_eq!(mix.kinds[0].request.target, key("/a/"));
        assert_eq!(mix.known, Known::unknown(2));
        assert_eq!(around.setup.expect("it has one").names, ["id", "key"]);
        let teardown = around.teardown.expect("it has one");
        assert_eq!(teardown.kinds[0].request.target, key("/token/"));
        // What is made again knows what the requests before it took.
        let refresh = around.refresh.expect("it has one");
        assert_eq!(refresh.every, Duration::from_secs(50));
        assert_eq!(refresh.once.names, ["key"]);
        let [kind] = &refresh.once.mix.kinds[..] else {
            panic!("one is made again")
        };
        let slots: Vec<Value> = kind.request.target.slots().map(|slot| slot.value).collect();
        assert_eq!(slots, [Value::Known(0)]);
    }

    #[test]
    fn what_is_made_again_is_of_set_up_and_begins_once() {
        let setup = |refresh: [&str; 2]| {
            let step = |path: &str, refresh: &str| {
                format!("[[setup]]\nget = \"{path}\"\nrefresh = \"{refresh}\"\n")
            };
            format!(
                "{}{}[[request]]\nget = \"/\"\n",
                step("/", refresh[0]),
                step("/b", refresh[1])
            )
        };
        for (text, line, part) in [
            (setup(["1s", "2s"]), 6, "made again from `/` on already"),
            (setup(["soon", "2s"]), 3, "`soon` is no time"),
            (setup(["1ms", "2s"]), 3, "100ms is the least"),
            (
                "[[request]]\nget = \"/\"\nrefresh = \"1s\"\n".to_owned(),
                3,
                "only a request of [[setup]] is made again",
            ),
        ] {
            let why = made(&text).expect_err(&text);
            let place = format!("shop.toml:{line}:");
            assert!(why.contains(&place) && why.contains(part), "{why}");
        }
    }

    #[test]
    fn a_message_of_grpc_is_encoded_for_each_row() {
        let text = "[data.users]\nfile = \"users.csv\"\n[[request]]\ncall = \"/a.B/C\"\n\
                    body = '{\"q\": \"{users.term}\"}'\nheader = { x-user = \"{users.name}\" }\n";
        let mix = made(text).expect("it is one").mix;
        let message = &mix.tables[0].rows()[0].0[2];
        assert_eq!(&message[5..], b"{\"q\": \"a b\"}");
        assert_eq!(message[4], 12);
        assert!(mix.kinds[0].call.is_some());
    }

    #[test]
    fn a_message_of_grpc_is_filled_in_with_what_steps_took_and_with_rows_of_several_tables() {
        let text = |rows: &str, pointer: &str| {
            format!(
                "[data.a]\nrows = [ {{ n = 1 }}, {{ n = {rows} }} ]\n[data.b]\nrows = [ {{ n = 2 }} ]\n[[session]]\n\
                 name = \"s\"\nsteps = [\n\
                 {{ name = \"one\", call = \"/a.B/C\", take = {{ id = \"json:{pointer}\" }} }},\n\
                 {{ name = \"two\", call = \"/a.B/C\", body = '{{a.n}} {{b.n}} {{id}}' }} ]\n"
            )
        };
        let mix = made(&text("3", "/7")).expect("it is one").mix;
        let [first, second] = &mix.kinds[..] else {
            panic!("two steps")
        };
        let slots: Vec<Value> = second.request.body.slots().map(|slot| slot.value).collect();
        assert_eq!(slots.len(), 3);
        assert_eq!(slots[2], Value::Variable(0));
        assert!(
            matches!(&first.expect.takes[0].from, Source::Field(path) if path.steps[0].number == 7)
        );
        assert_eq!(first.expect.takes[0].fits, [Scalar::Int64]);
        let why = made(&text("'x'", "/7")).expect_err("no number");
        assert!(why.contains("shop.toml:9:"), "{why}");
        assert!(
            why.contains("what row 2 of [data.a] has in `n` is no int64"),
            "{why}"
        );
        let why = made(&text("3", "/x")).expect_err("no field");
        assert!(
            why.contains("shop.toml:8:") && why.contains("/x leads nowhere"),
            "{why}"
        );
    }

    #[test]
    fn a_body_that_begins_with_two_at_signs_is_no_file() {
        let body = |text: &str| made(text).map(|made| made.mix.kinds[0].request.body.clone());
        let text = "[[request]]\npost = \"/\"\nbody = \"@@users.csv\"\n";
        assert_eq!(body(text), Ok(Text::fixed("@users.csv")));
        let text = "[[request]]\npost = \"/\"\nbody = \"@users.csv\"\n";
        assert!(body(text).is_ok_and(|body| body != Text::fixed("@users.csv")));
    }

    #[test]
    fn references_have_no_places_and_own_fields_go_before_those_of_all() {
        let text = "[[request]]\nget = \"/\"\nheader = { accept = \"text/html\", authorization = \"env:TOKEN\" }\n";
        let headers = made(text).unwrap().mix.kinds[0].request.headers.clone();
        let of = |name: &str, value: &str| (name.to_owned(), Text::fixed(value));
        assert_eq!(
            headers,
            [
                of("accept", "text/html"),
                of("authorization", "secret {users.name}")
            ]
        );
    }

    #[test]
    fn what_is_wrong_has_its_line_and_the_way_out() {
        for (text, line, part) in [
            (
                "[[request]]\nget = \"/\"\n\n[[request]]\nweight = 2\n",
                4,
                "no method",
            ),
            (
                "[[request]]\nget = \"/\"\npost = \"/\"\n",
                1,
                "GET and POST",
            ),
            ("[[request]]\nget = \"/\"\nweight = 0\n", 3, "never be sent"),
            (
                "[[request]]\nget = \"/\"\n[[request]]\nget = \"/\"\n",
                3,
                "twice",
            ),
            (
                "[[request]]\nget = \"/{token}\"\n",
                2,
                "no earlier step takes `token`",
            ),
            ("[[request]]\nget = \"/{users.id}\"\n", 2, "no [data.users]"),
            (
                "[data.users]\nrows = [ { name = \"ann\" } ]\n[[request]]\nget = \"/{users.nam}\"\n",
                4,
                "has no column `nam`",
            ),
            (
                "[[session]]\nname = \"a\"\nsteps = [\n { get = \"/\", take = { x = \"regex:(a{1000}){1000}{1000}\" } },\n \
                 { get = \"/{x}\" } ]\n",
                4,
                "takes more than 4 MiB",
            ),
            (
                "[[request]]\nget = \"/\"\ntake = { a = \"json:/a\" }\n",
                3,
                "[[session]]",
            ),
            ("[[request]]\nget = \"/ b\"\n", 1, "target"),
            ("[[request]]\nget = \"http://other/\"\n", 2, "another's"),
            (
                "[[request]]\nget = \"/\"\nbody = \"@gone\"\n",
                3,
                "gone: no such file",
            ),
            (
                "[[request]]\nget = \"/\"\ncheck = { status = 20 }\n",
                3,
                "no status",
            ),
            (
                "[[request]]\ncall = \"/a.B/C\"\n[[setup]]\npost = \"/\"\n",
                3,
                "POST is of HTTP, and the target is gRPC",
            ),
            (
                "[data.users]\nfile = \"gone.csv\"\n[[request]]\nget = \"/\"\n",
                2,
                "no such file",
            ),
            // A variable that is used before it is taken, and one that takes itself.
            (
                "[[session]]\nname = \"a\"\nsteps = [\n { get = \"/{x}\", take = { x = \"json:/x\" } },\n { get = \"/b\" } ]\n",
                4,
                "no earlier step takes `x`",
            ),
            (
                "[[session]]\nname = \"a\"\nsteps = [\n { get = \"/\" },\n { get = \"/b\", think = \"soon\" } ]\n",
                5,
                "no pause",
            ),
            (
                "[[session]]\nname = \"a\"\nsteps = [ { get = \"/\", think = \"1s\" } ]\n",
                3,
                "first step",
            ),
            (
                "[[session]]\nname = \"a\"\nsteps = [\n { get = \"/\" },\n { get = \"/b\", on-fail = \"continue\" } ]\n",
                5,
                "no step follows the last",
            ),
            (
                "[[request]]\nget = \"/\"\non-fail = \"continue\"\n",
                3,
                "of a step of a [[session]]",
            ),
            (
                "[[request]]\nget = \"/\"\n[[teardown]]\nget = \"/\"\non-fail = \"continue\"\n",
                5,
                "[[teardown]] is made once, and ends with what fails",
            ),
            (
                "[data.a]\norder = \"once\"\nrows = [ { x = 1 } ]\n[data.b]\norder = \"in-order\"\nrows = [ { x = 1 } ]\n\
                 [[request]]\nget = \"/{a.x}/{b.x}\"\n",
                7,
                "only one of them can be walked",
            ),
            (
                "[data.a]\nrows = [ { x = \"a\\nb\" } ]\n[[request]]\nget = \"/\"\nheader = { y = \"{a.x}\" }\n",
                5,
                "row 1 of [data.a] has a line break",
            ),
            (
                "[data.a]\nrows = [ { x = \"a?q=1\" } ]\n[[request]]\nget = \"{a.x|raw}\"\n",
                4,
                "row 1 of [data.a] begins with no slash",
            ),
            (
                "[[session]]\nname = \"a\"\nsteps = [ { get = \"/\" } ]\n[[session]]\nname = \"a\"\nsteps = [ { get = \"/b\" } ]\n",
                4,
                "`a` stands there twice",
            ),
            (
                "[[setup]]\nget = \"/\"\nthink = \"1s\"\n[[request]]\nget = \"/\"\n",
                3,
                "without pauses",
            ),
            (
                "[data.a]\nrows = [ { x = 1 }, { y = 2 } ]\n[[request]]\nget = \"/\"\n",
                2,
                "row 2 has a column `y`",
            ),
        ] {
            let error = made(text).expect_err(text);
            assert!(
                error.contains(&format!("shop.toml:{line}:")),
                "{text}: {error}"
            );
            assert!(error.contains(part), "{error}");
        }
    }
}
