//! What the names of functions say: a table that a user can edit.

use serde::Deserialize;
use wallfinder_model::profile::{Function, Profile, StackSample};

use super::KERNEL;
use super::sites::is_inside_wait;

/// The table as it ships, in the form in which it is edited.
pub const RULES_DEFAULT: &str = include_str!("rules.toml");

/// What names of functions say of what they do, and of who waits for nothing or for a socket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Places at which one waits who has nothing to do.
    #[serde(default)]
    idle: Vec<Idle>,
    /// Places at which one waits for a socket or a pipe.
    #[serde(default)]
    socket: Vec<Socket>,
    /// What functions do; the first that names a frame decides.
    #[serde(default)]
    rule: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Idle {
    /// For whoever edits the table.
    #[serde(rename = "because")]
    _because: String,
    /// Who waits.
    #[serde(default)]
    sites: Vec<String>,
    /// What is waited in.
    #[serde(default)]
    waits: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Socket {
    /// For whoever edits the table.
    #[serde(rename = "because")]
    _because: String,
    /// What is waited in.
    waits: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    category: String,
    frames: Vec<String>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules::parse(RULES_DEFAULT).expect("the table that ships is well formed: a test reads it")
    }
}

impl Rules {
    /// Reads a table; the error names the line.
    pub fn parse(text: &str) -> Result<Rules, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The category of a function, where the table names it.
    pub fn category(&self, function: &str) -> Option<&str> {
        let named = |rule: &&Rule| rule.frames.iter().any(|frame| is_like(frame, function));
        self.rule
            .iter()
            .find(named)
            .map(|rule| rule.category.as_str())
    }

    /// Whether who waits here has nothing to do.
    pub fn is_idle(&self, site: &str) -> bool {
        let mut sites = self.idle.iter().flat_map(|idle| &idle.sites);
        sites.any(|pattern| is_like(pattern, site))
    }

    /// Whether to wait in this function is to have nothing to do, whoever does.
    pub fn is_idle_wait(&self, function: &str) -> bool {
        let mut waits = self.idle.iter().flat_map(|idle| &idle.waits);
        waits.any(|pattern| is_like(pattern, function))
    }

    /// Whether to wait in this function is to wait for a socket or a pipe.
    fn is_socket_wait(&self, function: &str) -> bool {
        let mut waits = self.socket.iter().flat_map(|socket| &socket.waits);
        waits.any(|pattern| is_like(pattern, function))
    }

    /// Parts a profile of waits: those for sockets and pipes first, then all others. Whose
    /// connection it is no stack says, so the first are neither idle nor waits for a lock.
    pub fn part_sockets(&self, profile: Profile) -> (Profile, Profile) {
        let functions = || profile.functions.iter();
        let sockets: Vec<bool> = functions()
            .map(|function| self.is_socket_wait(&function.name))
            .collect();
        let inside: Vec<bool> = functions().map(is_inside_wait).collect();
        let is_for_socket = |sample: &StackSample| {
            let frames = sample.stack.iter().map(|frame| frame.function as usize);
            let mut within = frames.take_while(|function| inside[*function]);
            within.any(|function| sockets[function])
        };
        let (at_sockets, elsewhere) = profile.samples.into_iter().partition(is_for_socket);
        let of = |samples: Vec<StackSample>| Profile {
            measures: profile.measures.clone(),
            functions: profile.functions.clone(),
            samples,
            duration_ns: profile.duration_ns,
        };
        (of(at_sockets), of(elsewhere))
    }
}

/// Whether a name is what a pattern says, in which `*` stands for any text.
fn is_like(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Whose code a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Origin {
    Application,
    Library,
    Runtime,
    Kernel,
    Unknown,
}

impl Origin {
    pub(super) fn label(self) -> &'static str {
        match self {
            Origin::Application => "application",
            Origin::Library => "library",
            Origin::Runtime => "runtime",
            Origin::Kernel => "kernel",
            Origin::Unknown => "unknown",
        }
    }

    /// By the name, as Go and Rust spell it, and by what it is in. In Go, `main` and what is in
    /// no known library is the application's; a system call is time in the kernel. In Rust, what
    /// is in no crate of the language's own or of a known runtime is. A name without a path is of
    /// C: the program's own, or a library's.
    pub(super) fn of(function: &Function) -> Origin {
        const RUNTIME: [&str; 4] = ["runtime.", "runtime/", "internal/runtime/", "gogo"];
        const CALLS: [&str; 5] = [
            "internal/runtime/syscall",
            "runtime/internal/syscall",
            "syscall.Syscall",
            "syscall.RawSyscall",
            "runtime.futex",
        ];
        const CALLS_OF_RUNTIME: [&str; 4] = [
            "runtime.epollwait",
            "runtime.write1",
            "runtime.madvise",
            "runtime.usleep",
        ];
        let (name, file) = (function.name.as_str(), function.file.as_str());
        let begins = |with: &&str| name.starts_with(*with);
        if file == KERNEL || CALLS.iter().any(begins) || CALLS_OF_RUNTIME.contains(&name) {
            return Origin::Kernel;
        }
        if name.is_empty() {
            return Origin::Unknown;
        }
        if file.contains(".so") {
            return Origin::Library;
        }
        if name.contains("::") {
            return Origin::of_rust(name);
        }
        if RUNTIME.iter().any(begins) || file.ends_with(".s") {
            return Origin::Runtime;
        }
        if !name.contains('.') {
            return Origin::Application;
        }
        let package = package(name);
        match package == "main" || package.starts_with("wallfinder.dev/") {
            true => Origin::Application,
            false => Origin::Library,
        }
    }

    fn of_rust(name: &str) -> Origin {
        const LIBRARIES: [&str; 9] = [
            "std",
            "core",
            "alloc",
            "tokio",
            "hyper",
            "h2",
            "mio",
            "httparse",
            "hashbrown",
        ];
        // `<core::iter::Map<…> as Iterator>::next` begins with whose it is.
        let bare = name.trim_start_matches(['<', '&', '(']);
        let of = bare.split("::").next().unwrap_or_default();
        match LIBRARIES.contains(&of) {
            true => Origin::Library,
            false => Origin::Application,
        }
    }
}

