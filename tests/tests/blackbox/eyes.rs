//! The log of decisions: `-v`, `-vv` and `WALLFINDER_LOG`.

use std::process::Command;
use std::time::Duration;

use wallfinder_tests::{Double, Place, Ran, alone, binary, quietly, together};

const SHORT: [&str; 8] = [
    "-q",
    "-c",
    "2",
    "-d",
    "300ms",
    "--warmup",
    "0s",
    "--no-calibrate",
];

/// The lines of a log: when, at which level, by which crate.
fn events(ran: &Ran) -> Vec<&str> {
    let is_event = |line: &&str| {
        let mut words = line.split_whitespace();
        let at = words.next().and_then(|word| word.strip_suffix('s'));
        let has_time = at.is_some_and(|at| at.parse::<f64>().is_ok());
        let has_level = matches!(words.next(), Some("WARN" | "INFO" | "DEBUG" | "TRACE"));
        has_time
            && has_level
            && words
                .next()
                .is_some_and(|word| word.starts_with("wallfinder"))
    };
    ran.err.lines().filter(is_event).collect()
}

fn with_filter(place: &Place, filter: &str, args: &[&str]) -> Ran {
    let mut command = Command::new(binary());
    command.env("WALLFINDER_LOG", filter).args(args);
    place.start_command(command).wait(Duration::from_secs(60))
}

#[test]
fn v_logs_decisions_and_nothing_is_logged_without() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let run = |more: &[&str]| {
        let args = [&["run", &url][..], &SHORT, more].concat();
        place.run(&args).ends_with(0)
    };
    let quiet = run(&[]);
    assert_eq!(quiet.err, "");
    let ran = run(&["-v"]);
    for decision in ["processors are placed", "step begins", "step is measured"] {
        let of_it = events(&ran)
            .into_iter()
            .filter(|line| line.contains(decision));
        assert_eq!(of_it.count(), 1, "{decision}: {}", ran.err);
    }
    assert!(ran.err.contains("connections=2"), "{}", ran.err);
    assert_eq!(events(&ran).len(), ran.err.lines().count(), "{}", ran.err);
    assert!(!ran.err.contains("DEBUG"), "{}", ran.err);
    // It goes to standard error alone.
    assert!(!ran.out.contains("step begins"), "{}", ran.out);
}

#[test]
fn the_calibration_is_logged_as_measured_and_then_as_taken_from_the_cache() {
    let _turn = alone();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [&["run", &url, "-v"][..], &SHORT[..7]].concat();
    let run = || place.run(&args).ends_with(0);
    let logged = |ran: &Ran, text: &str| events(ran).iter().any(|line| line.contains(text));
    let first = run();
    assert!(logged(&first, "calibration is measured"), "{}", first.err);
    // On a machine whose pace changes it is measured again, which the log tells as well.
    let told = (0..5).any(|_| logged(&run(), "calibration is taken from the cache"));
    assert!(told, "{}", first.err);
}

#[test]
fn the_environment_chooses_what_is_logged() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [&["run", &url][..], &SHORT].concat();
    let all = with_filter(&place, "debug", &args).ends_with(0);
    for of in ["wallfinder::", "wallfinder_conduct::"] {
        assert!(
            events(&all).iter().any(|line| line.contains(of)),
            "{}",
            all.err
        );
    }
    let one = with_filter(&place, "wallfinder_conduct=info", &args).ends_with(0);
    assert!(!events(&one).is_empty(), "{}", one.err);
    for line in events(&one) {
        assert!(line.contains(" INFO wallfinder_conduct::"), "{line}");
    }
    let none = with_filter(&place, "off", &args).ends_with(0);
    assert_eq!(none.err, "");
}

#[test]
fn a_bad_filter_is_refused_before_anything_runs() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [&["run", &url][..], &SHORT].concat();
    for filter in ["loud", "wallfinder_testbed=loud", "wallfinder_nobody=debug"] {
        let ran = with_filter(&place, filter, &args).ends_with(2);
        assert!(ran.err.contains(filter), "{}", ran.err);
        assert!(ran.err.contains("wallfinder_testbed=debug"), "{}", ran.err);
    }
    assert_eq!((place.runs().len(), double.requests()), (0, 0));
}

#[test]
fn secrets_are_taken_out_of_the_log() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    // The name of a step, which is logged, holds the path.
    let url = double.url("/hush-header-key?token=hush-query");
    let args = [
        &["run", &url, "-vv", "-H", "X-Api-Key: hush-header-key"][..],
        &SHORT,
    ]
    .concat();
    let ran = place.run(&args).ends_with(0);
    let begins = events(&ran)
        .into_iter()
        .find(|line| line.contains("step begins"));
    let begins = begins.unwrap_or_else(|| panic!("{}", ran.err));
    assert!(begins.contains("/***"), "{begins}");
    assert!(!ran.err.contains("hush"), "{}", ran.err);
}

#[test]
fn what_others_say_does_not_act_from_the_log() {
    // What others send over loopback would be taken for the driver's load.
    let _turn = quietly();
    let (place, double) = (Place::new(), Double::plain());
    let words = place.file(
        "words",
        b"\x1b[2J\xe2\x80\xae said\n 0.1s  INFO wallfinder: forged\n",
    );
    let driver = format!("sh -c 'cat {} >&2; exit 3' {{url}}", words.display());
    let ran = place.run(&["run", &double.url("/"), "-q", "-v", "--driver", &driver]);
    let ran = ran.ends_with(1);
    let ended = events(&ran)
        .into_iter()
        .find(|line| line.contains("driver has ended"));
    let ended = ended.unwrap_or_else(|| panic!("{}", ran.err));
    assert!(ended.contains("exit code 3"), "{ended}");
    let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!ran.err.contains(acts), "{:?}", ran.err);
}
