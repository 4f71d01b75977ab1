//! Traffic files: mixes, sessions and data at a server that keeps count of what it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use wallfinder_tests::{
    Conversation, Double, Place, Served, alone, free_port, has_apparatus, program, quietly, skip,
    squeezed, subjects, together, until_prompt,
};

const SHOP: &str = r#"[[request]]
name = "search"
weight = 60
get = "/search?q=x"
header = { Authorization = "env:SHOP_TOKEN" }

[[request]]
weight = 40
post = "/cart"
"#;

#[test]
fn a_mix_of_requests_is_told_by_name() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    place.file("shop.toml", SHOP);
    place.file("urls.txt", "# a list\n3 /a\n/b\n");
    let load = ["-c", "4", "-n", "4000", "--no-calibrate", "-q"];
    let with_token = |args: &[&str]| {
        let with = ["env", "SHOP_TOKEN=s3cr3t-of-the-shop"];
        place.start_as(&with, args).wait(Duration::from_secs(30))
    };
    let unset = place.run(&["run", &url, "--traffic", "shop.toml"]);
    assert!(unset.ends_with(2).err.contains("`SHOP_TOKEN` is not set"));
    let mixed = [&["run", &url, "--traffic", "shop.toml"][..], &load].concat();
    let ran = with_token(&mixed).ends_with(0);
    assert!(
        ran.out.contains("search") && ran.out.contains("POST /cart"),
        "{}",
        ran.out
    );
    let record = place.record();
    let step = &record["steps"][0];
    let requests = step["requests"].as_array().expect("kinds");
    let of = |name: &str| {
        requests
            .iter()
            .find(|kind| kind["name"] == name)
            .expect("it is there")
    };
    let answered = |name: &str| of(name)["answered"].as_u64().expect("a count");
    assert_eq!(answered("search") + answered("POST /cart"), 4000);
    let share = answered("search") as f64 / 4000.0;
    assert!((0.56..=0.64).contains(&share), "{share}");
    assert_eq!(of("POST /cart")["method"], "POST");
    let kept = record.to_string();
    assert!(!kept.contains("s3cr3t") && kept.contains("env:SHOP_TOKEN"));
    let page = std::fs::read_to_string(place.last_run().join("report.html")).expect("a page");
    assert!(page.contains("Requests by name") && page.contains("POST &#x2f;cart"));
    // Of requests that are kept one by one, too.
    with_token(&[&mixed[..], &["--samples"]].concat()).ends_with(0);
    let kept = place.step()["requests"].clone();
    let run = place.last_run();
    let run = run.to_str().expect("a path");
    let json = ["samples", run, "--format", "json"];
    let samples = place.run(&json).ends_with(0).json()[0].clone();
    for (nth, name) in ["search", "POST /cart"].iter().enumerate() {
        let (exact, shown) = (&samples["requests"][nth], &kept[nth]);
        assert_eq!(exact["name"], *name);
        assert_eq!(exact["answered"], shown["answered"]);
        let p50 = exact["latency"][0]["value_ns"].as_f64().expect("a median");
        let of_histogram = &shown["latency"]["quantiles_ns"]["p50"];
        let off = of_histogram.as_f64().expect("a median") / p50 - 1.0;
        assert!(off.abs() < 0.02, "{name}: {off}");
    }
    let text = place.run(&["samples", run]).ends_with(0).out;
    assert!(text.contains(" POST /cart: "), "{text}");
    // The record's scenario runs again as it is.
    let scenario = place.run(
        &[
            &["run", &url, "--traffic", "shop.toml", "--print-scenario"][..],
            &load,
        ]
        .concat(),
    );
    place.file("again.toml", scenario.ends_with(0).out);
    with_token(&["run", "--scenario", "again.toml", "-q"]).ends_with(0);
    let listed = [&["run", &url, "--urls-from", "urls.txt"][..], &load].concat();
    place.run(&listed).ends_with(0);
    let requests = &place.record()["steps"][0]["requests"];
    assert_eq!(
        (&requests[0]["name"], &requests[0]["weight"]),
        (&"/a".into(), &3.into())
    );
    let (a, b) = (double.url("/a"), double.url("/b?x=1"));
    place
        .run(&[&["run", &a, &b][..], &load].concat())
        .ends_with(0);
    let requests = &place.record()["steps"][0]["requests"];
    let named = [0, 1].map(|nth| (&requests[nth]["name"], &requests[nth]["weight"]));
    assert_eq!(
        named,
        [(&"/a".into(), &1.into()), (&"/b?x=1".into(), &1.into())]
    );
    let elsewhere = ["run", &a, "http://10.0.0.5/b"];
    let refused = place.run(&elsewhere).ends_with(2).err;
    assert!(refused.contains("a mix has one origin"), "{refused}");
    for (text, part) in [
        ("[[request]]\nget = \"/\"\nwieght = 2\n", "wrong.toml:3:"),
        (
            "[[request]]\nget = \"http://10.0.0.5/\"\n",
            "a mix has one origin",
        ),
        ("[[request]]\nget = \"/{users.id}\"\n", "wrong.toml:2:"),
    ] {
        place.file("wrong.toml", text);
        let ran = place
            .run(&["run", &url, "--traffic", "wrong.toml"])
            .ends_with(2);
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    let refused = |more: &[&str]| with_token(&[&mixed[..], more].concat()).ends_with(2).err;
    assert!(refused(&["-m", "POST"]).contains("methods and bodies of their own"));
    assert!(refused(&["--frame", "u32be"]).contains("--frame"));
}

/// A shop that wants its users to log in: what it was asked, by method and path, and what it had to refuse.
#[derive(Clone, Default)]
struct Shop(Arc<Mutex<BTreeMap<String, u64>>>);

