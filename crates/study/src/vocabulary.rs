//! The words of conditions: fields of a step, functions, variables.
//!
//! These tables are the documentation, and what names are checked against. All numbers are
//! doubles. A field that was not measured is absent: a condition that needs it leaves its
//! claim open.

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A double.
    Number,
    /// A string.
    Text,
    /// A boolean.
    Truth,
}

/// Fields of a step: path, kind, meaning.
pub const FIELDS: &[(&str, Kind, &str)] = &[
    (
        "label",
        Kind::Text,
        "name of the step: `simple/engine/c100`",
    ),
    ("group", Kind::Text, "id of its group"),
    ("driver", Kind::Text, "name of its driver"),
    ("path", Kind::Text, "path and query"),
    ("connections", Kind::Number, "connections"),
    (
        "payload",
        Kind::Number,
        "bytes of data in each request, where the run says so",
    ),
    ("round", Kind::Number, "which repetition it is, from 1"),
    (
        "depth",
        Kind::Number,
        "requests in flight on one connection at the most",
    ),
    ("in_flight_max", Kind::Number, "connections × depth"),
    (
        "in_flight",
        Kind::Number,
        "requests in flight on average, counted",
    ),
    ("throughput", Kind::Number, "good answers per second"),
    (
        "fairness",
        Kind::Number,
        "Jain's index of good answers over connections, or over Go's clients: 1 is even",
    ),
    (
        "answered",
        Kind::Number,
        "good answers in the window; of a foreign driver, in its whole run",
    ),
    (
        "samples_kept",
        Kind::Number,
        "requests kept one by one, where they are and none is missing",
    ),
    ("window_ms", Kind::Number, "length of the window"),
    (
        "errors_share",
        Kind::Number,
        "requests that failed and connections that could not be made, among these and good answers, 0..1",
    ),
    ("mean_ms", Kind::Number, "mean latency"),
    ("p50_ms", Kind::Number, "median latency"),
    ("p95_ms", Kind::Number, "95th percentile of latency"),
    ("p99_ms", Kind::Number, "99th percentile of latency"),
    ("p999_ms", Kind::Number, "99.9th percentile of latency"),
    ("tail", Kind::Number, "99th percentile over median"),
    (
        "service.mean_ms",
        Kind::Number,
        "mean from sending on: without the wait for a permit or for credit",
    ),
    ("service.p50_ms", Kind::Number, "its median"),
    ("service.p99_ms", Kind::Number, "its 99th percentile"),
    (
        "service.tail",
        Kind::Number,
        "its 99th percentile over its median",
    ),
    (
        "n_over_x_ms",
        Kind::Number,
        "in flight over throughput: the mean that Little's law demands",
    ),
    (
        "little_ratio",
        Kind::Number,
        "N/X over the mean time in flight: 1 when all three agree",
    ),
    (
        "little_ratio_p50",
        Kind::Number,
        "N/X over the median time in flight",
    ),
    (
        "little_off",
        Kind::Number,
        "how far `little_ratio` lies outside of what the window's edges and failures explain",
    ),
    (
        "mb_per_s",
        Kind::Number,
        "megabytes read from sockets per second",
    ),
    (
        "bytes_per_answer",
        Kind::Number,
        "bytes read from sockets per good answer",
    ),
    (
        "bound_by",
        Kind::Text,
        "label of the wall: `server-cpu`, `client-cpu`, `inconclusive`, ...",
    ),
    ("confidence", Kind::Number, "of that verdict, 0..1"),
    (
        "how",
        Kind::Text,
        "how it was established: `proved`, `likely`, `observed`, `inconclusive`",
    ),
    (
        "squeezed.server_speed",
        Kind::Number,
        "elasticity to the speed of the server's processors, where it was squeezed",
    ),
    (
        "squeezed.server_capacity",
        Kind::Number,
        "elasticity to how much of them it may use",
    ),
    (
        "squeezed.client_speed",
        Kind::Number,
        "elasticity to the speed of the client",
    ),
    (
        "squeezed.more_clients",
        Kind::Number,
        "elasticity to the number of client hosts",
    ),
    (
        "squeezed.in_flight",
        Kind::Number,
        "elasticity to requests in flight",
    ),
    (
        "profile.cpu_us",
        Kind::Number,
        "CPU in the server's profile per good answer",
    ),
    (
        "profile.cores",
        Kind::Number,
        "cores in use by the server's profile",
    ),
    (
        "profile.off_share",
        Kind::Number,
        "share of the processes' CPU that the profile does not have",
    ),
    (
        "profile.writing_share",
        Kind::Number,
        "share of the profile's CPU that writes to sockets",
    ),
    (
        "profile.scheduler_share",
        Kind::Number,
        "share of the runtime's scheduler",
    ),
    (
        "profile.locking_share",
        Kind::Number,
        "share of taking and giving back mutexes",
    ),
    (
        "profile.collection_share",
        Kind::Number,
        "share of the garbage collector",
    ),
    (
        "profile.allocation_share",
        Kind::Number,
        "share of allocating",
    ),
    (
        "profile.protocol_share",
        Kind::Number,
        "share of reading and writing the protocol",
    ),
    (
        "profile.reading_share",
        Kind::Number,
        "share that reads from sockets",
    ),
    (
        "profile.futex_share",
        Kind::Number,
        "share of futexes, in the runtime and in the kernel",
    ),
    (
        "profile.copying_share",
        Kind::Number,
        "share of copying memory",
    ),
    (
        "profile.channels_share",
        Kind::Number,
        "share of sending and receiving on channels",
    ),
    (
        "profile.encoding_share",
        Kind::Number,
        "share of encoding and decoding messages",
    ),
    (
        "profile.kernel_share",
        Kind::Number,
        "share whose leaf is the kernel's",
    ),
    (
        "profile.futex_with_callees_share",
        Kind::Number,
        "share of Go's futexes with what the kernel does for them; futex_share has what no other rule names before",
    ),
    (
        "profile.futex_of_locks_share",
        Kind::Number,
        "share of its time in futexes that is below a lock being taken or given back",
    ),
    (
        "profile.named_share",
        Kind::Number,
        "share of all whose leaf has a name",
    ),
    (
        "profile.spinning_share",
        Kind::Number,
        "share of Go's procyield, which waits for a lock on the processor",
    ),
    (
        "profile.inflating_share",
        Kind::Number,
        "share of functions that inflate, by their names",
    ),
    (
        "profile.utf8_share",
        Kind::Number,
        "share of functions that decode or encode UTF-8, by their names",
    ),
    (
        "profile.clearing_share",
        Kind::Number,
        "share of functions that set memory to zero, by their names",
    ),
    (
        "profile.frames_before_kernel",
        Kind::Number,
        "frames above the kernel on stacks that a system call ends, on average",
    ),
    (
        "profile.frames_outside_runtime",
        Kind::Number,
        "of these those outside Go's runtime and its packages for system calls, where there are such",
    ),
    (
        "profile.waiting",
        Kind::Number,
        "goroutines that wait at any moment: blocked seconds per second, idle waits left out",
    ),
    (
        "profile.idle",
        Kind::Number,
        "goroutines that wait for work: accept loops, the profiler's own handlers",
    ),
    (
        "profile.wait_us",
        Kind::Number,
        "blocked time per good answer, idle waits left out",
    ),
    (
        "profile.wait",
        Kind::Text,
        "function with the most blocked time, idle waits left out",
    ),
    (
        "profile.wait_in",
        Kind::Text,
        "what it waits in: `sync.(*Mutex).Lock`",
    ),
    (
        "profile.wait_share",
        Kind::Number,
        "its share of blocked time without idle waits",
    ),
    (
        "profile.wait_share_of_all",
        Kind::Number,
        "its share of all blocked time, as other tools count",
    ),
    (
        "profile.wait_in_mutex",
        Kind::Number,
        "seconds per second that the mutex profile has for that function",
    ),
    (
        "profile.contention",
        Kind::Number,
        "seconds per second that others waited for mutexes, by the mutex profile",
    ),
    (
        "profile.contentions_per_request",
        Kind::Number,
        "how often a mutex was waited for per good answer, by the mutex profile",
    ),
    (
        "profile.holder",
        Kind::Text,
        "function that held what others waited for the longest",
    ),
    (
        "profile.holder_share",
        Kind::Number,
        "its share of the mutex profile",
    ),
    (
        "profile.allocated_bytes",
        Kind::Number,
        "bytes allocated per good answer",
    ),
    ("profile.heap_mb", Kind::Number, "megabytes alive"),
    (
        "client_profile.cpu_us",
        Kind::Number,
        "CPU in the client's profile per good answer",
    ),
    (
        "client_profile.writing_share",
        Kind::Number,
        "share of the profile's CPU that writes to sockets",
    ),
    (
        "client_profile.reading_share",
        Kind::Number,
        "share that reads from sockets",
    ),
    (
        "client_profile.scheduler_share",
        Kind::Number,
        "share of the runtime's scheduler",
    ),
    (
        "client_profile.locking_share",
        Kind::Number,
        "share of taking and giving back mutexes",
    ),
    (
        "client_profile.futex_share",
        Kind::Number,
        "share of futexes, in the runtime and in the kernel",
    ),
    (
        "client_profile.collection_share",
        Kind::Number,
        "share of the garbage collector",
    ),
    (
        "client_profile.allocation_share",
        Kind::Number,
        "share of allocating",
    ),
    (
        "client_profile.copying_share",
        Kind::Number,
        "share of copying memory",
    ),
    (
        "client_profile.channels_share",
        Kind::Number,
        "share of sending and receiving on channels",
    ),
    (
        "client_profile.encoding_share",
        Kind::Number,
        "share of encoding and decoding messages",
    ),
    (
        "client_profile.protocol_share",
        Kind::Number,
        "share of reading and writing the protocol",
    ),
    (
        "client_profile.kernel_share",
        Kind::Number,
        "share whose leaf is the kernel's",
    ),
    (
        "client_profile.futex_with_callees_share",
        Kind::Number,
        "share of Go's futexes with what the kernel does for them; futex_share has what no other rule names before",
    ),
    (
        "client_profile.futex_of_locks_share",
        Kind::Number,
        "share of its time in futexes that is below a lock being taken or given back",
    ),
    (
        "client_profile.named_share",
        Kind::Number,
        "share of all whose leaf has a name",
    ),
    (
        "client_profile.spinning_share",
        Kind::Number,
        "share of Go's procyield, which waits for a lock on the processor",
    ),
    (
        "client_profile.inflating_share",
        Kind::Number,
        "share of functions that inflate, by their names",
    ),
    (
        "client_profile.utf8_share",
        Kind::Number,
        "share of functions that decode or encode UTF-8, by their names",
    ),
    (
        "client_profile.clearing_share",
        Kind::Number,
        "share of functions that set memory to zero, by their names",
    ),
    (
        "client_profile.frames_before_kernel",
        Kind::Number,
        "frames above the kernel on stacks that a system call ends, on average",
    ),
    (
        "client_profile.frames_outside_runtime",
        Kind::Number,
        "of these those outside Go's runtime and its packages for system calls, where there are such",
    ),
    (
        "server_bound",
        Kind::Truth,
        "the wall stands on the server's side",
    ),
    (
        "client.cpu_per_request_us",
        Kind::Number,
        "CPU time of the driver's processes per good answer",
    ),
    (
        "client.hosts",
        Kind::Number,
        "hosts that the load came from",
    ),
    ("client.cores", Kind::Number, "cores that the driver used"),
    (
        "client.utilisation",
        Kind::Number,
        "of the processors it may use, 0..1",
    ),
    (
        "client.usr",
        Kind::Number,
        "share of its processors in user code",
    ),
    (
        "client.sys",
        Kind::Number,
        "share of its processors in kernel code",
    ),
    (
        "client.softirq",
        Kind::Number,
        "share of its processors in receive work",
    ),
    ("client.idle", Kind::Number, "share of its processors idle"),
    (
        "client.faults_per_request",
        Kind::Number,
        "page faults of the driver's processes per good answer",
    ),
    (
        "client.faults_since_start",
        Kind::Number,
        "page faults of the driver's processes since they began, up to the window's end",
    ),
    (
        "client.switches_per_request",
        Kind::Number,
        "context switches of the driver's processes per good answer",
    ),
    ("client.threads", Kind::Number, "threads"),
    ("client.processes", Kind::Number, "processes"),
    ("client.cpus", Kind::Number, "processors that it may run on"),
    (
        "client.user_share",
        Kind::Number,
        "share of the driver's CPU time that is in user code",
    ),
    (
        "client.run_wait_us",
        Kind::Number,
        "time that the driver's threads could run and did not, per good answer",
    ),
    (
        "client.calls_per_request",
        Kind::Number,
        "system calls of the driver per good answer, where they were watched",
    ),
    ("client.futex_per_request", Kind::Number, "of them futex"),
    (
        "client.reads_per_request",
        Kind::Number,
        "of them those that read: read, readv, recvfrom, recvmsg",
    ),
    (
        "client.writes_per_request",
        Kind::Number,
        "of them those that write: write, writev, sendto, sendmsg, sendfile",
    ),
    ("client.epoll_per_request", Kind::Number, "of them epoll's"),
    (
        "client.sleeps_per_request",
        Kind::Number,
        "of them nanosleep and clock_nanosleep",
    ),
    (
        "client.yields_per_request",
        Kind::Number,
        "of them sched_yield",
    ),
    (
        "client.cycles_per_request",
        Kind::Number,
        "cycles per good answer, where the machine counts them",
    ),
    (
        "client.instructions_per_request",
        Kind::Number,
        "instructions per good answer",
    ),
    (
        "client.cache_references_per_request",
        Kind::Number,
        "looks into the last cache per good answer",
    ),
    (
        "client.cache_misses_per_request",
        Kind::Number,
        "of them, those that found nothing",
    ),
    (
        "client.branch_misses_per_request",
        Kind::Number,
        "branches taken the wrong way per good answer",
    ),
    (
        "client.migrations_per_request",
        Kind::Number,
        "times that a thread got onto another processor, per good answer",
    ),
    (
        "server.cpu_per_request_us",
        Kind::Number,
        "CPU time of the server's processes per good answer",
    ),
    ("server.cores", Kind::Number, "cores that the server used"),
    (
        "server.utilisation",
        Kind::Number,
        "of the processors it may use, 0..1",
    ),
    (
        "server.usr",
        Kind::Number,
        "share of its processors in user code",
    ),
    (
        "server.sys",
        Kind::Number,
        "share of its processors in kernel code",
    ),
    (
        "server.softirq",
        Kind::Number,
        "share of its processors in receive work",
    ),
    ("server.idle", Kind::Number, "share of its processors idle"),
    (
        "server.faults_per_request",
        Kind::Number,
        "page faults of the server's processes per good answer",
    ),
    (
        "server.faults_since_start",
        Kind::Number,
        "page faults of the server's processes since they began, up to the window's end",
    ),
    (
        "server.switches_per_request",
        Kind::Number,
        "context switches of the server's processes per good answer",
    ),
    ("server.threads", Kind::Number, "threads"),
    ("server.processes", Kind::Number, "processes"),
    (
        "server.gomaxprocs",
        Kind::Number,
        "GOMAXPROCS of each of them, where a subject says it",
    ),
    ("server.cpus", Kind::Number, "processors that it may run on"),
    (
        "server.user_share",
        Kind::Number,
        "share of the server's CPU time that is in user code",
    ),
    (
        "server.run_wait_us",
        Kind::Number,
        "time that the server's threads could run and did not, per good answer",
    ),
    (
        "server.calls_per_request",
        Kind::Number,
        "system calls of the server per good answer, where they were watched",
    ),
    ("server.futex_per_request", Kind::Number, "of them futex"),
    (
        "server.reads_per_request",
        Kind::Number,
        "of them those that read: read, readv, recvfrom, recvmsg",
    ),
    (
        "server.writes_per_request",
        Kind::Number,
        "of them those that write: write, writev, sendto, sendmsg, sendfile",
    ),
    ("server.epoll_per_request", Kind::Number, "of them epoll's"),
    (
        "server.sleeps_per_request",
        Kind::Number,
        "of them nanosleep and clock_nanosleep",
    ),
    (
        "server.yields_per_request",
        Kind::Number,
        "of them sched_yield",
    ),
    (
        "server.cycles_per_request",
        Kind::Number,
        "cycles per good answer, where the machine counts them",
    ),
    (
        "server.instructions_per_request",
        Kind::Number,
        "instructions per good answer",
    ),
    (
        "server.cache_references_per_request",
        Kind::Number,
        "looks into the last cache per good answer",
    ),
    (
        "server.cache_misses_per_request",
        Kind::Number,
        "of them, those that found nothing",
    ),
    (
        "server.branch_misses_per_request",
        Kind::Number,
        "branches taken the wrong way per good answer",
    ),
    (
        "server.migrations_per_request",
        Kind::Number,
        "times that a thread got onto another processor, per good answer",
    ),
    (
        "server.send_buffer_limited",
        Kind::Number,
        "share of the window in which send buffers were the limit, of at most 2,000 of its sockets, 0..1",
    ),
    (
        "link.rate_mbit",
        Kind::Number,
        "rate of the link in Mbit/s, where it has one",
    ),
    (
        "link.downlink_share",
        Kind::Number,
        "of the link's rate from server to client, 0..1",
    ),
    (
        "link.uplink_share",
        Kind::Number,
        "of the link's rate from client to server, 0..1",
    ),
    (
        "link.downlink_bytes",
        Kind::Number,
        "bytes on the link per good answer, to the client",
    ),
    (
        "link.uplink_bytes",
        Kind::Number,
        "bytes on the link per good answer, to the server",
    ),
    (
        "link.downlink_packets",
        Kind::Number,
        "packets per good answer, to the client",
    ),
    (
        "link.uplink_packets",
        Kind::Number,
        "packets per good answer, to the server",
    ),
    (
        "link.segments_out",
        Kind::Number,
        "TCP segments that the server's host sends per good answer, acknowledgements included",
    ),
    (
        "ceiling.throughput",
        Kind::Number,
        "what the engine's workers can drive for such a load",
    ),
    (
        "ceiling.share",
        Kind::Number,
        "throughput over that ceiling",
    ),
    (
        "ceiling.cpu_per_request_us",
        Kind::Number,
        "worker CPU per request at that ceiling",
    ),
];

