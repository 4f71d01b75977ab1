//! What somebody else puts in the way of a record: nothing there is followed, waited for, or read without
//! end.

mod records;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use records::{Scratch, record, step_begun, step_ended};
use wallfinder_store::{
    Clock, Folder, RunFolder, SampleFile, SampleRow, SampleWriter, StoreError, open, read_file,
};

/// Everything that a record consists of, and what has its name while it is written.
const FILES: [&str; 10] = [
    "plan.json",
    ".plan.json.part",
    "record.json",
    ".record.json.part",
    "series.parquet",
    ".series.parquet.part",
    "samples-0.part",
    "samples-0.parquet",
    "report.html",
    ".report.html.part",
];

fn create(scratch: &Scratch) -> RunFolder {
    RunFolder::create(&scratch.0.join("runs"), "x", SystemTime::now()).expect("created")
}

/// Writes all of a record.
fn write_all(run: &RunFolder) -> Result<PathBuf, StoreError> {
    let mut record = record(run.id(), 1);
    let journal = run.begin(&record)?;
    journal.step_begins(&step_begun(0))?;
    record.steps.push(step_ended(0));
    let mut samples = SampleWriter::create(run.folder(), 0, |_| "timeout.total")?;
    samples.append((0..10).map(|_| SampleRow::default()))?;
    samples.finish()?;
    run.folder()
        .inner("profiles")?
        .write("0-cpu.pb.gz", b"cpu")?;
    run.folder().write("report.html", b"<!doctype html>")?;
    run.seal(&journal, &record)
}

/// A file and a folder that are nobody's business.
struct Precious(PathBuf);

impl Precious {
    fn new(scratch: &Scratch) -> Precious {
        let path = scratch.0.join("precious");
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("file"), "kept").expect("written");
        Precious(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("file")
    }

    #[track_caller]
    fn is_untouched(&self, what: &str) {
        assert_eq!(fs::read(self.file()).expect("there"), b"kept", "{what}");
        assert_eq!(fs::read_dir(&self.0).expect("there").count(), 1, "{what}");
    }
}

#[test]
fn no_link_at_any_name_of_a_record_is_written_through() {
    type Plant = fn(&Path, &Path) -> std::io::Result<()>;
    let plants: [(&str, Plant); 3] = [
        ("a link", |to, at| symlink(to, at)),
        ("a hard link", |to, at| fs::hard_link(to, at)),
        ("a link to nothing", |to, at| {
            symlink(to.with_file_name("new"), at)
        }),
    ];
    for (what, plant) in plants {
        let scratch = Scratch::new();
        let precious = Precious::new(&scratch);
        let run = create(&scratch);
        for name in FILES {
            plant(&precious.file(), &run.path().join(name)).expect("planted");
        }
        let sealed = write_all(&run).expect("it writes beside what is in the way");
        precious.is_untouched(what);
        assert_eq!(open(&sealed).expect("readable").steps.len(), 1, "{what}");
        for name in ["record.json", "report.html", "samples-0.parquet"] {
            let file = fs::symlink_metadata(run.path().join(name)).expect("there");
            assert!(file.is_file() && file.nlink() == 1, "{what} at {name}");
        }
        // The journal takes the place of nothing.
        let run = create_after(&scratch, &run);
        plant(&precious.file(), &run.path().join("journal.wfj")).expect("planted");
        let refused = write_all(&run).expect_err("in the way");
        assert!(matches!(refused, StoreError::Exists { .. }), "{refused}");
        precious.is_untouched(what);
    }
    // And neither is a folder.
    let scratch = Scratch::new();
    let precious = Precious::new(&scratch);
    let run = create(&scratch);
    symlink(&precious.0, run.path().join("profiles")).expect("planted");
    assert!(write_all(&run).is_err());
    precious.is_untouched("a folder");
}