impl Shop {
    fn start(&self) -> Double {
        let shop = self.clone();
        Double::start(move |conversation| shop.serve(conversation))
    }

    fn count(&self, what: &str) -> u64 {
        self.0.lock().unwrap().get(what).copied().unwrap_or(0)
    }

    fn note(&self, what: &str) {
        *self.0.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }

    /// A user's name is the token, and the cookie says how often it was here.
    fn serve(&self, conversation: &mut Conversation) {
        while let Some(request) = conversation.request() {
            let request = String::from_utf8_lossy(&request).into_owned();
            let (head, body) = request.split_once("\r\n\r\n").unwrap_or((&request, ""));
            let line = head.lines().next().unwrap_or_default();
            let mut words = line.split(' ');
            let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let field = |name: &str| {
                let lines = head.lines().skip(1);
                let mut fields = lines.filter_map(|line| line.split_once(": "));
                let found = fields.find(|(of, _)| of.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.to_owned())
            };
            self.note(&format!(
                "{method} {}",
                path.split('?').next().unwrap_or("")
            ));
            let answer = match (method, path) {
                ("POST", "/key") => ok("X-Key: k/1\r\n", ""),
                ("DELETE", "/key/k%2F1") => ok("", ""),
                ("POST", "/no-key") => ok("X-Key:\r\n", "{\"key\": \"\"}"),
                ("POST", "/login") => match serde_json::from_str::<Value>(body) {
                    Ok(said) if said["user"] != "mallory" => {
                        let token = said["user"].as_str().unwrap_or("").replace('"', "'");
                        let json = format!("{{\"ok\": true, \"token\": \"t-{token}\"}}");
                        ok("Set-Cookie: sid=1; Path=/\r\n", &json)
                    }
                    Ok(_) => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned(),
                    Err(_) => {
                        self.note("no JSON");
                        ok("", "")
                    }
                },
                ("POST", "/cart") => {
                    let is_known =
                        field("authorization").is_some_and(|said| said.starts_with("Bearer t-"));
                    let has_cookie = field("cookie").as_deref() == Some("sid=1");
                    if !is_known || !has_cookie {
                        self.note("stranger");
                    }
                    "HTTP/1.1 303 See Other\r\nLocation: /carts/7\r\nX-Cart: 7\r\nContent-Length: 0\r\n\r\n"
                        .to_owned()
                }
                ("GET", "/carts/7") => ok("", "{\"items\": [{\"id\": 17}]}"),
                ("GET", path) if path.starts_with("/search?q=") => ok("", "3 results"),
                _ => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            if !conversation.say(answer) {
                return;
            }
        }
    }
}

fn ok(fields: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const SESSIONS: &str = r#"
[data.users]
file = "users.csv"

[[setup]]
post = "/key"
take = { key = "header:x-key" }

[[teardown]]
delete = "/key/{key}"

[[request]]
name = "search"
weight = 3
get = "/search?q={users.term}"
check = { status = 200, body-contains = "results" }

[[session]]
name = "buy"
weight = 1
cookies = true
steps = [
  { name = "login", post = "/login", body = '{"user": "{users.name}"}', check = { json = { "/ok" = true } }, take = { token = "json:/token" } },
  { name = "cart", post = "/cart", header = { authorization = "Bearer {token}" }, follow = 1, think = "exp(1ms)", check = { json-has = ["/items/0/id"] }, take = { cart = "header:x-cart" } },
  { name = "compare", get = "/search?q={cart}" },
]
"#;

#[test]
fn sessions_log_in_take_what_they_need_and_go_on_with_it() {
    let _turn = together();
    for over in [
        &["--io", "uring"][..],
        &["--io", "epoll"],
        // Through a proxy, which speaks it.
        &["--http2", "--io", "epoll"],
    ] {
        let (place, shop) = (Place::new(), Shop::default());
        let double = shop.start();
        let front = match over.contains(&"--http2") {
            true => match speaking_http2(&place, double.port()) {
                Some(front) => Some(front),
                None => return skip("it needs haproxy (Debian: apt-get install haproxy)"),
            },
            false => None,
        };
        place.file("shop.toml", SESSIONS);
        // One in four may not log in, and names are spelled for JSON and for a query.
        place.file(
            "users.csv",
            "name,term\n\"a \"\"b\"\"\",x y\nbob,\nmallory,&z=1\ncarl,c\n",
        );
        let url = match &front {
            None => double.url("/"),
            Some(front) => format!("http://127.0.0.1:{}/", front.port()),
        };
        let args = [
            "run",
            &url,
            "--traffic",
            "shop.toml",
            "-c",
            "4",
            "-d",
            "1s",
            "--no-calibrate",
            "-q",
        ];
        let ran = place.run(&[&args, over].concat()).ends_with(0);
        let step = place.step();
        let session = &step["sessions"][0];
        let number =
            |of: &Value, key: &str| of[key].as_u64().unwrap_or_else(|| panic!("{key}: {of}"));
        let (begun, completed) = (number(session, "begun"), number(session, "completed"));
        let broken = number(session, "broken_off");
        assert!(completed > 100, "{}", ran.out);
        assert!(
            broken + completed <= begun + 4 && begun <= broken + completed + 4,
            "{session}"
        );
        // Mallory's sessions end with the login, and nothing else of anybody's failed.
        let share = broken as f64 / begun as f64;
        let spread = 4.0 * (0.25 * 0.75 / begun as f64).sqrt();
        assert!((share - 0.25).abs() < spread, "{share}");
        let failed = step["counts"]["failed"].as_object().expect("classes");
        assert_eq!(
            failed.keys().collect::<Vec<_>>(),
            ["status.4xx"],
            "{}",
            ran.out
        );
        assert_eq!((shop.count("stranger"), shop.count("no JSON")), (0, 0));
        assert!(shop.count("POST /login") > shop.count("POST /cart"));
        let unfollowed = shop.count("POST /cart") - shop.count("GET /carts/7");
        assert!(unfollowed <= 4, "{unfollowed}");
        assert_eq!(shop.count("POST /key"), 1);
        assert_eq!(shop.count("DELETE /key/k%2F1"), 1);
        for name in ["buy, whole", "buy.login", "buy.cart", "buy.cart redirected"] {
            assert!(ran.out.contains(name), "{name}: {}", ran.out);
        }
        // What looking into them takes is measured, of some of them.
        let kinds = step["requests"].as_array().expect("kinds").iter();
        let sum = |key: &str| -> u64 {
            let of_kinds = kinds.clone().map(|kind| &kind["looked_into"]);
            of_kinds.filter_map(|looked| looked[key].as_u64()).sum()
        };
        let (answers, timed, timed_ns) = (sum("answers"), sum("timed"), sum("timed_ns"));
        assert!((1..=answers / 16).contains(&timed), "{timed} of {answers}");
        assert!((timed..timed * 1_000_000).contains(&timed_ns), "{timed_ns}");
        assert!(
            ran.out.contains("Looking into an answer takes"),
            "{}",
            ran.out
        );
    }
}

/// A proxy that speaks HTTP/2 with its clients.
fn speaking_http2(place: &Place, port: u16) -> Option<Served> {
    let haproxy = program("haproxy")?;
    let started = Served::start(|front| {
        let settings = format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n\
             listen front\n bind 127.0.0.1:{front} proto h2\n server behind 127.0.0.1:{port}\n"
        );
        let file = place.file(&format!("haproxy-{front}.cfg"), settings);
        let mut command = Command::new(&haproxy);
        command.arg("-db").arg("-f").arg(file);
        command
    });
    Some(started.expect("haproxy starts"))
}

/// Gives out tokens, each good for a time.
#[derive(Clone, Default)]
struct Office(Arc<Mutex<Vec<Instant>>>);

const GOOD_FOR: Duration = Duration::from_millis(1_600);

impl Office {
    fn start(&self) -> Double {
        let office = self.clone();
        Double::start(move |conversation| {
            while let Some(request) = conversation.request() {
                let request = String::from_utf8_lossy(&request).into_owned();
                let answer = office.answer(&request);
                if !conversation.say(answer) {
                    return;
                }
            }
        })
    }

