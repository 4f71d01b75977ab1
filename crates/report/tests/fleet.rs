//! Client hosts side by side, three of them and a hundred.

mod sample;

use unicode_width::UnicodeWidthStr;
use wallfinder_judge::clients::views;
use wallfinder_model::record::{Ceiling, ClientPart, Counts, Drained, LostClient, WorkerSummary};
use wallfinder_model::telemetry::{ClientHostSummary, HostSummary, LinkSummary};
use wallfinder_model::{Record, Step};
use wallfinder_report::text::{self, Paths, live};
use wallfinder_report::{Look, html};

/// A step of so many hosts, of which the fortieth answers most and the seventieth was lost.
fn fleet(hosts: u32) -> Record {
    let mut record = sample::one_step();
    let step = &mut record.steps[0];
    let worker = step.workers[0].clone();
    step.workers = (0..hosts)
        .map(|nth| WorkerSummary {
            worker: nth,
            busy_share: 0.2 + f64::from(nth) / 1_000.0,
            ..worker.clone()
        })
        .collect();
    let latency = step.latency.clone();
    step.clients = (1..=hosts)
        .map(|nth| ClientPart {
            host: format!("client-{nth}"),
            connections: 4,
            dealt: 1.0 / f64::from(hosts),
            workers: 1,
            began_ns: i64::from(nth) * 1_000,
            clock_error_ns: 250_000,
            counts: Counts::default(),
            throughput: if nth == 40 {
                9_000.0
            } else {
                1_000.0 + f64::from(nth)
            },
            in_flight_mean: 4.0,
            drained: Drained::default(),
            latency: latency.clone(),
            lateness: None,
            lost: (nth == 70).then(|| LostClient {
                why: "its ssh ended".to_owned(),
                heard_ns: 3_000_000_000,
            }),
        })
        .collect();
    record
}

fn look(width: u16) -> Look {
    Look {
        width,
        colour: false,
        ascii: false,
    }
}

fn rows(text: &str) -> Vec<&str> {
    let is_row = |line: &&str| line.trim_start().starts_with("client-");
    text.lines().filter(is_row).collect()
}

#[test]
fn each_of_a_few_hosts_has_a_row() {
    let text = text::run(&fleet(3), &Paths::default(), &look(120));
    assert_eq!(rows(&text).len(), 3, "{text}");
    assert!(
        text.contains("3 client hosts began within 2.00 µs"),
        "{text}"
    );
}

#[test]
fn of_a_hundred_hosts_those_that_stand_out_have_one() {
    let record = fleet(100);
    for width in [60, 80, 120] {
        let text = text::run(&record, &Paths::default(), &look(width));
        assert!((4..=12).contains(&rows(&text).len()), "{text}");
        let widest = text.lines().map(UnicodeWidthStr::width).max();
        assert!(widest <= Some(usize::from(width)), "{text}");
    }
    let text = text::run(&record, &Paths::default(), &look(120));
    let row = |host: &str| {
        let mut all = rows(&text).into_iter();
        let found = all.find(|row| row.trim_start().starts_with(&format!("{host} ")));
        found.unwrap_or_else(|| panic!("{host}: {text}"))
    };
    assert!(row("client-1").contains("slowest"));
    assert!(row("client-40").contains("fastest"));
    assert!(row("client-70").contains("lost after 3"));
    assert!(row("client-100").contains("busiest"));
    assert!(text.contains("median"), "{text}");
    assert!(text.contains("hosts more in the record"), "{text}");
    let page = html::render(&record);
    assert!(page.contains("Client hosts") && page.contains("client-70"));
    assert!(!page.contains("client-33<"));
}

/// So many hosts under load, of which the seventeenth, else the second, is the busiest. What a lost one did last is
/// more.
fn loading(hosts: u32, full: &[u32], lost: &[u32]) -> live::Moment {
    let clients = (1..=hosts).map(|nth| live::Client {
        name: format!("c{nth}"),
        busy: Some(match nth {
            _ if lost.contains(&nth) => 1.0,
            17 => 0.99,
            2 => 0.97,
            _ => 0.3,
        }),
        is_full: full.contains(&nth),
        is_lost: lost.contains(&nth),
    });
    live::Moment {
        phase: live::Phase::Measuring,
        client: Some(live::Side {
            name: "client".to_owned(),
            utilisation: 0.5,
            cores: vec![live::Core { cpu: 1, busy: 0.5 }; 2 * hosts as usize],
        }),
        clients: clients.collect(),
        ..live::Moment::default()
    }
}