/// Fields that a step has by its plan, whatever was measured.
pub(crate) const PLANNED: [&str; 9] = [
    "label",
    "group",
    "driver",
    "path",
    "connections",
    "payload",
    "round",
    "depth",
    "in_flight_max",
];

/// Functions beside the language's own: signature, meaning.
pub const FUNCTIONS: &[(&str, &str)] = &[
    (
        "best(group, driver)",
        "the step with the most throughput; the claim is open without one",
    ),
    (
        "at(group, driver, connections)",
        "the step with so many connections",
    ),
    (
        "rounds(group, driver, payload, clients)",
        "the steps of one cell, one for each round, in order; 0 bytes where nothing is sent",
    ),
    ("first(group, driver)", "the step with the least in flight"),
    ("last(group, driver)", "the step with the most in flight"),
    ("ramp(group, driver)", "all steps, by what is in flight"),
    (
        "sizes_of(group, driver, clients)",
        "sizes that were run with so many clients, in bytes; looks at no step",
    ),
    (
        "clients_of(group, driver, payload)",
        "how many clients there were at so many bytes; looks at no step",
    ),
    ("ran(group, driver)", "whether there is such a step"),
    ("drivers_of(group)", "names of the drivers that ran it"),
    (
        "near(a, b, tolerance)",
        "whether a is within this share of b",
    ),
    ("max(list)", "largest number of a list"),
    ("min(list)", "smallest number of a list"),
    ("mean(list)", "mean of a list of numbers"),
    ("median(list)", "median of a list of numbers"),
    (
        "ratio(over, under)",
        "geometric mean of the ratios of two lists, round by round",
    ),
    (
        "ratio_low(over, under)",
        "lower end of its 95 % interval; needs two rounds",
    ),
    ("ratio_high(over, under)", "upper end of it"),
];

/// Variables beside `let` names and `driver`.
pub const VARIABLES: &[(&str, &str)] = &[
    ("steps", "every step that ran, in order"),
    ("size", "`smoke`, `demo` or `full`"),
];