    fn answer(&self, request: &str) -> String {
        let mut given = self.0.lock().unwrap();
        if request.starts_with("POST /token") {
            let nth = given.len();
            given.push(Instant::now());
            return ok("", &format!("{{\"token\": \"t-{nth}\"}}"));
        }
        let token = request.split_once("authorization: Bearer t-");
        let token = token.and_then(|(_, rest)| rest.lines().next()?.parse::<usize>().ok());
        let is_good = |at: &Instant| at.elapsed() < GOOD_FOR;
        match token
            .and_then(|token| given.get(token))
            .is_some_and(is_good)
        {
            true => ok("", "you may"),
            false => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_owned(),
        }
    }
}

#[test]
fn a_token_that_grows_old_is_renewed_while_the_load_runs() {
    let _turn = together();
    for (refresh, renewed) in [("refresh = \"200ms\"\n", true), ("", false)] {
        let (place, office) = (Place::new(), Office::default());
        let double = office.start();
        let traffic = format!(
            "[[setup]]\npost = \"/token\"\ntake = {{ token = \"json:/token\" }}\n{refresh}\
             [[request]]\nget = \"/mine\"\nheader = {{ authorization = \"Bearer {{token}}\" }}\n"
        );
        place.file("office.toml", traffic);
        let url = double.url("/");
        let args = [
            "run",
            &url,
            "--traffic",
            "office.toml",
            "-c",
            "4",
            "-d",
            "3s",
        ];
        let since = Instant::now();
        let ran = place.run(&[&args[..], &["--no-calibrate", "-q"]].concat());
        let ran = ran.ends_with(0);
        // Five a second for as long as it ran, and the first.
        let most = since.elapsed().as_millis() as usize / 200 + 1;
        let failed = &place.step()["counts"]["failed"];
        assert_eq!(failed["status.4xx"].is_null(), renewed, "{}", ran.out);
        let given = office.0.lock().unwrap().len();
        match renewed {
            true => assert!((6..=most).contains(&given), "{given} of {most}"),
            false => assert_eq!(given, 1),
        }
    }
}

#[test]
fn what_is_renewed_has_the_cookies_of_the_set_up_before_it() {
    let _turn = together();
    let place = Place::new();
    let sent = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&sent);
    let double = Double::start(move |conversation| {
        while let Some(request) = conversation.request() {
            let request = String::from_utf8_lossy(&request).into_owned();
            let mut lines = request.lines();
            let cookies = lines.find_map(|line| line.strip_prefix("Cookie: "));
            if request.starts_with("POST /token") {
                let cookies = cookies.unwrap_or_default().to_owned();
                seen.lock().unwrap().push(cookies);
            }
            let fields = match request.starts_with("POST /login") {
                true => "Set-Cookie: sid=1; Path=/\r\nSet-Cookie: lang=de\r\n",
                false => "Set-Cookie: sid=2\r\n",
            };
            if !conversation.say(ok(fields, "{\"token\": \"t\"}")) {
                return;
            }
        }
    });
    place.file(
        "office.toml",
        "[[setup]]\npost = \"/login\"\n\
         [[setup]]\npost = \"/token\"\nrefresh = \"200ms\"\ntake = { token = \"json:/token\" }\n\
         [[request]]\nget = \"/mine?{token}\"\n",
    );
    let url = double.url("/");
    let args = ["run", &url, "--traffic", "office.toml", "-c", "1"];
    let load = ["-d", "1500ms", "--no-calibrate", "-q"];
    place.run(&[&args[..], &load].concat()).ends_with(0);
    let sent = sent.lock().unwrap();
    assert!(sent.len() >= 3, "{sent:?}");
    assert!(sent.iter().all(|sent| sent == "sid=1; lang=de"), "{sent:?}");
}