/// The one line of a frame that is of the client hosts, beside its label.
fn clients_shown(moment: &live::Moment, width: u16) -> String {
    let frame = live::frame(moment, &look(width));
    let widest = frame.iter().map(|line| line.width()).max();
    assert!(widest <= Some(usize::from(width).min(100)), "{frame:?}");
    let alone = live::Moment {
        clients: Vec::new(),
        ..moment.clone()
    };
    assert_eq!(frame.len(), live::frame(&alone, &look(width)).len());
    let of_clients = frame.iter().filter_map(|line| line.strip_prefix(" client"));
    let of_clients: Vec<&str> = of_clients.collect();
    let [line] = of_clients[..] else {
        panic!("{frame:?}")
    };
    let line = line.strip_prefix("s    ").expect("a line of several");
    line.to_owned()
}

#[test]
fn while_a_few_hosts_load_they_are_named_with_what_stands_out() {
    let moment = loading(3, &[2], &[3]);
    let all = "c1, c2, c3 · busiest c2 97 % · 1 lost (c3) · 1 full";
    assert_eq!(clients_shown(&moment, 120), all);
    assert_eq!(clients_shown(&moment, 80), all);
    assert_eq!(
        clients_shown(&moment, 60),
        "3 hosts · busiest c2 97 % · 1 lost (c3) · 1 full"
    );
    assert_eq!(
        clients_shown(&loading(3, &[], &[]), 60),
        "c1, c2, c3 · busiest c2 97 %"
    );
    let mut unseen = loading(3, &[], &[]);
    unseen.clients.iter_mut().for_each(|of| of.busy = None);
    assert_eq!(clients_shown(&unseen, 60), "c1, c2, c3");
}

#[test]
fn while_a_hundred_hosts_load_they_are_counted_with_what_stands_out() {
    let moment = loading(100, &[2, 17], &[4]);
    let all = "100 hosts · busiest c17 99 % · 1 lost (c4) · 2 full";
    assert_eq!(clients_shown(&moment, 120), all);
    assert_eq!(clients_shown(&moment, 80), all);
    assert_eq!(
        clients_shown(&moment, 60),
        "100 hosts · busiest c17 99 % · 1 lost · 2 full"
    );
    // No room for who is the busiest.
    assert_eq!(clients_shown(&moment, 40), "100 hosts · 1 lost · 2 full");
    let line = live::line(&moment, &look(120));
    assert!(line.contains(" · 1 of 100 clients lost · "), "{line}");
    assert!(line.ends_with(" · busiest c17 99 %"), "{line}");
}

#[test]
fn of_many_lost_hosts_as_many_are_named_as_there_is_room_for() {
    let lost: Vec<u32> = (1..=40).collect();
    let moment = loading(100, &[], &lost);
    assert_eq!(
        clients_shown(&moment, 80),
        "100 hosts · busiest c41 30 % · 40 lost (c1, c2, c3, c4, c5, c6, …)"
    );
    assert_eq!(
        clients_shown(&moment, 60),
        "100 hosts · busiest c41 30 % · 40 lost (c1, …)"
    );
    let all: Vec<u32> = (1..=100).collect();
    assert_eq!(
        clients_shown(&loading(100, &[], &all), 60),
        "100 hosts · 100 lost (c1, c2, c3, c4, c5, c6, …)"
    );
}

#[test]
fn one_host_that_loads_is_shown_by_its_processors() {
    let mut moment = loading(1, &[], &[]);
    moment.clients.clear();
    let frame = live::frame(&moment, &look(80));
    let line = frame.iter().find(|line| line.starts_with(" client "));
    assert!(line.is_some_and(|line| line.contains("cpu1")), "{frame:?}");
    let line = live::line(&moment, &look(80));
    assert!(line.ends_with(" · client 50 %"), "{line}");
}

/// Gives each host a link with a tenth of its rate in use, but for one that is full, and lets another be late.
fn with_links(record: &mut Record, full: u32, late: u32) {
    let step = &mut record.steps[0];
    let each = (1..=step.clients.len() as u32).map(|nth| ClientHostSummary {
        host: HostSummary {
            name: format!("client-{nth}"),
            ..HostSummary::default()
        },
        client: None,
        link: Some(LinkSummary {
            downlink_share: Some(if nth == full { 0.97 } else { 0.1 }),
            uplink_share: Some(0.01),
            ..LinkSummary::default()
        }),
    });
    step.telemetry.client_hosts = each.collect();
    step.clients[late as usize - 1].lateness = step.latency.clone();
}

