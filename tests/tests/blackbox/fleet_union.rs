//! Loads of several client hosts as their server sees them: which host each request comes from, and when; and what is
//! told of each host beside it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use parquet::column::reader::ColumnReader;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use serde_json::Value;
use wallfinder_tests::{Ran, busily, json_at, quietly, ratio_of, together};

use crate::fleet::{CLIENTS, LIMIT, clients, lab, parts, started};
use crate::hosts::{Lab, WAITS};

const HOSTS: usize = CLIENTS.len();
/// What the way to the server and its thread's waking may take longer for one request than for another, on a machine
/// that is busy.
const ROOM_NS: f64 = 1e6;

/// A request, as it came.
struct Arrival {
    at: Instant,
    from: IpAddr,
    target: String,
}

/// A server of HTTP/1.1 on this machine that notes each request by one clock. Dropping it ends it.
struct Noting {
    address: SocketAddr,
    came: Arc<Mutex<Vec<Arrival>>>,
    over: Arc<AtomicBool>,
}

impl Noting {
    /// Where hosts of the lab reach this machine: at the first address of their network.
    fn start(lab: &Lab) -> Noting {
        let host: Ipv4Addr = lab.address().parse().expect("an address");
        let [a, b, network, _] = host.octets();
        let listener = TcpListener::bind((Ipv4Addr::new(a, b, network, 1), 0));
        let listener = listener.expect("an address of this machine");
        let noting = Noting {
            address: listener.local_addr().expect("it is bound"),
            came: Arc::default(),
            over: Arc::default(),
        };
        let (came, over) = (Arc::clone(&noting.came), Arc::clone(&noting.over));
        thread::spawn(move || {
            while let Ok((stream, from)) = listener.accept() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let came = Arc::clone(&came);
                thread::spawn(move || answer(stream, from.ip(), &came));
            }
        });
        noting
    }

    /// What came since it was last asked, in the order of time.
    fn take(&self) -> Vec<Arrival> {
        let mut came = std::mem::take(&mut *self.came.lock().unwrap());
        came.sort_by_key(|arrival| arrival.at);
        came
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the listener, which then closes.
        let _ = TcpStream::connect(self.address);
    }
}

fn answer(mut stream: TcpStream, from: IpAddr, came: &Mutex<Vec<Arrival>>) {
    let _ = stream.set_nodelay(true);
    let (mut bytes, mut left) = ([0; 4096], Vec::new());
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        let at = Instant::now();
        left.extend_from_slice(&bytes[..read]);
        while let Some(end) = left.windows(4).position(|four| four == b"\r\n\r\n") {
            let head: Vec<u8> = left.drain(..end + 4).collect();
            let head = String::from_utf8_lossy(&head);
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            came.lock().unwrap().push(Arrival { at, from, target });
            let said = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            if said.is_err() {
                return;
            }
        }
    }
}

/// A load of all hosts at it, without warm-up: its step, and what came of it.
fn load(lab: &Lab, server: &Noting, more: &[&str]) -> (Value, Vec<Arrival>) {
    let url = format!("http://{}/", server.address);
    let ssh = format!("ssh -F {}", lab.settings.display());
    let own = ["run", &url, "--ssh", &ssh, "-q", "--client-cpus", "1"];
    let clients = clients(&CLIENTS);
    let clients: Vec<&str> = clients.iter().map(String::as_str).collect();
    let quick = ["--warmup", "0s", "--no-calibrate", "--samples"];
    let args = [&own[..], &clients, &quick, more].concat();
    lab.place.start(&args).wait(LIMIT).ends_with(0);
    (lab.place.step(), server.take())
}

/// The place among the client hosts of the one that a request came from.
#[track_caller]
fn host_of(lab: &Lab, arrival: &Arrival) -> usize {
    let from = arrival.from.to_string();
    let mut hosts = lab.addresses[1..].iter();
    let found = hosts.position(|address| *address == from);
    found.unwrap_or_else(|| panic!("{from} is no client host"))
}

/// Each request's host, and when it came: in nanoseconds from the first.
fn timed(lab: &Lab, came: &[Arrival]) -> Vec<(usize, f64)> {
    let first = came.first().expect("requests came").at;
    let each = came.iter().map(|arrival| {
        let after = arrival.at - first;
        (host_of(lab, arrival), after.as_secs_f64() * 1e9)
    });
    each.collect()
}

/// Rows of the samples of a step, by the place of their host.
fn rows_by_host(lab: &Lab, step: &Value) -> [u64; HOSTS] {
    let name = step["samples"]["file"].as_str().expect("a name");
    let file = File::open(lab.place.last_run().join(name)).expect("samples");
    let reader = SerializedFileReader::new(file).expect("it is Parquet");
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut columns = schema.columns().iter();
    let place = columns.position(|column| column.name() == "host");
    let place = place.expect("a column");
    let mut rows = [0; HOSTS];
    for nth in 0..reader.num_row_groups() {
        let group = reader.get_row_group(nth).expect("a group");
        let Ok(ColumnReader::Int32ColumnReader(mut column)) = group.get_column_reader(place) else {
            panic!("`host` is no INT32");
        };
        let mut hosts = Vec::new();
        let mut read = || column.read_records(1 << 16, None, None, &mut hosts);
        while read().expect("values").0 > 0 {}
        for host in hosts {
            rows[usize::try_from(host).expect("a place")] += 1;
        }
    }
    rows
}