/// `github.com/valyala/fasthttp` of `github.com/valyala/fasthttp.(*Server).serveConn`.
pub(super) fn package(function: &str) -> &str {
    let after_path = function.rfind('/').map_or(0, |slash| slash + 1);
    let dot = function[after_path..].find('.');
    dot.map_or(function, |dot| &function[..after_path + dot])
}

#[cfg(test)]
mod tests {
    use wallfinder_model::profile::{Measure, ProfileKind, StackFrame};

    use super::*;
    use crate::profile::read;

    #[test]
    fn stars_stand_for_any_text() {
        assert!(is_like("runtime.mallocgc*", "runtime.mallocgc"));
        assert!(is_like("runtime.mallocgc*", "runtime.mallocgcSmallNoscan"));
        assert!(!is_like("runtime.mallocgc", "runtime.mallocgcSmallNoscan"));
        assert!(is_like("*.Write*", "net.(*conn).Write"));
        assert!(!is_like("*.Write*", "net.(*conn).Read"));
        assert!(is_like("a*b*c", "a-b-b-c"));
        assert!(!is_like("a*b*c", "a-c-b"));
        assert!(is_like("*", ""));
    }

    #[test]
    fn the_table_that_ships_knows_what_servers_do() {
        let rules = Rules::default();
        for (function, category) in [
            ("runtime.mallocgcTiny", "allocation"),
            ("runtime.gcBgMarkWorker.func2", "collection"),
            ("runtime.memmove", "copying"),
            ("runtime.futex", "futex"),
            ("runtime.findRunnable", "scheduler"),
            ("sync.(*Mutex).Lock", "locking"),
            ("syscall.write", "writing to sockets"),
            ("encoding/json.Marshal", "encoding"),
            ("google.golang.org/protobuf/proto.Marshal", "encoding"),
            (
                "google.golang.org/grpc/internal/transport.(*loopyWriter).run",
                "protocol",
            ),
            (
                "github.com/valyala/fasthttp.(*Server).serveConn",
                "protocol",
            ),
        ] {
            assert_eq!(rules.category(function), Some(category), "{function}");
        }
        assert_eq!(rules.category("main.handler"), None);
        assert!(rules.is_idle("net/http/pprof.sleep"));
        assert!(rules.is_idle("github.com/valyala/fasthttp.(*workerPool).workerFunc"));
        assert!(!rules.is_idle("github.com/brianvoe/gofakeit/v7/source.(*lockedSource).Uint64"));
    }

    /// Waits of a nanosecond on stacks written from the leaf, the kernel's functions before `|`.
    fn waits(stacks: &[&str]) -> Profile {
        let mut profile = Profile {
            measures: vec![Measure {
                name: "delay".to_owned(),
                unit: "nanoseconds".to_owned(),
            }],
            duration_ns: 1_000_000_000,
            ..Profile::default()
        };
        for stack in stacks {
            let (kernel, user) = stack.split_once('|').expect("the kernel ends");
            let mut frames = Vec::new();
            for (names, file) in [(kernel, KERNEL), (user, "server")] {
                for name in names.split('<').filter(|name| !name.is_empty()) {
                    frames.push(StackFrame {
                        function: profile.functions.len() as u32,
                        line: 0,
                    });
                    profile.functions.push(Function {
                        name: name.to_owned(),
                        file: file.to_owned(),
                    });
                }
            }
            profile.samples.push(StackSample {
                stack: frames,
                values: vec![1],
            });
        }
        profile
    }