#[test]
fn of_a_hundred_hosts_one_whose_link_is_full_and_the_latest_have_a_row() {
    let mut record = fleet(100);
    let before = text::run(&record, &Paths::default(), &look(160));
    assert!(!html::render(&record).contains("Link used"));
    with_links(&mut record, 33, 55);
    let text = text::run(&record, &Paths::default(), &look(160));
    let row = |host: &str| {
        let mut all = rows(&text).into_iter();
        let found = all.find(|row| row.trim_start().starts_with(&format!("{host} ")));
        found.unwrap_or_else(|| panic!("{host}: {text}"))
    };
    assert!(row("client-33").contains("link full") && row("client-33").contains("97 %"));
    assert!(row("client-55").contains("latest"));
    assert!(row("client-1").contains("10 %"));
    assert_eq!(rows(&text).len(), rows(&before).len() + 2, "{text}");
    let page = html::render(&record);
    assert!(page.contains("Link used") && page.contains("<td>97 %</td>"));
    for width in [60, 80, 120] {
        let text = text::run(&record, &Paths::default(), &look(width));
        let widest = text.lines().map(UnicodeWidthStr::width).max();
        assert!(widest <= Some(usize::from(width)), "{text}");
    }
}

#[test]
fn many_hosts_that_stand_out_make_the_table_no_longer() {
    let mut record = fleet(100);
    with_links(&mut record, 33, 55);
    let step = &mut record.steps[0];
    for nth in 10..20 {
        step.workers[nth].busy_share = 0.99;
        step.clients[nth + 10].lost = step.clients[69].lost.clone();
    }
    let text = text::run(&record, &Paths::default(), &look(160));
    assert_eq!(rows(&text).len(), 12, "{text}");
    let of_a_sort = |why: &str| rows(&text).iter().filter(|row| row.contains(why)).count();
    assert_eq!(of_a_sort("lost after"), 4, "{text}");
    assert_eq!(of_a_sort("full"), 5, "{text}");
    for why in ["link full", "slowest", "latest"] {
        let mut rows = rows(&text).into_iter();
        assert!(rows.any(|row| row.contains(why)), "{why}: {text}");
    }
}

/// Ceilings are measured after the load, of the hosts that are left.
#[test]
fn each_host_stands_beside_its_own_ceiling_where_one_in_the_middle_is_lost() {
    let mut record = fleet(4);
    let step = &mut record.steps[0];
    step.clients[1].lost = Some(LostClient {
        why: "its ssh ended".to_owned(),
        heard_ns: 3_000_000_000,
    });
    // Of its workers nothing is known either.
    step.clients[1].workers = 0;
    step.workers.remove(1);
    let ceiling = |throughput| Ceiling {
        throughput,
        workers_saturated: true,
        cpu_per_request_ns: 10_000.0,
        driven: 1.0,
        age_s: None,
        host: None,
        of_hosts: Vec::new(),
    };
    step.ceiling = Some(Ceiling {
        of_hosts: [10_000.0, 30_000.0, 40_000.0].map(ceiling).to_vec(),
        ..ceiling(80_000.0)
    });
    let ceilings = |step: &Step| -> Vec<Option<f64>> {
        let views = views(step);
        let each = views
            .iter()
            .map(|view| view.ceiling.map(|of| of.throughput));
        each.collect()
    };
    assert_eq!(
        ceilings(step),
        [Some(10_000.0), None, Some(30_000.0), Some(40_000.0)]
    );
    let busy: Vec<Option<f64>> = views(step).iter().map(|view| view.busy).collect();
    assert_eq!(busy, [Some(0.2), None, Some(0.202), Some(0.203)]);
    // Its load was cut, and it was there again; the last one was whole, and is gone.
    let names = [0, 1, 2].map(|nth| step.clients[nth].host.clone());
    let of_hosts = &mut step.ceiling.as_mut().unwrap().of_hosts;
    for (of, name) in of_hosts.iter_mut().zip(names) {
        of.host = Some(name);
    }
    assert_eq!(
        ceilings(step),
        [Some(10_000.0), Some(30_000.0), Some(40_000.0), None]
    );
    // One that had nothing of this load is no reason to stop.
    let of_hosts = &mut step.ceiling.as_mut().unwrap().of_hosts;
    of_hosts[1].host = Some("another".to_owned());
    assert_eq!(ceilings(step), [Some(10_000.0), None, Some(40_000.0), None]);
}