#[test]
fn an_empty_value_that_set_up_took_is_one() {
    let _turn = together();
    for from in ["header:x-key", "json:/key"] {
        let (place, shop) = (Place::new(), Shop::default());
        let double = shop.start();
        place.file(
            "shop.toml",
            format!(
                "[[setup]]\npost = \"/no-key\"\ntake = {{ key = \"{from}\" }}\n\
                 [[request]]\nget = \"/search?q={{key}}\"\n\
                 [[teardown]]\ndelete = \"/keys-of{{key}}\"\n"
            ),
        );
        let url = double.url("/");
        let args = ["run", &url, "--traffic", "shop.toml", "-c", "1", "-n", "20"];
        let ran = place.run(&[&args[..], &["--no-calibrate", "-q"]].concat());
        ran.ends_with(0);
        assert_eq!(shop.count("DELETE /keys-of"), 1, "{from}");
    }
}

#[test]
fn set_up_that_ends_half_way_is_taken_down() {
    let _turn = together();
    let (place, shop) = (Place::new(), Shop::default());
    let double = shop.start();
    place.file(
        "shop.toml",
        "[[setup]]\npost = \"/key\"\ntake = { key = \"header:x-key\" }\n\
         [[setup]]\nget = \"/nowhere\"\ntake = { other = \"header:x-other\" }\n\
         [[request]]\nget = \"/search?q={key}\"\n\
         [[teardown]]\ndelete = \"/other/{other}\"\n[[teardown]]\ndelete = \"/key/{key}\"\n",
    );
    let url = double.url("/");
    let said = place
        .run(&["run", &url, "--traffic", "shop.toml"])
        .ends_with(1)
        .err;
    assert!(
        said.contains("[[setup]] `setup./nowhere` was answered with status 404"),
        "{said}"
    );
    assert_eq!(shop.count("DELETE /key/k%2F1"), 1);
    assert_eq!(
        shop.count("DELETE /other/x") + shop.count("DELETE /other/"),
        0
    );
}

#[test]
fn an_answer_that_is_not_what_it_must_be_fails_by_a_class_of_its_own() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    for (check, class) in [
        ("check = { status = 201 }", "check.status"),
        ("check = { body-contains = \"nowhere\" }", "check.body"),
        ("check = { header = { x-gone = \"\" } }", "check.header"),
        ("check = { length = \"100000..\" }", "check.length"),
        ("check = { json-has = [\"/a\"] }", "check.json"),
    ] {
        place.file("wrong.toml", format!("[[request]]\nget = \"/\"\n{check}\n"));
        let args = [
            "run",
            &url,
            "--traffic",
            "wrong.toml",
            "-c",
            "2",
            "-n",
            "50",
            "--no-calibrate",
            "-q",
        ];
        place
            .start(&args)
            .wait(Duration::from_secs(30))
            .ends_with(1);
        let failed = &place.step()["counts"]["failed"];
        assert_eq!(failed[class], 50, "{failed}");
    }
}

#[test]
fn a_form_of_parts_is_sent_with_its_boundary_and_its_length() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    place.file("a.txt", "what is in it");
    place.file("users.csv", "name\nann\n");
    place.file(
        "form.toml",
        "[data.users]\nfile = \"users.csv\"\n[[request]]\npost = \"/upload\"\nmultipart = [\n\
         { name = \"user\", value = \"{users.name}\" },\n{ name = \"image\", file = \"a.txt\", type = \"text/plain\" },\n]\n",
    );
    let url = double.url("/");
    for command in [
        &["run", &url, "-n", "20"][..],
        &["ramp", &url, "--connections", "1,2", "-d", "300ms"],
    ] {
        let more = ["--traffic", "form.toml", "--no-calibrate", "-q"];
        place.run(&[command, &more].concat()).ends_with(0);
        for step in place.record()["steps"].as_array().expect("steps") {
            assert_eq!(step["requests"][0]["name"], "POST /upload");
            assert!(step["requests"][0]["answered"].as_u64() > Some(0));
        }
    }
    let sent = double.first_request();
    let (head, body) = sent.split_once("\r\n\r\n").expect("a head");
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(of, _)| of.eq_ignore_ascii_case(name));
        found.unwrap_or_else(|| panic!("{name}: {head}")).1
    };
    assert_eq!(field("content-length"), body.len().to_string());
    let kind = field("content-type");
    let boundary = kind.strip_prefix("multipart/form-data; boundary=");
    let boundary = format!("--{}", boundary.expect("its boundary"));
    let parts: Vec<&str> = body.split(&boundary).collect();
    let user = "\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nann\r\n";
    let ["", first, second, "--\r\n"] = parts[..] else {
        panic!("{parts:?}");
    };
    assert_eq!(first, user);
    assert!(
        second.contains("name=\"image\"; filename=\"a.txt\"\r\n"),
        "{second}"
    );
    assert!(second.ends_with("\r\n\r\nwhat is in it\r\n"), "{second}");
}