    #[test]
    fn waits_for_sockets_are_neither_idle_nor_waits_for_a_lock() {
        let rules = Rules::default();
        let (sockets, others) = rules.part_sockets(waits(&[
            "schedule<sk_wait_data<tcp_recvmsg_locked<tcp_recvmsg|ask_backend<serve",
            "schedule<do_sys_poll|own::serve",
            "schedule<pipe_read|own::serve",
            "schedule<futex_wait|own::lock<own::serve",
            "schedule<do_epoll_wait|own::serve",
            // Who calls is not what is waited in.
            "schedule<futex_wait|own::lock<do_sys_poll",
        ]));
        assert_eq!(sockets.duration_ns, 1_000_000_000);
        let reading = read(ProfileKind::Waits, &sockets, &rules);
        assert_eq!((reading.total, reading.idle, reading.busy()), (3, 0, 3));
        let mut places = reading.sites.iter();
        assert!(places.any(|site| site.function == "ask_backend"));
        let reading = read(ProfileKind::Waits, &others, &rules);
        assert_eq!((reading.total, reading.idle, reading.busy()), (3, 1, 2));
        // Of a program without symbols.
        let (sockets, others) = rules.part_sockets(waits(&["schedule<do_select|"]));
        assert_eq!((sockets.samples.len(), others.samples.len()), (1, 0));
    }

    #[test]
    fn who_parks_waits_for_something_unless_it_is_a_worker_of_a_runtime() {
        let rules = Rules::default();
        let idle_of = |stack: &str| read(ProfileKind::Waits, &waits(&[stack]), &rules).idle;
        for channel in [
            "futex_wait|std::thread::park<own::receive<own::serve",
            "futex_wait|std::thread::park_timeout<std::sync::mpmc::recv<own::serve",
            "futex_wait|std::thread::park<tokio::runtime::park::Inner::park<own::serve",
        ] {
            assert_eq!(idle_of(channel), 0, "{channel}");
        }
        for worker in [
            "futex_wait|std::sync::condvar::Condvar::wait\
             <tokio::runtime::scheduler::multi_thread::park::Inner::park_condvar",
            "futex_wait|parking_lot::condvar::Condvar::wait_until_internal\
             <tokio::runtime::scheduler::multi_thread::worker::Context::park_internal",
            "futex_wait|std::sync::condvar::Condvar::wait\
             <tokio::runtime::blocking::pool::Inner::run",
            "do_wait|own::main",
            "do_epoll_wait|own::serve",
        ] {
            assert_eq!(idle_of(worker), 1, "{worker}");
        }
    }

    #[test]
    fn a_table_without_sockets_is_taken() {
        let rules = Rules::parse("[[idle]]\nbecause = 'x'\nwaits = ['do_sys_poll']\n").unwrap();
        let (sockets, others) = rules.part_sockets(waits(&["schedule<do_sys_poll|own::serve"]));
        assert!(sockets.samples.is_empty());
        assert_eq!(read(ProfileKind::Waits, &others, &rules).idle, 1);
    }

    #[test]
    fn a_table_with_a_slip_is_refused_with_its_line() {
        let said = Rules::parse("[[rule]]\ncategory = 'x'\nframe = []\n").unwrap_err();
        assert!(said.contains("line 3") && said.contains("frame"), "{said}");
    }

    #[test]
    fn code_belongs_to_somebody() {
        for (name, file, origin) in [
            ("main.(*handler).serve", "h.go", Origin::Application),
            (
                "wallfinder.dev/subjects/catalogue/routes.Read",
                "",
                Origin::Application,
            ),
            (
                "github.com/valyala/fasthttp.(*Server).serveConn",
                "",
                Origin::Library,
            ),
            ("net/http.(*conn).serve", "server.go", Origin::Library),
            ("sync.(*Mutex).Lock", "mutex.go", Origin::Library),
            ("runtime.mallocgc", "malloc.go", Origin::Runtime),
            ("runtime/pprof.(*profileBuilder).build", "", Origin::Runtime),
            ("indexbytebody", "indexbyte_amd64.s", Origin::Runtime),
            (
                "internal/runtime/syscall/linux.Syscall6",
                "",
                Origin::Kernel,
            ),
            ("runtime.futex", "", Origin::Kernel),
            ("tcp_sendmsg_locked", "[kernel]", Origin::Kernel),
            ("knownwall::work::spin", "knownwall", Origin::Application),
            (
                "<std::io::Lines<B> as Iterator>::next",
                "knownwall",
                Origin::Library,
            ),
            ("ngx_http_gzip_body_filter", "nginx", Origin::Application),
            ("deflate_slow", "libz.so.1.3.1", Origin::Library),
            ("", "nginx", Origin::Unknown),
        ] {
            let function = Function {
                name: name.to_owned(),
                file: file.to_owned(),
            };
            assert_eq!(Origin::of(&function), origin, "{name}");
        }
    }

    #[test]
    fn a_package_ends_before_its_function() {
        assert_eq!(package("github.com/a/b.(*T).M"), "github.com/a/b");
        assert_eq!(package("main.main"), "main");
        assert_eq!(
            package("gopkg.in/yaml%2ev3.Unmarshal"),
            "gopkg.in/yaml%2ev3"
        );
    }
}