/// Each host counted, and kept one by one, as many requests as came from it.
#[track_caller]
fn assert_counted_as_they_came(lab: &Lab, step: &Value, came: &[Arrival]) {
    let rows = rows_by_host(lab, step);
    assert_eq!(step["samples"]["dropped"], 0);
    for (nth, part) in parts(step).iter().enumerate() {
        let answered = |of: &str| part[of]["answered"].as_u64().expect("a count");
        let all = answered("counts") + answered("drained");
        let own = came.iter().filter(|of| host_of(lab, of) == nth).count();
        assert_eq!((own as u64, rows[nth]), (all, all), "{part:#}");
    }
}

/// Starts of a constant rate go to the hosts in turn, and are off by no more than is recorded.
fn is_constant(lab: &Lab, server: &Noting) {
    let (step, came) = load(lab, server, &["-c", "6", "--rate", "40", "-n", "160"]);
    assert_counted_as_they_came(lab, &step, &came);
    let (came, gap_ns) = (timed(lab, &came), 1e9 / 40.0);
    assert_eq!(came.len(), 160);
    let each = parts(&step);
    let recorded = |what: &str| -> [f64; HOSTS] {
        std::array::from_fn(|nth| each[nth][what].as_f64().expect("it is recorded"))
    };
    let (told, errors) = (recorded("began_ns"), recorded("clock_error_ns"));
    // None comes before its time, so the promptest of a host tells when its schedule began.
    let began: [f64; HOSTS] = std::array::from_fn(|nth| {
        let own = came.iter().filter(|of| of.0 == nth).enumerate();
        let after = own.map(|(taken, of)| of.1 - (taken * HOSTS + nth) as f64 * gap_ns);
        after.fold(f64::INFINITY, f64::min)
    });
    for (one, other) in [(0, 1), (1, 2), (2, 0)] {
        let apart_ns = began[one] - began[other];
        let told_ns = told[one] - told[other];
        let error_ns = errors[one] + errors[other] + ROOM_NS;
        assert!(error_ns < gap_ns, "clocks are not known: {errors:?}");
        assert!(
            (apart_ns - told_ns).abs() <= error_ns,
            "{one} after {other}: {apart_ns}, recorded {told_ns} ± {error_ns}"
        );
    }
    let most = |of: &[f64]| of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let skew_ns = most(&told) - least(&told) + 2.0 * most(&errors);
    let late_ns = json_at(&step, "/lateness/quantiles_ns/p99").as_f64();
    let off_max_ns = skew_ns + late_ns.expect("a time") + ROOM_NS;
    let gaps = came.windows(2).map(|two| two[1].1 - two[0].1);
    let near = gaps.filter(|gap| (gap - gap_ns).abs() <= off_max_ns);
    let near = near.count();
    assert!(near >= 144, "{near} gaps of 159 within {off_max_ns}");
    let in_turn = came.iter().enumerate();
    let in_turn = in_turn.filter(|(nth, of)| of.0 == nth % HOSTS).count();
    assert!(in_turn >= 144, "{in_turn} of 160 came in turn");
}

/// How far gaps, over their mean, are from exponential ones at the most.
fn off_exponential(mut gaps: Vec<f64>) -> f64 {
    gaps.sort_unstable_by(f64::total_cmp);
    let count = gaps.len() as f64;
    let off = gaps.iter().enumerate().map(|(nth, gap)| {
        let expected = 1.0 - (-gap).exp();
        let (below, with) = (nth as f64 / count, (nth + 1) as f64 / count);
        (expected - below).abs().max((expected - with).abs())
    });
    off.fold(0.0, f64::max)
}

/// Arrivals at random of three hosts are one process of the asked rate.
fn is_poisson(lab: &Lab, server: &Noting) {
    let random = ["-c", "6", "--rate", "200", "--poisson", "-d", "3s"];
    let (step, came) = load(lab, server, &random);
    assert_counted_as_they_came(lab, &step, &came);
    // Four standard deviations of a count whose mean is 600.
    assert!(came.len().abs_diff(600) < 98, "{}", came.len());
    let came = timed(lab, &came);
    let gaps = came.windows(2).map(|two| (two[1].1 - two[0].1) * 200e-9);
    let gaps: Vec<f64> = gaps.collect();
    // Kolmogorov and Smirnov: beyond 1.95 / sqrt(n) once in a thousand times.
    let off_max = 1.95 / (gaps.len() as f64).sqrt();
    let off = off_exponential(gaps);
    assert!(off < off_max, "{off}, {off_max}");
}