#[test]
fn rows_that_are_used_once_end_the_load() {
    let _turn = together();
    let (place, shop) = (Place::new(), Shop::default());
    let double = shop.start();
    let rows: String = (0..300).map(|n| format!("t{n}\n")).collect();
    place.file("terms.csv", format!("term\n{rows}"));
    place.file(
        "once.toml",
        "[data.terms]\nfile = \"terms.csv\"\norder = \"once\"\n[[request]]\nget = \"/search?q={terms.term}\"\n",
    );
    let url = double.url("/");
    for load in [&["-c", "7"][..], &["-c", "7", "--rate", "2000"]] {
        let args = [
            "run",
            &url,
            "--traffic",
            "once.toml",
            "-d",
            "20s",
            "--no-calibrate",
            "-q",
        ];
        let before = shop.count("GET /search");
        place.run(&[&args[..], load].concat()).ends_with(0);
        let counts = &place.step()["counts"];
        assert_eq!(counts["answered"], 300, "{counts}");
        assert_eq!(shop.count("GET /search") - before, 300);
    }
}

/// A server that answers everything, and its requests in the order in which they came.
fn listening() -> (Double, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let of_server = Arc::clone(&asked);
    let double = Double::start(move |conversation| {
        while let Some(request) = conversation.request() {
            let line = String::from_utf8_lossy(&request);
            let line = line.lines().next().unwrap_or_default();
            let line = line.trim_end_matches(" HTTP/1.1").to_owned();
            let answer = match line.starts_with("HEAD") {
                true => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".to_owned(),
                false => ok("", "ok"),
            };
            of_server.lock().unwrap().push(line);
            if !conversation.say(answer) {
                return;
            }
        }
    });
    (double, asked)
}

#[test]
fn what_was_logged_is_sent_again_in_its_order() {
    let _turn = together();
    let (place, (double, asked)) = (Place::new(), listening());
    let paths: Vec<String> = (0..200)
        .map(|n| format!("/items/{}?n={n}", n % 7))
        .collect();
    // Every fifth asks for a head alone.
    let method = |n: usize| if n.is_multiple_of(5) { "HEAD" } else { "GET" };
    let lines = paths.iter().enumerate().map(|(n, path)| {
        let (at, method) = (1_700_000_000.0 + n as f64 * 0.005, method(n));
        format!("{at:.3} \"{method} {path} HTTP/1.1\" 200 0.001\n")
    });
    place.file("access.log", lines.collect::<String>());
    let url = double.url("/");
    let format = "$msec \"$request\" $status $request_time";
    let replay = [
        "run",
        &url,
        "--replay",
        "access.log",
        "--log-format",
        format,
        "--speed",
        "2",
        "-c",
        "1",
        "-q",
    ];
    let ran = place.run(&replay).ends_with(0);
    let step = place.step();
    assert_eq!(step["counts"]["answered"], 200, "{}", ran.out);
    // Half of a second, and what the last answer took.
    let window_ns = step["window_ns"].as_u64().expect("a length");
    assert!(
        (490_000_000..900_000_000).contains(&window_ns),
        "{window_ns}"
    );
    assert_eq!(step["load"]["arrival"]["model"], "replay");
    let wanted = paths.iter().enumerate();
    let wanted: Vec<String> = wanted
        .map(|(n, path)| format!("{} {path}", method(n)))
        .collect();
    let seen = std::mem::take(&mut *asked.lock().unwrap());
    assert!(seen == wanted, "{seen:?}");
    // Of whole seconds, over and over, cut by -d.
    let line = |second: u32| {
        format!("h - - [10/Oct/2000:13:55:{second:02} +0000] \"GET /a HTTP/1.1\" 200 1\n")
    };
    place.file(
        "coarse.log",
        (10..12)
            .flat_map(|second| (0..20).map(move |_| line(second)))
            .collect::<String>(),
    );
    let again = [
        "run",
        &url,
        "--replay",
        "coarse.log",
        "--loop",
        "--speed",
        "10",
        "-d",
        "1s",
        "-c",
        "4",
        "-q",
    ];
    let ran = place.run(&again).ends_with(0);
    assert!(
        ran.out.contains("whole seconds") && ran.out.contains("over and"),
        "{}",
        ran.out
    );
    let sent = place.step()["counts"]["answered"]
        .as_u64()
        .expect("a count");
    assert!((150..260).contains(&sent), "{sent}");
    // A log that goes on for longer than the load.
    let cut = [
        "run",
        &url,
        "--replay",
        "coarse.log",
        "-d",
        "300ms",
        "-c",
        "4",
        "-q",
    ];
    let ran = place.run(&cut).ends_with(0);
    assert!(
        ran.out.contains("The replay ends after 300 ms"),
        "{}",
        ran.out
    );
    for (args, part) in [
        (&["run", &url, "--replay", "gone.log"][..], "gone.log"),
        (&["run", &url, "--replay", "access.log"], "--log-format"),
        (
            &["run", &url, "--replay", "access.log", "--rate", "5"],
            "--rate",
        ),
        (&["run", &url, "--speed", "2"], "--replay"),
    ] {
        let said = place.run(args).ends_with(2).err;
        assert!(said.contains(part), "{said}");
    }
}

/// What Chromium recorded of a page.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/chromium.har");

#[test]
fn what_a_browser_recorded_is_sent_again_in_its_order_and_on_time() {
    let _turn = quietly();
    let (place, (double, asked)) = (Place::new(), listening());
    let url = double.url("/");
    // On two, what is late on a busy machine goes out side by side, and the server hears it in any order.
    let args = ["run", &url, "--replay", RECORDED, "-c", "1", "-q"];
    until_prompt(|| {
        place.run(&args).ends_with(0);
        let wanted = [
            "GET /index.html",
            "GET /a.png?token=s3cret",
            "GET /app.js",
            "POST /items/17",
        ];
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), wanted);
        place.step()
    });
}

