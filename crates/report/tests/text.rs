//! The terminal text: what it says, how wide it is, what it never lets through.

mod sample;

use unicode_width::UnicodeWidthStr;
use wallfinder_judge::proof::ab::weigh;
use wallfinder_model::experiment::Squeeze;
use wallfinder_model::record::{CostBound, Pool, Sign, SignKind};
use wallfinder_model::verdict::Elasticity;
use wallfinder_model::{Record, Wall};
use wallfinder_report::text::{self, Paths, live};
use wallfinder_report::{Look, csv, html, json};

const PATHS: Paths<'static> = Paths {
    record: Some("runs/20261120T140211Z-run-simple"),
    report: Some("runs/20261120T140211Z-run-simple/report.html"),
};

const PLAIN: Look = Look {
    width: 100,
    colour: false,
    ascii: false,
};

fn looks() -> Vec<Look> {
    let mut looks = Vec::new();
    for width in [40, 60, 80, 100, 200] {
        for ascii in [false, true] {
            looks.push(Look {
                width,
                colour: false,
                ascii,
            });
        }
    }
    looks
}

/// Every text of a record.
fn texts(record: &Record, look: &Look) -> Vec<String> {
    vec![
        text::record(record, &Paths::default(), look),
        text::run(record, &Paths::default(), look),
        text::ramp(record, &Paths::default(), look),
        text::find(record, &Paths::default(), look),
        text::ab(record, &Paths::default(), look),
        text::claims(&record.claims, look),
        text::comparison(&wallfinder_judge::compare::compare(record, record), look),
        record
            .steps
            .iter()
            .map(|step| live::step_line(step, 7, look) + "\n")
            .collect(),
    ]
}

#[test]
fn starts_of_the_server_stand_beside_the_rounds() {
    let mut record = sample::proved();
    assert!(!text::find(&record, &PATHS, &PLAIN).contains("starts"));
    let step = record.steps.last_mut().unwrap();
    let windows = &mut step.experiment.as_mut().unwrap().windows;
    windows.last_mut().unwrap().restart = 2;
    assert!(text::find(&record, &PATHS, &PLAIN).contains("rounds · 3 starts · "));
}

#[test]
fn rounds_are_those_of_the_wall_and_not_of_what_was_looked_at_longest() {
    let mut record = sample::proved();
    let verdict = record.steps.last_mut().unwrap().verdict.as_mut().unwrap();
    let own = verdict.elasticities[Squeeze::Downlink.label()];
    for (squeeze, rounds) in [(Squeeze::InFlight, 16), (Squeeze::Downlink, 7)] {
        let read = Elasticity { rounds, ..own };
        verdict
            .elasticities
            .insert(squeeze.label().to_owned(), read);
    }
    assert_eq!(verdict.wall, Wall::Downlink);
    assert!(text::find(&record, &PATHS, &PLAIN).contains("proved · 7 rounds"));
}

#[test]
fn nothing_is_wider_than_asked_for() {
    for (name, record) in sample::all() {
        for look in looks() {
            // The narrowest tables keep their five columns that matter.
            let most = usize::from(look.width.clamp(80, 100));
            for text in texts(&record, &look) {
                for line in text.lines() {
                    assert!(line.width() <= most, "{name} at {look:?}: {line:?}");
                }
            }
        }
    }
}