#[test]
fn starts_of_three_hosts_are_those_of_one_within_the_skew_that_is_recorded() {
    let _turn = quietly().with_hosts();
    let Some(lab) = lab("") else { return };
    let server = Noting::start(&lab);
    is_constant(&lab, &server);
    is_poisson(&lab, &server);
}

#[test]
fn each_row_that_is_used_once_is_sent_once_by_one_of_three_hosts() {
    let _turn = together().with_hosts();
    let Some(lab) = lab("") else { return };
    let server = Noting::start(&lab);
    let rows: String = (0..301).map(|n| format!("{n}\n")).collect();
    lab.place.file("rows.csv", format!("n\n{rows}"));
    lab.place.file(
        "once.toml",
        "[data.rows]\nfile = \"rows.csv\"\norder = \"once\"\n[[request]]\nget = \"/row?n={rows.n}\"\n",
    );
    let once = ["--traffic", "once.toml", "-c", "7", "-d", "20s"];
    for rate in [&[][..], &["--rate", "600"]] {
        let (step, came) = load(&lab, &server, &[&once[..], rate].concat());
        assert_counted_as_they_came(&lab, &step, &came);
        assert_eq!(step["counts"]["answered"], 301);
        for (nth, name) in CLIENTS.iter().enumerate() {
            let own = came.iter().filter(|of| host_of(&lab, of) == nth);
            let row = |of: &Arrival| of.target.rsplit_once('=')?.1.parse::<usize>().ok();
            let mut own: Vec<usize> = own.filter_map(row).collect();
            own.sort_unstable();
            let dealt: Vec<usize> = (nth..301).step_by(HOSTS).collect();
            assert_eq!(own, dealt, "{name}");
        }
        let window_ns = step["window_ns"].as_u64().expect("a length");
        assert!(window_ns < 15_000_000_000, "it ends by itself: {window_ns}");
    }
}

/// The share of its own ceiling, in percent, in the row of a host: the words that end where the heading does.
#[track_caller]
fn shown_of_its_ceiling(ran: &Ran, host: &str) -> f64 {
    let mut lines = ran.out.lines();
    let mut begins = |what: &str| lines.find(|line| line.trim_start().starts_with(what));
    let head = begins("client host ").expect("a table");
    let (before, _) = head.split_once("ceiling").expect("a column");
    let end = before.chars().count() + "ceiling".len();
    // Below the heading.
    let row = begins(&format!("{host} ")).expect("a row");
    let row: String = row.chars().take(end).collect();
    let share = row.trim_end().strip_suffix('%').map(str::trim_end);
    let share = share.and_then(|row| row.rsplit(char::is_whitespace).next());
    let share = share.and_then(|word| word.parse().ok());
    share.unwrap_or_else(|| panic!("no share of a ceiling: {}", ran.out))
}

#[test]
fn three_hosts_stand_beside_their_own_ceilings_and_take_two_settings_in_turn() {
    let _turn = busily().with_hosts();
    let Some(lab) = lab(WAITS) else { return };
    let ran = started(&lab, "run", &["-d", "1s"]).wait(LIMIT).ends_with(0);
    let step = lab.place.step();
    let ceiling = &step["ceiling"];
    let each = json_at(ceiling, "/of_hosts").as_array().expect("ceilings");
    assert_eq!(each.len(), HOSTS, "{ceiling:#}");
    let throughput = |of: &Value| of["throughput"].as_f64().expect("a rate");
    let sum: f64 = each.iter().map(throughput).sum();
    assert!((sum / throughput(ceiling) - 1.0).abs() < 1e-9, "{ceiling}");
    for (part, own) in parts(&step).iter().zip(each) {
        let percent = 100.0 * throughput(part) / throughput(own);
        assert!((0.0..100.0).contains(&percent), "{own:#}");
        let host = part["host"].as_str().expect("a name");
        let shown = shown_of_its_ceiling(&ran, host);
        let rounded = if percent < 0.995 { 0.05 } else { 0.5 };
        assert!((shown - percent).abs() <= rounded + 1e-9, "{}", ran.out);
    }
    // The server waits, so that half of the connections are half of the load.
    let settings = ["--connections-b", "8", "--rounds", "3", "-d", "900ms"];
    let ran = started(&lab, "ab", &settings).wait(LIMIT).ends_with(0);
    let record = lab.place.record();
    let steps = json_at(&record, "/steps").as_array().expect("steps");
    let order = json_at(&record, "/ab/order").as_array().expect("turns");
    assert_eq!((steps.len(), order.len()), (6, 6), "{}", ran.out);
    for (step, turn) in steps.iter().zip(order) {
        let each = parts(step);
        let connections = each.iter().filter_map(|of| of["connections"].as_u64());
        let connections: Vec<u64> = connections.collect();
        let dealt = match turn[1] == true {
            true => [3, 3, 2],
            false => [6, 5, 5],
        };
        assert_eq!(connections, dealt, "{turn}");
    }
    let ratio = ratio_of(&record, "throughput");
    let of_b = ratio["ratio"].as_f64().expect("a ratio");
    assert!((0.4..0.6).contains(&of_b), "{ratio:#}");
}
