//! A real browser reads what the subject `content` compresses.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use wallfinder_tests::{Place, program, skip, subjects, together};

/// The subject, for as long as it is wanted.
struct Content {
    child: Child,
    address: String,
}

impl Content {
    fn start(bin: &Path, flags: &[&str]) -> Content {
        let mut child = Command::new(bin.join("content"))
            .args(["--port", "0"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the subject starts");
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        lines
            .read_line(&mut said)
            .expect("it says where it listens");
        let said: Value = serde_json::from_str(&said).expect("its first line is JSON");
        Content {
            address: said["listening"].as_str().expect("an address").to_owned(),
            child,
        }
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The page as the browser has it, and the codings that came.
fn browse(chromium: &Path, place: &Place, url: &str) -> (String, String) {
    let log = place.path().join("net.json");
    let profile = place.path().join("profile");
    let out = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--ignore-certificate-errors",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--log-net-log={}", log.display()))
        .args(["--dump-dom", url])
        .output()
        .expect("the browser runs");
    let page = String::from_utf8_lossy(&out.stdout).into_owned();
    let log = std::fs::read_to_string(log).unwrap_or_default();
    (page, log.to_ascii_lowercase())
}

/// Over HTTP browsers take gzip, and br and zstd only under TLS. What they show is the file.
#[test]
fn a_browser_reads_every_coding() {
    let Some(bin) = subjects() else {
        return skip("the subjects are not built");
    };
    let Some(chromium) = program("chromium") else {
        return skip("there is no chromium (Debian: apt-get install chromium)");
    };
    let _turn = together();
    for (coding, scheme, flags) in [
        ("gzip", "http", &["--codings", "gzip"][..]),
        ("br", "https", &["--codings", "br", "--tls"]),
        ("zstd", "https", &["--codings", "zstd", "--tls"]),
    ] {
        let place = Place::new();
        let plain = Content::start(&bin, &["--codings", "none"]);
        let coded = Content::start(&bin, flags);
        let page = |scheme: &str, content: &Content| {
            let url = format!("{scheme}://{}/realistic/16k.txt", content.address);
            browse(&chromium, &place, &url)
        };
        let (expected, _) = page("http", &plain);
        assert!(expected.len() > 16_000, "{coding}: {expected}");
        let (shown, log) = page(scheme, &coded);
        assert!(
            shown == expected,
            "{coding}: {} bytes, not {}",
            shown.len(),
            expected.len()
        );
        assert!(
            log.contains(&format!("content-encoding: {coding}")),
            "{coding} never came"
        );
    }
}
