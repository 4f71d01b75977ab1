//! What observing costs: two families of twenty threads each, and a link.

mod stand;

use std::thread::sleep;
use std::time::Duration;

use wallfinder_probe::{Sampler, Setup, family_of, family_of_self};
use wallfinder_sys::clock::monotonic_ns;

use stand::{ROLE, role, say, stay};

/// Of the sampler's CPU time, for a tick of 50 ms: a twenty-fifth of a processor. Alone it takes a third of that; beside other
/// tests on the same caches it takes more.
const TICK_COST_NS_MAX: u64 = 2_000_000;
/// Windows that are watched. What disturbs one makes it dearer, so that the cheapest tells.
const WINDOWS: usize = 4;

#[test]
#[ignore = "played by a child of the other test"]
fn plays_its_role() {
    if std::env::var(ROLE).is_ok() {
        twenty_threads();
        say("ready");
        stay();
    }
}

fn twenty_threads() {
    for _ in 0..19 {
        std::thread::spawn(|| {
            loop {
                sleep(Duration::from_millis(1));
            }
        });
    }
}

#[test]
fn a_tick_is_cheap() {
    twenty_threads();
    let mut server = role(&[], "server");
    assert_eq!(server.line(), "ready");
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        client: Some(family_of_self()),
        server: Some(family_of(server.pid()).unwrap()),
        interface: Some("lo".to_owned()),
        port: Some(9),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    let mut tick_ns = Vec::new();
    for _ in 0..WINDOWS {
        let from = sampler.mark("open");
        sleep(Duration::from_millis(1_000));
        let to = sampler.mark("close");
        let telemetry = sampler.summarise(from, to);
        let (client, server) = (telemetry.client.unwrap(), telemetry.server.unwrap());
        assert!(client.threads >= 20 && server.threads >= 20);
        let samples = u64::from(telemetry.samples);
        assert!(samples > 0, "not one tick in a second");
        tick_ns.push(telemetry.observer_cpu_ns / samples);
    }
    println!("{tick_ns:?} ns a tick, a mark included");
    let cheapest = tick_ns.iter().min().unwrap();
    assert!(*cheapest < TICK_COST_NS_MAX, "{tick_ns:?} ns");
    assert!(*cheapest > 0, "it is not counted");
}
