//! Real peers: servers and load generators of other people.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use wallfinder_tests::{
    Place, Running, busily, free_port, listens_on, program, quietly, skip, together, until,
    until_prompt,
};

/// An nginx of our own, with one worker and everything below the place.
struct Nginx {
    running: Running,
    place: Place,
    port: u16,
}

fn nginx() -> Option<Nginx> {
    nginx_logging(None)
}

/// The same, with an access log of this format, if of any.
fn nginx_logging(format: Option<&str>) -> Option<Nginx> {
    let Some(nginx) = program("nginx") else {
        skip("nginx is not installed");
        return None;
    };
    let place = Place::new();
    let port = free_port();
    let folder = place.path().display().to_string();
    std::fs::create_dir(place.path().join("www")).unwrap();
    place.file("www/index.html", "<p>hello</p>\n".repeat(50));
    let access_log = match format {
        None => "access_log off;".to_owned(),
        Some(format) => {
            format!("log_format own '{format}'; access_log {folder}/{ACCESS_LOG} own;")
        }
    };
    let config = format!(
        "daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ {access_log} root {folder}/www; default_type text/html;\n\
         client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;\n\
         uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n\
         gzip_types text/html; gzip_min_length 1;\n\
         server {{ listen 127.0.0.1:{port}; keepalive_requests 100;\n\
         location /gz {{ gzip on; alias {folder}/www/index.html; }}\n\
         location /304 {{ return 304; }}\n\
         location /204 {{ return 204; }}\n }} }}\n"
    );
    let config = place.file("nginx.conf", config);
    let mut command = Command::new(nginx);
    command
        .arg("-e")
        .arg(place.path().join("error.log"))
        .arg("-c")
        .arg(config);
    let mut running = place.start_command(command);
    let until = Instant::now() + Duration::from_secs(10);
    while !listens_on(port) {
        assert!(
            running.runs() && Instant::now() < until,
            "nginx: {}",
            running.err()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(Nginx {
        running,
        place,
        port,
    })
}

const ACCESS_LOG: &str = "access.log";

impl Nginx {
    /// Lines of its access log beyond so many, once there are so many more.
    fn logged(&self, skipped: usize, count: usize) -> Vec<String> {
        let path = self.place.path().join(ACCESS_LOG);
        let mut lines = Vec::new();
        until("line of the log", || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let whole = text.split_inclusive('\n').skip(skipped);
            let whole = whole.filter_map(|line| line.strip_suffix('\n'));
            lines = whole.map(str::to_owned).collect();
            lines.len() >= count
        });
        lines
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its worker goes with its master only when that is asked nicely.
        self.running.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn step(nginx: &Nginx, path: &str, more: &[&str]) -> Value {
    let place = Place::new();
    let url = format!("http://127.0.0.1:{}{path}", nginx.port);
    let mut args = vec!["run", &url, "-c", "8", "-q", "--no-calibrate"];
    if !more.contains(&"-d") {
        args.extend(["-d", "400ms", "--warmup", "100ms"]);
    }
    args.extend(more);
    let ran = place.run(&args);
    let step = place.step();
    let answered = step["counts"]["answered"] != 0;
    ran.ends_with(if answered { 0 } else { 1 });
    let failed = step["counts"]["failed"].as_object().unwrap();
    let protocol: Vec<_> = failed
        .iter()
        .filter(|(class, _)| class.starts_with("h1.") || class.starts_with("body."))
        .collect();
    assert!(protocol.is_empty(), "{path} {more:?}: {protocol:?}");
    step
}

#[test]
fn nginx_is_understood_in_all_it_says() {
    let _turn = together();
    let Some(nginx) = nginx() else { return };
    let good: [(&str, &[&str]); 8] = [
        ("/", &[]),
        ("/", &["-m", "HEAD"]),
        ("/", &["--no-keepalive"]),
        ("/", &["--pipeline", "8"]),
        ("/gz", &["-H", "Accept-Encoding: gzip"]),
        ("/gz", &["-H", "Accept-Encoding: gzip", "--inflate"]),
        ("/304", &[]),
        ("/204", &[]),
    ];
    for (path, more) in good {
        let step = step(&nginx, path, more);
        let answered = step["counts"]["answered"].as_u64().unwrap();
        assert!(answered > 20, "{path} {more:?}: {}", step["counts"]);
        // Connections are closed every 100 requests, and what was on its way then is sent again.
        let failed = &step["counts"]["failed"];
        assert_eq!(
            failed.to_string(),
            "{}",
            "{path} {more:?}: {}",
            step["counts"]
        );
        let again = step["counts"]["anomalies"]["request_sent_again"].as_u64();
        assert_eq!(
            again.is_some(),
            more.contains(&"--pipeline"),
            "{path} {more:?}"
        );
    }
    for (path, more) in [("/missing", &[][..]), ("/", &["-m", "POST", "-b", "x"])] {
        let step = step(&nginx, path, more);
        assert_eq!(step["counts"]["answered"], 0, "{path}");
        assert!(
            step["counts"]["failed"]["status.4xx"].as_u64().unwrap_or(0) > 20,
            "{path}"
        );
    }
}

#[test]
fn connections_that_nginx_closes_on_purpose_are_no_failures() {
    let _turn = together();
    let Some(nginx) = nginx() else { return };
    let step = step(&nginx, "/", &["-n", "2000", "-d", "20s", "--warmup", "0s"]);
    assert_eq!(step["counts"]["failed"].to_string(), "{}");
    assert_eq!(step["counts"]["answered"], 2000);
    // Twenty of a hundred requests each, of which those opened before the window are not counted.
    assert!(step["counts"]["connects"].as_u64().unwrap() >= 10);
}

#[test]
fn wrk_and_the_engine_agree_on_nginx_within_reason() {
    let _turn = busily();
    if program("wrk").is_none() {
        skip("wrk is not installed");
        return;
    }
    let Some(nginx) = nginx() else { return };
    let ours = step(&nginx, "/", &["-t", "1"])["throughput"]
        .as_f64()
        .unwrap();
    let url = format!("http://127.0.0.1:{}/", nginx.port);
    let mut wrk = Command::new("wrk");
    wrk.args(["-t", "1", "-c", "8", "-d", "1s", &url]);
    let ran = nginx
        .place
        .start_command(wrk)
        .wait(Duration::from_secs(10))
        .ends_with(0);
    let line = ran
        .out
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    let theirs: f64 = line.expect("wrk reports").trim().parse().unwrap();
    let ratio = ours / theirs;
    assert!(
        (0.3..3.0).contains(&ratio),
        "{ours} of ours, {theirs} of wrk's"
    );
}

const LOG_FORMAT: &str = "$msec \"$request\" $status $request_time";

const PATHS: &str = r#"[data.ids]
rows = [ { id = "a b" }, { id = "c&d" }, { id = "é" } ]
[[request]]
weight = 5
get = "/?q={ids.id}"
[[request]]
weight = 3
get = "/gz"
[[request]]
weight = 2
head = "/index.html"
[[request]]
get = "/304?x={ids.id}"
"#;

/// When a line's request began, in milliseconds, and what it was.
fn begun(line: &str) -> (f64, &str) {
    let (stamp, rest) = line.split_once(" \"").expect("a stamp");
    let (request, rest) = rest.split_once("\" ").expect("a request");
    let took = rest.split(' ').nth(1).expect("how long it took");
    let seconds = |text: &str| text.parse::<f64>().expect("a number");
    ((seconds(stamp) - seconds(took)) * 1e3, request)
}

#[test]
fn what_nginx_logged_is_sent_to_it_again_in_its_order_and_on_time() {
    let _turn = quietly();
    let Some(nginx) = nginx_logging(Some(LOG_FORMAT)) else {
        return;
    };
    let place = Place::new();
    place.file("paths.toml", PATHS);
    let url = format!("http://127.0.0.1:{}/", nginx.port);
    // On one connection, so that the order is one.
    let run = |more: &[&str]| {
        let args = ["run", &url, "-c", "1", "--no-calibrate", "-q"];
        place.run(&[&args, more].concat()).ends_with(0);
        place.step()
    };
    let open = ["--rate", "200", "-d", "3s", "--warmup", "0s"];
    let step = run(&[&["--traffic", "paths.toml"][..], &open].concat());
    let sent = step["counts"]["answered"].as_u64().expect("a count") as usize;
    assert!((300..=601).contains(&sent), "{sent} of 600");
    let first = nginx.logged(0, sent);
    place.file("first.log", format!("{}\n", first.join("\n")));
    let (mut logged, mut spread_ms) = (first.len(), f64::INFINITY);
    until_prompt(|| {
        let step = run(&["--replay", "first.log", "--log-format", LOG_FORMAT]);
        assert_eq!(step["counts"]["answered"], first.len());
        let second = nginx.logged(logged, first.len());
        logged += second.len();
        let requests = |of: &[String]| -> Vec<String> {
            of.iter().map(|line| begun(line).1.to_owned()).collect()
        };
        assert_eq!(requests(&second), requests(&first));
        let pairs = first.iter().zip(&second);
        let mut later: Vec<f64> = pairs.map(|(a, b)| begun(b).0 - begun(a).0).collect();
        later.sort_unstable_by(f64::total_cmp);
        spread_ms = later[later.len() * 9 / 10] - later[later.len() / 10];
        step
    });
    // Stamps are of milliseconds, and of those that were prompt most are as far from what was logged.
    assert!(spread_ms < 10.0, "{spread_ms} ms");
}
