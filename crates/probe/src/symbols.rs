//! Names for addresses in stacks.
//!
//! They come from the symbol tables of what is mapped, or of PROGRAM.debug beside a program that was stripped;
//! without either there are none. Calls that were inlined are part of whom they were inlined into. What is mapped is read
//! before stacks are taken, for a load generator has ended when its stacks are named.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use blazesym::Pid;
use blazesym::helper::{ElfResolver, read_elf_build_id};
use blazesym::symbolize::cache::{self, Cache};
use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{
    Input, ProcessMemberInfo, ProcessMemberType, Resolve, Symbolized, Symbolizer,
};
use rustix::process::geteuid;
use wallfinder_model::profile::{Function, Functions, Measure, Profile, StackFrame, StackSample};

use crate::parse::perf::Sample;

/// Where functions of the kernel stand, in the place of a file.
const KERNEL: &str = "[kernel]";

/// A stack as addresses, from the leaf.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RawStack {
    pid: u32,
    kernel: Vec<u64>,
    user: Vec<u64>,
}

impl RawStack {
    pub(crate) fn of(sample: Sample) -> RawStack {
        RawStack {
            pid: sample.pid,
            kernel: sample.kernel,
            user: sample.user,
        }
    }
}

/// What processes have mapped.
#[derive(Debug)]
pub(crate) struct Maps(Symbolizer);

impl Maps {
    /// Reads what is mapped now. A process that is gone has nothing.
    pub(crate) fn of(pids: &[u32]) -> Maps {
        let symbolizer = Symbolizer::builder().set_process_dispatcher(symbols_beside);
        let symbolizer = symbolizer.build();
        for pid in pids {
            let process = cache::Process::new(Pid::from(*pid));
            // Who has nothing mapped, or may not be looked at, has frames without names.
            let _ = symbolizer.cache(&Cache::from(process));
        }
        Maps(symbolizer)
    }

    /// Stacks and what was counted on them, with names.
    pub(crate) fn profile<const N: usize>(
        self,
        stacks: &[(RawStack, Vec<i64>)],
        measures: [(&str, &str); N],
        duration: Duration,
    ) -> Profile {
        named(self.0, stacks, measures, duration)
    }
}

fn named<const N: usize>(
    symbolizer: Symbolizer,
    stacks: &[(RawStack, Vec<i64>)],
    measures: [(&str, &str); N],
    duration: Duration,
) -> Profile {
    let mut names = Names {
        symbolizer,
        functions: Functions::default(),
        by_address: HashMap::new(),
    };
    let raw = || stacks.iter().map(|(stack, _)| stack);
    let kernel: Vec<u64> = raw().flat_map(|stack| stack.kernel.clone()).collect();
    names.learn(&Source::Kernel(Kernel::default()), 0, &kernel);
    let pids: BTreeSet<u32> = raw().map(|stack| stack.pid).collect();
    for pid in pids {
        let of_it = raw().filter(|stack| stack.pid == pid);
        let user: Vec<u64> = of_it.flat_map(|stack| stack.user.clone()).collect();
        let mut process = Process::new(Pid::from(pid));
        // The kernel's own links to what is mapped end with the process; names of files stay.
        process.map_files = Path::new(&format!("/proc/{pid}/map_files")).exists();
        process.perf_map = is_our_file(&format!("/tmp/perf-{pid}.map"));
        names.learn(&Source::Process(process), pid, &user);
    }
    let mut samples: Vec<StackSample> = stacks
        .iter()
        .map(|(stack, values)| {
            let kernel = stack.kernel.iter().map(|address| (0, *address));
            let user = stack.user.iter().map(|address| (stack.pid, *address));
            let frame = |place| StackFrame {
                function: names.by_address[&place],
                line: 0,
            };
            StackSample {
                stack: kernel.chain(user).map(frame).collect(),
                values: values.clone(),
            }
        })
        .collect();
    samples.sort_by(|a, b| (&b.values, &a.stack).cmp(&(&a.values, &b.stack)));
    let measure = |(name, unit): (&str, &str)| Measure {
        name: name.to_owned(),
        unit: unit.to_owned(),
    };
    Profile {
        measures: measures.map(measure).to_vec(),
        functions: names.functions.into_list(),
        samples,
        duration_ns: duration.as_nanos() as u64,
    }
}

/// The symbols of a program that lie beside it, as `objcopy` puts them there. They must be of the same build: in
/// a container, what is mapped may have the name of another program here.
fn symbols_beside(mapped: ProcessMemberInfo<'_>) -> blazesym::Result<Option<Box<dyn Resolve>>> {
    let ProcessMemberType::Path(path) = mapped.member_entry else {
        return Ok(None);
    };
    let mut beside = path.symbolic_path.clone().into_os_string();
    beside.push(".debug");
    if !std::fs::metadata(&beside).is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let mapped = match path.maps_file.exists() {
        true => path.maps_file.as_os_str(),
        false => path.symbolic_path.as_os_str(),
    };
    let [of_it, of_symbols] = [mapped, &beside].map(|file| read_elf_build_id(file).ok().flatten());
    let is_same = of_it.is_some() && of_it == of_symbols;
    let found = is_same
        .then(|| ElfResolver::open(&beside))
        .and_then(Result::ok);
    Ok(found.map(|found| Box::new(found) as Box<dyn Resolve>))
}