#[test]
fn plain_terminals_get_ascii_and_no_control_characters() {
    for (name, record) in sample::all() {
        for look in looks() {
            for text in texts(&record, &look) {
                assert!(
                    !text.contains(|c: char| c.is_control() && c != '\n'),
                    "{name}: {text:?}"
                );
                assert!(!text.contains('\u{202e}'), "{name}");
                assert!(!look.ascii || text.is_ascii(), "{name}: {text}");
            }
        }
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    for (_, record) in sample::all() {
        let plain = texts(&record, &Look::default());
        let coloured = texts(
            &record,
            &Look {
                colour: true,
                ..Look::default()
            },
        );
        for (plain, coloured) in plain.iter().zip(&coloured) {
            let mut without = String::new();
            let mut rest = coloured.as_str();
            while let Some(start) = rest.find("\x1b[") {
                without.push_str(&rest[..start]);
                rest = &rest[start..];
                rest = &rest[rest.find('m').expect("a colour ends") + 1..];
            }
            without.push_str(rest);
            assert_eq!(plain, &without);
        }
    }
}

/// What `grep` and `awk` in people's scripts look for: `Requests/sec:\s+([\d.]+)` and
/// `Transfer/sec:\s+([\d.]+)([KMGT]?B)`.
#[test]
fn the_closing_lines_of_wrk_are_scraped() {
    for (name, record) in sample::all() {
        let text = text::run(&record, &PATHS, &Look::default());
        if record.steps.is_empty() {
            assert!(!text.contains("Requests/sec"), "{name}");
            continue;
        }
        let field = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap();
            line[key.len()..].trim_start().to_owned()
        };
        let requests: f64 = field("Requests/sec:").parse().unwrap();
        let step = record.steps.last().unwrap();
        assert!((requests - step.throughput).abs() <= 0.005, "{name}");
        let transfer = field("Transfer/sec:");
        let number = transfer.trim_end_matches(['B', 'K', 'M', 'G', 'T']);
        assert!(number.parse::<f64>().unwrap() > 0.0, "{name}: {transfer}");
        assert!(transfer.ends_with('B'), "{name}");
    }
    let text = text::run(&sample::one_step(), &PATHS, &Look::default());
    assert!(text.contains("\nRequests/sec:  70341.10\nTransfer/sec:     11.81MB\n"));
}

#[test]
fn the_answer_comes_first() {
    let text = text::run(&sample::one_step(), &PATHS, &Look::default());
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(at("WALL") < at("throughput"));
    assert!(at("throughput") < at("p99.99"));
    assert!(at("p99.99") < at("N/X"));
    assert!(at("N/X") < at("\n CPU "));
    assert!(at("\n CPU ") < at("errors"));
    assert!(at("errors") < at("CAREFUL"));
    assert!(at("CAREFUL") < at("Requests/sec:"));
    assert!(at("Requests/sec:") < at("report.html"));
    assert!(text.contains("39 % of what these workers can drive"));
}

#[test]
fn each_doubt_is_said_once_and_only_what_matters_is_missing() {
    let text = text::record(&sample::observed(), &PATHS, &Look::default());
    assert_eq!(text.matches("CAP_SYS_NICE").count(), 1, "{text}");
    assert_eq!(text.matches("out of reach").count(), 1, "{text}");
    for label in [
        "offered",
        "downlink",
        "backend",
        "server-speed",
        "Hardware counters",
    ] {
        assert!(!text.contains(label), "{label}: {text}");
    }
    assert_eq!(text.matches("nothing squeezed").count(), 1, "{text}");
}

#[test]
fn two_settings_are_answered_in_one_sentence() {
    let text = |record: &Record| text::record(record, &PATHS, &Look::default());
    let differs = text(&sample::ab());
    assert!(differs.contains("ANSWER     B answers 2.05 × as many requests as A [2.04, 2.06]."));
    assert!(text(&equal()).contains("ANSWER     No difference shown"));
    assert!(text(&few()).contains("ANSWER     Not compared: only 2 rounds have both"));
}

/// Two settings that are equal, of which B had huge pages, with what was seen of them.
fn with_huge_pages(a: f64, b: f64) -> Record {
    let mut record = equal();
    let ab = record.ab.as_mut().unwrap();
    let seen = |(_, is_b): &(u32, bool)| Some(if *is_b { b } else { a });
    ab.signs = vec![Sign {
        setting: "huge-pages=always".to_owned(),
        kind: SignKind::HugeBytes,
        steps: ab.order.iter().map(seen).collect(),
        a: None,
        b: None,
        acted: None,
    }];
    weigh(&record.steps, ab);
    record
}

#[test]
fn a_setting_that_did_not_act_never_reads_as_no_difference() {
    let acted = with_huge_pages(0.0, 4e8);
    let text = text::record(&acted, &PATHS, &Look::default());
    assert!(text.contains("ANSWER     No difference shown"), "{text}");
    assert!(text.contains("huge-pages=always: B had 400 MB in huge pages, A none."));
    let idle = with_huge_pages(0.0, 0.0);
    for look in looks() {
        let text = text::record(&idle, &PATHS, &look);
        assert!(!text.contains("No difference") && !text.contains("no difference"));
        assert!(text.contains("Not applicable"), "{text}");
    }
    let page = html::render(&idle);
    assert!(page.contains("Not applicable: huge-pages=always did not act here"));
    assert!(!page.contains("no difference shown"), "the page's table");
    let mut unseen = idle;
    unseen.ab.as_mut().unwrap().signs[0].acted = None;
    let text = text::record(&unseen, &PATHS, &Look::default());
    assert!(text.contains("Not known whether huge-pages"), "{text}");
    assert!(!text.contains("o difference shown"), "{text}");
}

