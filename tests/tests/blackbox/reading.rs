//! Files that the user names: what has no end, and what is no file, is refused before any load.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use wallfinder_tests::{Double, Place, binary, skip, together};

const SHORT: [&str; 6] = ["-n", "1", "-c", "1", "--no-calibrate", "-q"];

#[test]
fn what_has_no_end_is_not_read() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let tls = url.replace("http://", "https://");
    let call = url.replace("http://", "grpc://") + "a.B/C";
    let link = place.path().join("link");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    let (link, link_body) = (link.display().to_string(), format!("@{}", link.display()));
    for args in [
        &["run", &url, "-b", "@/dev/zero"][..],
        &["run", &url, "-b", "@/dev/urandom"],
        &["run", &url, "-b", &link_body],
        &["run", &tls, "--cacert", "/dev/zero"],
        &[
            "run",
            &tls,
            "-k",
            "--cert",
            "/dev/zero",
            "--key",
            "/dev/zero",
        ],
        &["run", &call, "--proto", "/dev/zero"],
        &["run", &call, "--proto", &link],
        &["run", &call, "--protoset", "/dev/zero"],
        &["profile", &url, "--rules", "/dev/zero"],
        &["pprof", "/dev/zero"],
        &["study", "show", "/dev/zero"],
    ] {
        let ran = place.run(args).ends_with(2);
        assert!(ran.err.contains("is a device"), "{args:?}: {}", ran.err);
        assert!(
            ran.took < Duration::from_secs(5),
            "{args:?}: {:?}",
            ran.took
        );
    }
    assert_eq!(double.requests(), 0);
}

#[test]
fn an_import_without_end_is_not_read() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let call = double.url("/").replace("http://", "grpc://") + "a.B/C";
    std::os::unix::fs::symlink("/dev/zero", place.path().join("zero.proto")).unwrap();
    let text = "syntax = \"proto3\"; import \"zero.proto\"; service B { }";
    let file = place.file("a.proto", text).display().to_string();
    let ran = place.run(&["run", &call, "--proto", &file]).ends_with(2);
    assert!(ran.err.contains("is a device"), "{}", ran.err);
    assert!(ran.err.contains("zero.proto"), "{}", ran.err);
}

#[test]
fn a_file_that_is_longer_than_may_be_is_refused_with_the_bound() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    // Without blocks: it takes no room on the disk.
    let path = place.file("long", "");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 33).unwrap();
    let body = format!("@{}", path.display());
    let ran = place.run(&["run", &url, "-b", &body]).ends_with(2);
    assert!(ran.err.contains("longer than 64 MiB"), "{}", ran.err);
    let name = path.display().to_string();
    let ran = place.run(&["pprof", &name]).ends_with(2);
    assert!(ran.err.contains("longer than 256 MiB"), "{}", ran.err);
}

#[test]
fn a_body_comes_from_standard_input_and_from_a_pipe() {
    let _turn = together();
    let double = Double::plain();
    let place = Place::new();
    let mut running = Command::new(binary())
        .args(
            [
                &["run", &double.url("/in"), "-m", "POST", "-b", "@-"],
                &SHORT[..],
            ]
            .concat(),
        )
        .current_dir(place.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    running
        .stdin
        .take()
        .unwrap()
        .write_all(b"by standard input")
        .unwrap();
    assert!(running.wait().unwrap().success());
    assert!(double.first_request().ends_with("by standard input"));

    let pipe = place.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("it needs mkfifo");
    }
    let double = Double::plain();
    let other_end = pipe.clone();
    let writer = std::thread::spawn(move || std::fs::write(other_end, "by a pipe"));
    let body = format!("@{}", pipe.display());
    let url = double.url("/in");
    place
        .run(&[&["run", &url, "-m", "POST", "-b", &body], &SHORT[..]].concat())
        .ends_with(0);
    writer.join().unwrap().unwrap();
    assert!(double.first_request().ends_with("by a pipe"));
}
