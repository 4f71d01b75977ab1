//! A real browser reads what the subject `content` compresses.

use std::path::Path;
use std::process::Command;

use wallfinder_tests::{Place, Served, program, skip, subjects, together};

/// The subject with these flags.
fn content(bin: &Path, flags: &[&str]) -> Served {
    let served = Served::start(|port| {
        let mut command = Command::new(bin.join("content"));
        command.args(["--port", &port.to_string()]).args(flags);
        command
    });
    served.expect("the subject starts")
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
        let plain = content(&bin, &["--codings", "none"]);
        let coded = content(&bin, flags);
        let page = |scheme: &str, content: &Served| {
            let url = format!("{scheme}://127.0.0.1:{}/realistic/16k.txt", content.port());
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