/// Whether a file among temporary ones is plain and this process's own: anybody may have put one of a name that
/// can be told before, or a pipe without end.
fn is_our_file(path: &str) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_ok_and(|found| found.is_file() && found.uid() == geteuid().as_raw())
}

/// Functions by name, and frames by where they are.
struct Names {
    symbolizer: Symbolizer,
    functions: Functions,
    /// By process and address; process 0 is the kernel.
    by_address: HashMap<(u32, u64), u32>,
}

impl Names {
    /// Looks up addresses that are not known yet. What cannot be found has no name.
    fn learn(&mut self, source: &Source<'_>, pid: u32, addresses: &[u64]) {
        let is_new = |address: &&u64| !self.by_address.contains_key(&(pid, **address));
        let mut new: Vec<u64> = addresses.iter().filter(is_new).copied().collect();
        new.sort_unstable();
        new.dedup();
        let found = self.symbolizer.symbolize(source, Input::AbsAddr(&new));
        let found: Vec<Option<Function>> = match &found {
            Ok(found) => found.iter().map(|one| function_of(one, pid)).collect(),
            Err(_) => vec![None; new.len()],
        };
        for (address, function) in new.into_iter().zip(found) {
            let function = self.functions.index(function.unwrap_or_default());
            self.by_address.insert((pid, address), function);
        }
    }
}

fn function_of(found: &Symbolized<'_>, pid: u32) -> Option<Function> {
    let symbol = found.as_sym()?;
    let module = symbol
        .module
        .as_ref()
        .map(|module| module.to_string_lossy());
    let module = module.unwrap_or_default();
    Some(Function {
        name: symbol.name.to_string(),
        file: match pid {
            0 => KERNEL.to_owned(),
            _ => module.rsplit('/').next().unwrap_or_default().to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Set in the child that is to wait.
    const WAITS: &str = "WALLFINDER_TEST_WAITS";

    /// As a child: what waits until its input ends.
    #[test]
    fn waits_where_it_is_asked_to() {
        if std::env::var_os(WAITS).is_some() {
            let _ = std::io::stdin().read_line(&mut String::new());
        }
    }

    fn run(program: &str, arguments: &[&str]) -> String {
        let done = Command::new(program).args(arguments).output();
        let done = done.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(done.status.success(), "{program}: {done:?}");
        String::from_utf8(done.stdout).expect("text")
    }

    #[test]
    fn a_stripped_program_has_the_names_that_lie_beside_it() {
        let folder = std::env::temp_dir().join(format!("wf-symbols-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let program = folder.join("program").display().to_string();
        let beside = format!("{program}.debug");
        std::fs::copy(std::env::current_exe().expect("this"), &beside).expect("a copy");
        run("objcopy", &["--strip-all", &beside, &program]);
        let mut child = Command::new(&program)
            .args(["--exact", "symbols::tests::waits_where_it_is_asked_to"])
            .env(WAITS, "")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the copy runs");
        let pid = child.id();
        // A program's own mappings are there when it has read its arguments.
        let mapped = || {
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            let of_it = maps.lines().find(|line| line.ends_with(&program))?;
            u64::from_str_radix(of_it.split('-').next()?, 16).ok()
        };
        let base = std::iter::from_fn(|| {
            std::thread::sleep(Duration::from_millis(10));
            Some(mapped())
        });
        let base = base.take(500).flatten().next().expect("it is mapped");
        let symbols = run("nm", &[&beside]);
        let mut symbols = symbols
            .lines()
            .filter(|line| line.contains("symbols_beside"));
        let symbol = symbols.find_map(|line| line.split_once(" t ").or(line.split_once(" T ")));
        let offset = u64::from_str_radix(symbol.expect("it is there").0, 16).expect("hex");
        let stack = RawStack {
            pid,
            kernel: Vec::new(),
            user: vec![base + offset],
        };
        let named = |stack: &RawStack| {
            let maps = Maps::of(&[pid]);
            let profile = maps.profile(
                &[(stack.clone(), vec![1])],
                [("n", "count")],
                Duration::ZERO,
            );
            let names = profile
                .functions
                .iter()
                .map(|function| function.name.clone());
            names.collect::<Vec<_>>()
        };
        let with = named(&stack);
        std::fs::remove_file(&beside).expect("it was there");
        let without = named(&stack);
        drop(child.stdin.take());
        let _ = child.wait();
        let _ = std::fs::remove_dir_all(&folder);
        assert!(
            with.iter().any(|name| name.contains("symbols_beside")),
            "{with:?}"
        );
        assert!(
            !without.iter().any(|name| name.contains("symbols_beside")),
            "{without:?}"
        );
    }
}