/// Another run, though it is the same second.
fn create_after(scratch: &Scratch, _other: &RunFolder) -> RunFolder {
    RunFolder::create(&scratch.0.join("runs"), "y", SystemTime::now()).expect("created")
}

#[test]
fn a_run_goes_where_it_was_made_though_its_path_leads_elsewhere_since() {
    let scratch = Scratch::new();
    let precious = Precious::new(&scratch);
    let run = create(&scratch);
    let moved = scratch.0.join("moved");
    fs::rename(run.path(), &moved).expect("moved");
    symlink(&precious.0, run.path()).expect("planted");
    write_all(&run).expect("written where it was made");
    precious.is_untouched("a folder that was swapped");
    assert_eq!(open(&moved).expect("readable").steps.len(), 1);
}

#[test]
fn what_is_written_is_its_owners_alone() {
    let scratch = Scratch::new();
    let run = create(&scratch);
    write_all(&run).expect("written");
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
    assert_eq!(mode(&scratch.0.join("runs")), 0o700);
    assert_eq!(mode(run.path()), 0o700);
    for entry in fs::read_dir(run.path()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[test]
fn runs_that_others_could_change_are_refused() {
    let scratch = Scratch::new();
    let now = SystemTime::now();
    let at = |name: &str| {
        let runs = scratch.0.join(name);
        fs::create_dir(&runs).expect("a folder");
        runs
    };
    let refused = |runs: &Path, why: &str| {
        let error = RunFolder::create(runs, "x", now).expect_err(why);
        assert!(matches!(error, StoreError::UnsafePlace { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(fs::read_dir(runs).expect("there").count(), 0, "{why}");
    };
    symlink(at("elsewhere"), scratch.0.join("link")).expect("a link");
    refused(&scratch.0.join("link"), "is a link");
    symlink("none", scratch.0.join("dangling")).expect("a link");
    assert!(RunFolder::create(&scratch.0.join("dangling"), "x", now).is_err());
    assert!(!scratch.0.join("none").exists());
    let mode = |runs: &Path, mode| {
        fs::set_permissions(runs, fs::Permissions::from_mode(mode)).expect("ours");
    };
    let open_to_all = at("open");
    mode(&open_to_all, 0o777);
    refused(&open_to_all, "can be written in by other users");
    // As `/tmp` is: what is made there is its maker's.
    mode(&open_to_all, 0o1777);
    RunFolder::create(&open_to_all, "x", now).expect("taken");
    let deep = scratch.0.join("a/b/c");
    RunFolder::create(&deep, "x", now).expect("made");
    let theirs = at("theirs");
    if chown(&theirs, Some(12_345), None).is_err() {
        wallfinder_skip::skip("only root can give a folder to another user");
        return;
    }
    refused(&theirs, "belongs to user 12345");
    // A folder of ours in theirs is ours.
    RunFolder::create(&theirs.join("ours"), "x", now).expect("made");
}

/// Does it within a moment, or hangs.
fn in_time<T: Send + 'static>(what: &str, does: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(does()));
    told.recv_timeout(Duration::from_secs(20))
        .unwrap_or_else(|_| panic!("{what}: it hangs"))
}

/// Everything that is read of a run.
fn read_all(run: &Path) -> [Result<(), StoreError>; 2] {
    let run = run.to_owned();
    in_time("reading", move || {
        let samples = SampleFile::all(&run).map(|files| files[0].clone());
        let times = samples.and_then(|file| file.times(Clock::Intended));
        [open(&run).map(drop), times.map(drop)]
    })
}

#[test]
fn no_pipe_link_or_device_in_a_run_is_read_or_waited_for() {
    type Plant = fn(&Path);
    let plants: [(&str, Plant); 4] = [
        ("a pipe", |at| {
            assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
        }),
        ("a link to no end", |at| symlink("/dev/zero", at).unwrap()),
        ("a link to secrets", |at| {
            symlink("/etc/passwd", at).unwrap()
        }),
        ("10 GB", |at| {
            let file = fs::File::create(at).unwrap();
            file.set_len(10_000_000_000).unwrap();
        }),
    ];
    for (what, plant) in plants {
        for name in ["record.json", "journal.wfj", "samples-0.parquet"] {
            let scratch = Scratch::new();
            plant(&scratch.0.join(name));
            let [record, samples] = read_all(&scratch.0);
            let (read, other) = match name {
                "samples-0.parquet" => (samples, record),
                _ => (record, samples),
            };
            assert!(other.is_err());
            let error = read.expect_err(what);
            assert!(!error.to_string().contains("root:"), "{error}");
            let is_told = match what {
                // A hole compresses well: it is opened, and has no end of the format.
                "10 GB" if name == "samples-0.parquet" => {
                    matches!(error, StoreError::BadRecord { .. })
                }
                "10 GB" => matches!(error, StoreError::TooLarge { .. }),
                _ => matches!(error, StoreError::NotAFile { .. }),
            };
            assert!(is_told, "{what} at {name}: {error}");
            let file = scratch.0.join(name);
            let bounded = in_time(what, move || read_file(&file, 1 << 20));
            assert_eq!(
                bounded.is_err(),
                what != "a link to secrets",
                "who names a link means what it leads to"
            );
        }
        // What only adds to a record costs a caveat.
        let scratch = Scratch::new();
        let run = create(&scratch);
        write_all(&run).expect("written");
        let series = run.path().join("series.parquet");
        fs::remove_file(&series).expect("removed");
        plant(&series);
        let path = run.path().to_owned();
        let record = in_time(what, move || open(&path)).expect("the record is fine");
        assert_eq!(record.caveats.len(), 1, "{what}: {:?}", record.caveats);
    }
}

#[test]
fn the_latest_run_is_one_beside_it_and_nothing_else() {
    let scratch = Scratch::new();
    let run = create(&scratch);
    write_all(&run).expect("written");
    let runs = scratch.0.join("runs");
    let latest = runs.join("latest");
    assert_eq!(open(&latest).expect("readable").id, run.id());
    assert_eq!(
        open(&latest.join("record.json")).expect("readable").id,
        run.id()
    );
    let elsewhere = scratch.0.join("elsewhere");
    fs::rename(run.path(), &elsewhere).expect("moved");
    let beyond = format!("{}/.", run.id());
    for to in [
        "../elsewhere",
        elsewhere.to_str().expect("text"),
        ".",
        "..",
        &beyond,
    ] {
        fs::remove_file(&latest).expect("there");
        symlink(to, &latest).expect("planted");
        let error = open(&latest).expect_err(to);
        assert!(
            !matches!(error, StoreError::BadRecord { .. }),
            "{to}: {error}"
        );
    }
    // Nor through a second link.
    symlink(&elsewhere, runs.join("second")).expect("planted");
    fs::remove_file(&latest).expect("there");
    symlink("second", &latest).expect("planted");
    assert!(open(&latest).is_err());
    // The next run takes its place, whatever it led to.
    let next = create_after(&scratch, &run);
    assert_eq!(
        fs::read_link(&latest).expect("a link"),
        Path::new(next.id())
    );
    assert_eq!(open(&elsewhere).expect("untouched").steps.len(), 1);
}

#[test]
fn a_folder_is_ours_or_nothing_is_written_there() {
    let scratch = Scratch::new();
    let folder = Folder::open(&scratch.0).expect("open");
    folder.must_be_ours().expect("ours");
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o777)).expect("ours");
    let error = folder.must_be_ours().expect_err("open to all");
    assert!(matches!(error, StoreError::UnsafePlace { .. }), "{error}");
    if chown(&scratch.0, Some(12_345), None).is_err() {
        wallfinder_skip::skip("only root can give a folder to another user");
        return;
    }
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o700)).expect("root's to say");
    assert!(folder.must_be_ours().is_err());
}