#[test]
fn a_bound_that_was_declared_is_the_answer() {
    let mut record = equal();
    let ab = record.ab.as_mut().unwrap();
    ab.at_most_cost = Some(CostBound {
        share: 0.1,
        outcome: None,
    });
    weigh(&record.steps, ab);
    let text = text::record(&record, &PATHS, &Look::default());
    assert!(
        text.contains("ANSWER     B costs at most 10 % of A's throughput: shown"),
        "{text}"
    );
}

#[test]
fn a_prediction_is_worded() {
    let record = sample::proved();
    let step = record.steps.last().unwrap();
    let twice = wallfinder_judge::proof::what_if(
        step,
        &[(wallfinder_model::experiment::Squeeze::Downlink, 2.0)],
    );
    let asked = [("bytes=0.5", twice), ("x", None)];
    let text = text::what_if(&asked, step, &Look::default());
    assert!(
        text.starts_with(" WHAT IF    half the bytes: 56,"),
        "{text}"
    );
    assert!(text.contains("nothing to predict it from"), "{text}");
}

#[test]
fn a_request_that_was_told_only_with_others_is_said_to_be_one_of_them() {
    let mut record = sample::proved();
    let step = record.steps.last_mut().unwrap();
    step.pool = Some(Pool {
        names: vec!["export".to_owned(), "import".to_owned()],
        ..Pool::default()
    });
    let asked = [("export=0.5", None), ("search=0.5", None)];
    let text = text::what_if(&asked, step, &Look::default());
    assert!(
        text.contains("its cost is told only together with those of other rare ones, 2 in all."),
        "{text}"
    );
    assert!(text.contains("nothing to predict it from"), "{text}");
}

/// Behind a quota come the processors, and faster ones would stand as idle.
#[test]
fn a_quota_is_told_from_the_processors_behind_it() {
    let mut record = sample::proved();
    let verdict = record.steps.last_mut().unwrap().verdict.as_mut().unwrap();
    verdict.wall = Wall::ServerCpu;
    let lines = |record: &Record| {
        let text = text::find(record, &PATHS, &Look::default());
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ")
    };
    let by_processors = lines(&record);
    assert!(by_processors.contains("NEXT the server's CPU at"));
    assert!(by_processors.contains("lifting the server's CPU alone"));
    assert!(by_processors.contains("WHAT IF a server twice as fast"));
    let verdict = record.steps.last_mut().unwrap().verdict.as_mut().unwrap();
    verdict.detail = Some(wallfinder_model::Detail::Quota { cores: 0.5 });
    let by_quota = lines(&record);
    let next = "NEXT the processors that the quota leaves idle at";
    assert!(by_quota.contains(next), "{by_quota}");
    assert!(by_quota.contains("lifting the quota alone"), "{by_quota}");
    assert!(!by_quota.contains("WHAT IF"), "{by_quota}");
}

#[test]
fn a_client_wall_says_whose_number_it_is() {
    let mut record = sample::one_step();
    let verdict = record.steps[0].verdict.as_mut().unwrap();
    verdict.wall = Wall::ClientCpu;
    let text = text::run(&record, &PATHS, &Look::default());
    assert!(text.contains("the load generator's own"));
}

#[test]
fn narrow_tables_say_what_they_left_out() {
    let look = Look {
        width: 80,
        ..Look::default()
    };
    let text = text::ramp(&sample::seven_steps(), &PATHS, &look);
    assert!(text.contains("no room here for"), "{text}");
    for column in ["p99", "bound by"] {
        assert!(text.contains(column), "{column}: {text}");
    }
    let text = text::ramp(&sample::seven_steps(), &PATHS, &Look::default());
    assert!(!text.contains("no room here"), "{text}");
}