#[test]
fn what_is_imported_runs_as_it_is() {
    let _turn = together();
    let (place, (double, asked)) = (Place::new(), listening());
    let url = double.url("/");
    place.file("api.yaml", "openapi: 3.0.0\npaths:\n  /pets/{id}:\n    get:\n      operationId: pet\n      parameters:\n        - {name: id, in: path, required: true, schema: {type: integer, example: 17}}\n");
    place.file("access.log", "h - - [10/Oct/2000:13:55:36 -0700] \"GET /items/1?token=s3cret HTTP/1.1\" 200 2\nh - - [10/Oct/2000:13:55:36 -0700] \"GET /items/2 HTTP/1.1\" 200 2\n");
    for (from, wanted, left_out) in [
        (
            vec!["from-har", RECORDED],
            "GET /app.js",
            "`password` of a body",
        ),
        (
            vec!["from-har", "--by-route", RECORDED],
            "POST /items/17",
            "the order of requests, and cookies",
        ),
        (
            vec!["from-log", "access.log"],
            "GET /items/2",
            "the parameter `token`",
        ),
        (vec!["from-openapi", "api.yaml"], "GET /pets/17", ""),
        (
            vec![
                "from-curl",
                "curl -s -H 'Authorization: Bearer s3cret' -d a=1 http://h/cart",
            ],
            "POST /cart",
            "`Authorization`",
        ),
    ] {
        let made = place.run(&[&["traffic"][..], &from].concat()).ends_with(0);
        assert!(
            made.out.contains(left_out) && !made.out.contains("s3cret"),
            "{}",
            made.out
        );
        place.file("made.toml", &made.out);
        let run = [
            "run",
            &url,
            "--traffic",
            "made.toml",
            "-c",
            "2",
            "-d",
            "1200ms",
            "--no-calibrate",
            "-q",
        ];
        place.run(&run).ends_with(0);
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        assert!(
            asked.iter().any(|line| line == wanted),
            "{wanted}: {:?}",
            &asked[..asked.len().min(9)]
        );
    }
    for (from, part) in [
        (["from-har", "access.log"], "no JSON"),
        (["from-log", "api.yaml"], "--log-format"),
        (["from-openapi", "access.log"], "access.log"),
    ] {
        let said = place
            .run(&[&["traffic"][..], &from].concat())
            .ends_with(2)
            .err;
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_row_of_two_gigabytes_is_refused_in_bounded_memory() {
    let _turn = together();
    let place = Place::new();
    place.file(
        "mix.toml",
        "[data.users]\nfile = \"users.csv\"\n\n[[request]]\nget = \"/{users.name}\"\n",
    );
    let rows = std::fs::File::create(place.path().join("users.csv")).expect("a file");
    rows.set_len(2 << 30).expect("a sparse one");
    // In KiB: of a file 256 MiB are read at the most.
    let bounded = ["sh", "-c", "ulimit -v 1900000; exec \"$@\"", "sh"];
    let url = "http://127.0.0.1:9/";
    let load = ["run", url, "--traffic", "mix.toml", "-d", "1s"];
    let ran = place.start_as(&bounded, &load);
    let ran = ran.wait(Duration::from_secs(30)).ends_with(2);
    let told = ["mix.toml:2", "users.csv", "longer than 256 MiB", "split it"];
    for part in told {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}

#[test]
fn requests_are_held_to_thresholds_and_compared_by_name() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    place.file(
        "two.toml",
        "[[request]]\nname = \"a\"\nget = \"/a\"\n[[request]]\nname = \"b\"\nget = \"/b\"\n",
    );
    let url = double.url("/");
    let load = [
        "run",
        &url,
        "--traffic",
        "two.toml",
        "-c",
        "2",
        "-n",
        "2000",
        "--no-calibrate",
        "-q",
    ];
    let held = |threshold: &str| place.run(&[&load[..], &["--threshold", threshold]].concat());
    held("a: p99<1m").ends_with(0);
    let first = place.last_run();
    let said = held("b: rps>1G").ends_with(3).err;
    assert!(said.contains("b: rps>1G: breached"), "{said}");
    let said = held("c: p99<1m").ends_with(2).err;
    assert!(
        said.contains("no request is called `c`; there is a, b"),
        "{said}"
    );
    let second = place.last_run();
    let pair = [first.to_str().unwrap(), second.to_str().unwrap()];
    let compared = place
        .run(&[&["compare"][..], &pair].concat())
        .ends_with(0)
        .out;
    let lines: Vec<&str> = compared
        .lines()
        .filter(|line| line.starts_with("   a ") || line.starts_with("   b "))
        .collect();
    assert_eq!(lines.len(), 2, "{compared}");
    let csv = place
        .run(&["report", pair[0], "--format", "csv"])
        .ends_with(0)
        .out;
    assert!(
        csv.contains("index,kind,name,of_session") && csv.contains("0,request,b,"),
        "{csv}"
    );
}

#[test]
fn what_is_not_driven_is_declined_in_words() {
    let _turn = together();
    let place = Place::new();
    for (args, part) in [
        (
            &["run", "unix:/run/app.sock"][..],
            "a unix socket is not driven",
        ),
        (
            &[
                "run",
                "http://127.0.0.1:9/",
                "--proxy",
                "http://127.0.0.1:8080",
            ],
            "the proxy would be measured",
        ),
    ] {
        let said = place.run(args).ends_with(2).err;
        assert!(said.contains(part), "{said}");
    }
}

/// A mix with rows, a check and a session in every protocol, each at a server of others.
#[test]
fn a_mix_is_sent_in_every_protocol() {
    let _turn = together();
    if subjects().is_none() {
        return;
    }
    let place = Place::new();
    place.file(
        "http.toml",
        r#"[data.ids]
rows = [ { id = "a b" }, { id = "c" } ]
[[request]]
name = "one"
get = "/read?x={ids.id}"
check = { status = 200, length = "1.." }
[[request]]
name = "head"
head = "/simple"
check = { status = 200, length = 0 }
[[session]]
name = "two"
steps = [ { name = "a", get = "/simple", check = { body-contains = "a" } }, { name = "b", get = "/read?y={ids.id}", think = "1ms" } ]
"#,
    );
    let echo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../subjects/go/echo/payload/echo.proto"
    );
    place.file(
        "grpc.toml",
        r#"[data.ids]
rows = [ { id = "a" }, { id = "bb" } ]
[[request]]
name = "one"
call = "/wallfinder.echo.Echo/Call"
body = '{"id": "{ids.id}", "data": "aGVsbG8="}'
header = { x-user = "{ids.id}" }
[[request]]
name = "other"
call = "/wallfinder.echo.Echo/Call"
body = '{"id": "x"}'
"#,
    );
    let load = ["-c", "4", "-d", "500ms", "--no-calibrate", "-q"];
    let ran = |args: &[&str]| {
        let ran = place.run(&[args, &load].concat()).ends_with(0);
        let step = place.step();
        assert_eq!(
            step["counts"]["failed"].as_object().map(|all| all.len()),
            Some(0),
            "{}",
            ran.out
        );
        let kinds = step["requests"].as_array().expect("kinds");
        for kind in kinds {
            assert!(
                kind["answered"].as_u64().is_some_and(|count| count > 20),
                "{}",
                ran.out
            );
        }
    };
    let tls = [
        "run",
        "https://subject:0/",
        "--subject",
        "catalogue --tls",
        "-k",
        "--traffic",
        "http.toml",
    ];
    ran(&tls);
    let grpc = [
        "run",
        "grpc://subject:0",
        "--subject",
        "echo --protocol grpc",
        "--proto",
        echo,
    ];
    ran(&[&grpc[..], &["--traffic", "grpc.toml", "--streams", "5"]].concat());
    let Some(nghttpd) = program("nghttpd") else {
        return skip("there is no nghttpd (Debian: apt-get install nghttp2-server)");
    };
    for name in ["read", "simple"] {
        place.file(name, "a page");
    }
    let folder = place.path().to_owned();
    let served = Served::start(|port| {
        let mut command = Command::new(&nghttpd);
        command
            .arg("--no-tls")
            .arg("-d")
            .arg(&folder)
            .arg(port.to_string());
        command
    });
    let served = served.expect("nghttpd starts");
    let url = format!("http://127.0.0.1:{}/", served.port());
    ran(&["run", &url, "--http2", "--traffic", "http.toml"]);
}

/// Messages are filled in with what earlier calls were answered with, and with rows of two tables; what is sought in
/// their answers is found by the names of fields.
#[test]
fn calls_are_filled_in_with_what_calls_before_them_were_answered_with() {
    let _turn = together();
    if subjects().is_none() {
        return;
    }
    let place = Place::new();
    let session = |body: &str, check: &str| {
        format!(
            r#"[data.a]
rows = [ {{ id = "café", n = 7 }} ]
[data.b]
rows = [ {{ n = 300 }} ]
[[session]]
name = "s"
steps = [
  {{ name = "first", call = "/wallfinder.echo.Echo/Call", body = '{{"id": "{{a.id}}", "data": "AP8="}}', take = {{ id = "json:/id", data = "json:/data", at = "json:/timestamp" }} }},
  {{ name = "second", call = "/wallfinder.echo.Echo/Call", body = '{body}', check = {check} }},
]
"#
        )
    };
    let whole = r#"{"id": "{id} {a.n}{b.n}", "data": "{data}", "timestamp": {at}}"#;
    let same =
        r#"{ json = { "/id" = "caf\u00e9 7300", "/data" = "AP8=" }, json-has = ["/timestamp"] }"#;
    let proto = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../subjects/go/echo/payload/echo.proto"
    );
    let args = [
        "run",
        "grpc://subject:0",
        "--subject",
        "echo --protocol grpc",
        "--traffic",
        "calls.toml",
        "-c",
        "3",
        "-n",
        "600",
        "--no-calibrate",
        "-q",
        "--proto",
        proto,
    ];
    place.file("calls.toml", session(whole, same));
    let ran = place.run(&args).ends_with(0);
    let step = place.step();
    assert_eq!(step["counts"]["answered"], 600, "{}", ran.out);
    // Set-up and tear-down are calls as well, and what they took may be a number of a message.
    let around = format!(
        "[[setup]]\ncall = \"/wallfinder.echo.Echo/Call\"\nbody = '{{\"id\": \"17\"}}'\ntake = {{ key = \"json:/id\" }}\n{}",
        session(
            r#"{"id": "{key} {id}", "timestamp": {key}}"#,
            r#"{ json = { "/id" = "17 caf\u00e9" } }"#
        )
    );
    place.file("calls.toml", &around);
    place.run(&args).ends_with(0);
    assert_eq!(place.step()["counts"]["answered"], 600);
    place.file("calls.toml", around.replace("17", "x"));
    let said = place.run(&args).ends_with(1).err;
    assert!(
        said.contains("[[setup]]") && said.contains("take.unfit"),
        "{said}"
    );
    for (body, check, class) in [
        (
            r#"{"id": "{id}"}"#,
            r#"{ json = { "/id" = "x" } }"#,
            "check.json",
        ),
        (
            r#"{"id": "x"}"#,
            r#"{ json-has = ["/data"] }"#,
            "check.json",
        ),
        // What was taken is no number.
        (r#"{"timestamp": "{id}"}"#, same, "take.unfit"),
    ] {
        place.file("calls.toml", session(body, check));
        place.start(&args).wait(Duration::from_secs(30));
        let failed = &place.step()["counts"]["failed"];
        let count = failed[class].as_u64();
        assert!(count.is_some_and(|count| count >= 200), "{failed}");
    }
    for (body, check, part) in [
        (
            r#"{"id": {id}}"#,
            same,
            "`id` is a string: write its place in quotes",
        ),
        (
            r#"{"timestamp": "{a.id}", "id": "{id}"}"#,
            same,
            "row 1 of [data.a]",
        ),
        (r#"{"no": "{id}"}"#, same, "no field `no`"),
        (whole, r#"{ json-has = ["/no"] }"#, "no field `no`"),
    ] {
        place.file("calls.toml", session(body, check));
        let said = place.run(&args).ends_with(2).err;
        assert!(
            said.contains(part) && said.contains("calls.toml:9"),
            "{said}"
        );
    }
}

/// A server whose keys die with it, and that answers no others. What it is started with: its port, a file that counts its
/// starts, the start at which it gives no key, and whether it asks for one then.
const KEYS: &str = r#"
import http.server, sys
port, file, bad, strict = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "strict"
open(file, "a").write("x")
start = len(open(file).read())
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    def answer(self, status, key=""):
        self.send_response(status)
        self.send_header("X-Key", key)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def do_POST(self):
        self.answer(500) if start == bad else self.answer(200, f"k{start}")
    def do_GET(self):
        self.answer(200 if self.path == f"/k{start}" or (start == bad and not strict) else 401)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), H).serve_forever()
"#;

/// `find` makes set-up again at each start of the server. Where that fails it says so, starts it no more, and goes on by
/// what it knows: with the requests that are still answered, or with what it had measured.
#[test]
fn a_set_up_that_fails_at_a_restart_does_not_end_a_find() {
    let _turn = alone();
    if program("python3").is_none() {
        return skip("no python3");
    }
    for (bad, strict, parts) in [
        (
            3,
            "lenient",
            &[
                "`setup.POST /key` was answered with status 500",
                "\"unprepared-server\"",
            ][..],
        ),
        (
            2,
            "strict",
            &[
                "`setup.POST /key` was answered with status 500",
                "\"unprepared-server-fails\"",
                "\"nothing-more-asked\"",
            ],
        ),
    ] {
        let place = Place::new();
        let server = place.file("keys.py", KEYS);
        let starts = place.path().join("starts");
        place.file(
            "keys.toml",
            "[[setup]]\npost = \"/key\"\ntake = { key = \"header:x-key\" }\n[[request]]\nget = \"/{key}\"\n",
        );
        let port = free_port();
        let (url, starts) = (format!("http://127.0.0.1:{port}/"), starts.display());
        let subject = format!(
            "python3 {} {port} {starts} {bad} {strict}",
            server.display()
        );
        let args = [
            "find",
            &url,
            "--subject",
            &subject,
            "--traffic",
            "keys.toml",
            "-c",
            "2",
            "--window",
            "100ms",
            "--no-calibrate",
            "-q",
        ];
        let ran = place
            .start(&args)
            .wait(Duration::from_secs(150))
            .ends_with(0);
        let record = place.record();
        let step = squeezed(&record);
        assert_eq!(step["experiment"]["cut_short"], Value::Null, "{}", ran.out);
        let windows = step["experiment"]["windows"].as_array().expect("windows");
        let starts: BTreeSet<u64> = windows
            .iter()
            .filter_map(|of| of["restart"].as_u64())
            .collect();
        // Windows of a server at which requests failed do not count.
        let counted = if strict == "strict" { bad - 1 } else { bad };
        assert_eq!(starts, (0..counted).collect(), "{}", ran.out);
        let answered = windows
            .iter()
            .all(|of| of["answered"].as_u64() > Some(0) && of["failed"] == 0);
        assert!(answered, "{}", ran.out);
        let caveats = format!("{} {}", record["caveats"], step["caveats"]);
        for part in parts {
            assert!(caveats.contains(part), "{part}: {caveats}");
        }
        let is_left = caveats.contains("nothing-more-asked");
        assert_eq!(is_left, strict == "strict", "{caveats}");
        assert!(step["verdict"].is_object(), "{}", ran.out);
    }
}

/// One request in ten has most of the server's CPU time, by its weight in the windows and by what their stacks show.
#[test]
fn find_says_which_request_holds_the_wall_and_in_which_functions() {
    let _turn = alone();
    if !has_apparatus() || subjects().is_none() {
        return;
    }
    let place = Place::new();
    place.file(
        "shop.toml",
        "[[request]]\nweight = 90\nget = \"/simple\"\n[[request]]\nweight = 10\nget = \"/list\"\n",
    );
    let args = [
        "find",
        "http://subject:8083/",
        "--subject",
        "catalogue",
        "--traffic",
        "shop.toml",
        "-c",
        "16",
        "--effort",
        "quick",
        "--what-if",
        "/list=0.5",
        "--no-calibrate",
        "-q",
    ];
    let said = place.run(&args).ends_with(0).said();
    let record = place.record();
    let step = squeezed(&record);
    let kind = |name: &str| {
        let kinds = step["requests"].as_array().expect("kinds");
        let found = kinds.iter().find(|kind| kind["name"] == name);
        found.expect("it was asked for").clone()
    };
    let (simple, list) = (kind("/simple"), kind("/list"));
    let each = |kind: &Value| kind["costs"]["server"]["each"].as_f64().expect("a cost");
    assert!(each(&list) > 2.0 * each(&simple), "{said}");
    let functions = list["functions"].as_array().expect("functions");
    assert!(!functions.is_empty(), "{said}");
    assert!(
        said.contains("BY REQUEST") && said.contains("for /list"),
        "{said}"
    );
    assert!(said.contains("/list=0.5"), "{said}");
}