#[test]
fn progress_is_one_line_and_a_frame_keeps_its_height() {
    let mut moment = live::Moment {
        title: "http://127.0.0.1:8083/simple".into(),
        step: 2,
        steps: 7,
        name: "/simple c=100 d=1".into(),
        phase: live::Phase::Measuring,
        elapsed_ns: 6_200_000_000,
        planned_ns: 12_000_000_000,
        throughput: 70_341.0,
        history: (0..120).map(|i| f64::from(i % 9)).collect(),
        p50_ns: 1_370_000,
        p99_ns: 2_730_000,
        in_flight: 100,
        answered: 431_000,
        server: Some(live::Side {
            name: "catalogue".into(),
            utilisation: 0.99,
            cores: vec![live::Core { cpu: 0, busy: 0.99 }; 64],
        }),
        ..live::Moment::default()
    };
    let heights: Vec<usize> = looks()
        .iter()
        .map(|look| {
            let frame = live::frame(&moment, look);
            for line in frame.iter().chain([&live::line(&moment, look)]) {
                assert!(line.width() <= usize::from(look.width).min(100), "{line:?}");
                assert!(!line.contains(char::is_control));
            }
            frame.len()
        })
        .collect();
    assert!(
        heights
            .iter()
            .all(|height| *height == heights[0] && *height <= 12)
    );
    moment.phase =
        live::Phase::Squeezing("server speed, 20 % · window 17 of 64 · 2:05 left".into());
    assert_eq!(
        live::line(&moment, &Look::default()),
        "[2/7] /simple c=100 d… · squeezing server speed, 20 % · window 17 of 64 · 2:05 left · 70,341/s"
    );
    moment.throughput = f64::NAN;
    moment.history = vec![f64::NAN, f64::INFINITY, -1.0];
    moment.planned_ns = 0;
    moment.name = sample::HOSTILE.into();
    let _ = live::frame(&moment, &Look::default());
}

/// Texts that are compared as a whole: `WALLFINDER_BLESS=1 cargo test` writes them.
#[test]
fn texts_read_as_they_did() {
    let narrow = Look {
        width: 80,
        colour: false,
        ascii: true,
    };
    let of = |record: &Record, look: &Look| text::record(record, &PATHS, look);
    let wide = Look::default();
    let shown = [
        ("run.txt", of(&sample::one_step(), &wide)),
        ("run-80-ascii.txt", of(&sample::one_step(), &narrow)),
        ("run-open-loop.txt", of(&sample::open_loop(), &wide)),
        ("ramp.txt", of(&sample::seven_steps(), &wide)),
        ("ramp-80-ascii.txt", of(&sample::seven_steps(), &narrow)),
        ("ramp-interrupted.txt", of(&sample::interrupted(), &wide)),
        ("find.txt", of(&sample::proved(), &wide)),
        ("find-observed.txt", of(&sample::observed(), &wide)),
        ("find-80-ascii.txt", of(&sample::proved(), &narrow)),
        ("ab.txt", of(&sample::ab(), &wide)),
        ("ab-80-ascii.txt", of(&sample::ab(), &narrow)),
        ("ab-equal.txt", of(&equal(), &wide)),
        ("ab-few.txt", of(&few(), &wide)),
        ("claims.txt", text::claims(&sample::study().claims, &wide)),
        ("steps.csv", csv::steps(&sample::seven_steps())),
    ];
    for (name, text) in shown {
        expect(name, &text);
    }
}

fn equal() -> Record {
    sample::settings(&sample::READ, &sample::READ, 6, 12)
}

fn few() -> Record {
    sample::settings(&sample::READ, &sample::READ, 6, 4)
}

fn expect(name: &str, text: &str) {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("WALLFINDER_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        expected, text,
        "{path}; WALLFINDER_BLESS=1 accepts the new text"
    );
}

#[test]
fn numbers_that_are_none_are_shown_as_unknown() {
    let mut record = sample::seven_steps();
    for step in &mut record.steps {
        step.throughput = f64::NAN;
        step.in_flight_mean = f64::INFINITY;
        step.window_ns = 0;
        step.counts = Default::default();
        if let Some(latency) = &mut step.latency {
            latency.mean_ns = f64::NAN;
        }
    }
    for text in texts(&record, &Look::default()) {
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    }
    assert!(!html::render(&record).contains("NaN"));
    json::document(&record);
}

#[test]
fn a_studys_cells_have_a_row_each_and_the_best_of_them_is_named() {
    let shown = text::record(&sample::cells(), &Paths::default(), &Look::default());
    let rows = shown
        .lines()
        .filter(|line| line.starts_with(" tcp ") || line.starts_with(" rest "));
    assert_eq!(rows.count(), 12, "{shown}");
    assert!(shown.contains("best by p99, with engine"), "{shown}");
    assert!(shown.contains("65,536"), "{shown}");
}
