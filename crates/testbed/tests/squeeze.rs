//! Quotas, pauses and levers on processes that spin, and what is left of them after a kill.

mod helper;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helper::steps::{Steps, no_privilege, things_of};
use helper::{one_of_three, shim, wait_until};
use wallfinder_model::experiment::Squeeze;
use wallfinder_sys::process::allowed_cpus;
use wallfinder_testbed::Lever;
use wallfinder_testbed::group::{Control, Group};
use wallfinder_testbed::pauses::Pauses;
use wallfinder_testbed::squeeze::{Capacity, FewerCpus, Scene, Side, Speed, reach};
use wallfinder_testbed::undo::{Remain, clean, remains};

/// A shell that spins on one processor, with a child that waits.
struct Spinner {
    child: Child,
}

impl Spinner {
    fn on(cpu: u32) -> Spinner {
        let mut command = Command::new("taskset");
        let script = "sleep 300 & while :; do :; done";
        let child = command
            .args([
                "-c",
                &cpu.to_string(),
                "nice",
                "-n",
                "-20",
                "sh",
                "-c",
                script,
            ])
            .process_group(0)
            .spawn()
            .expect("taskset");
        let spinner = Spinner { child };
        // It is the shell, and no longer what begins it, once it has its child.
        wait_until("it spins", || {
            spinner.cpu() > Duration::from_millis(10) && children_of(spinner.pid()).len() == 1
        });
        spinner
    }

    /// One that only waits.
    fn waiting_on(cpu: u32) -> Spinner {
        let mut command = Command::new("taskset");
        let command = command.args(["-c", &cpu.to_string(), "sleep", "300"]);
        let child = command.process_group(0).spawn().expect("taskset");
        let spinner = Spinner { child };
        wait_until("it waits", || {
            cpus_of_family(spinner.pid()) == [cpu.to_string()]
        });
        spinner
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time so far, exact.
    fn cpu(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid()));
        let text = text.unwrap_or_default();
        let ns = text.split(' ').next().and_then(|word| word.parse().ok());
        Duration::from_nanos(ns.unwrap_or(0))
    }

    /// The share of a processor that it used over some time.
    fn share(&self, time: Duration) -> f64 {
        let (from, before) = (Instant::now(), self.cpu());
        std::thread::sleep(time);
        (self.cpu() - before).as_secs_f64() / from.elapsed().as_secs_f64()
    }

    fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()));
        let stat = stat.unwrap_or_default();
        stat[stat.rfind(')').unwrap_or(0)..]
            .chars()
            .nth(2)
            .unwrap_or('?')
    }

    /// The groups that it is in, as the kernel tells them: a line for each hierarchy.
    fn groups(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/cgroup", self.pid())).expect("there")
    }

    /// Its group of this controller, which version 2 does not name.
    fn group(&self, controller: &str) -> String {
        let text = self.groups();
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains(&format!(":{controller}:")));
        line.expect(controller)
            .rsplit(':')
            .next()
            .expect("a path")
            .to_owned()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_raw(self.pid() as i32).expect("a pid");
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Version 1 is mounted with both controllers.
fn has_version_1() -> bool {
    let there = ["cpu", "freezer"].map(|name| Path::new("/sys/fs/cgroup").join(name).exists());
    there == [true, true]
}

/// Version 2 hands the controller of processors on.
fn has_version_2() -> bool {
    let handed_on = std::fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control");
    let handed_on = handed_on.unwrap_or_default();
    handed_on.split_whitespace().any(|name| name == "cpu")
}

fn no_version_1() -> bool {
    if !has_version_1() {
        wallfinder_skip::skip("cpu and freezer are not mounted as version 1");
    }
    !has_version_1() || no_privilege()
}

fn no_version_2() -> bool {
    if !has_version_2() {
        wallfinder_skip::skip("no version 2 of control groups that hands cpu on");
    }
    !has_version_2() || no_privilege()
}

/// Neither version has what it takes.
fn no_groups() -> bool {
    if !has_version_1() && !has_version_2() {
        wallfinder_skip::skip("no control groups with quotas and pauses");
    }
    !(has_version_1() || has_version_2()) || no_privilege()
}

fn last_cpu() -> u32 {
    *allowed_cpus().last().expect("a processor")
}

/// Whoever measures has the processors to itself.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const LOOK: Duration = Duration::from_millis(250);

#[test]
fn a_quota_holds_its_processes_and_is_taken_of_what_they_had() {
    if no_version_1() {
        return;
    }
    let _turn = turn();
    let spinner = Spinner::on(last_cpu());
    let home = spinner.group("cpu");
    for outer_cores in [None, Some(0.5)] {
        let outer = PathBuf::from(format!("/sys/fs/cgroup/cpu/wfx-{}", std::process::id()));
        if let Some(cores) = outer_cores {
            std::fs::create_dir(&outer).unwrap();
            let quota_us = (cores * 20_000.0).to_string();
            std::fs::write(outer.join("cpu.cfs_period_us"), "20000").unwrap();
            std::fs::write(outer.join("cpu.cfs_quota_us"), quota_us).unwrap();
            std::fs::write(outer.join("cgroup.procs"), spinner.pid().to_string()).unwrap();
        }
        let before = spinner.group("cpu");
        let group = Group::around(&[spinner.pid()], "server", Control::Cpu, &shim()).unwrap();
        assert_eq!(group.members().len(), 2, "with its child");
        assert!(
            spinner
                .group("cpu")
                .starts_with(before.trim_end_matches('/')),
            "below it"
        );
        let mut lever = Capacity::of(Squeeze::ServerCapacity, group, 1, &[spinner.pid()]).unwrap();
        assert_holds(&mut lever, &spinner, outer_cores.unwrap_or(1.0));
        drop(lever);
        assert_eq!(spinner.group("cpu"), before, "it is back where it was");
        if outer_cores.is_some() {
            let root = "/sys/fs/cgroup/cpu/cgroup.procs";
            for pid in std::fs::read_to_string(outer.join("cgroup.procs"))
                .unwrap()
                .lines()
            {
                std::fs::write(root, pid).unwrap();
            }
            std::fs::remove_dir(&outer).unwrap();
        }
    }
    assert_eq!(spinner.group("cpu"), home);
}

/// A spinner has what a lever leaves of so many cores.
fn assert_holds(lever: &mut Capacity, spinner: &Spinner, available: f64) {
    assert_eq!(lever.available_cores(), available);
    for retained in [1.0, 0.8, 0.5] {
        lever.set(retained).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        one_of_three(|| {
            lever.begin_window();
            let share = spinner.share(LOOK);
            let check = lever.end_window();
            println!("{retained} of {available}: used {share:.3}, {check:?}");
            assert_eq!(check.in_force, Some(true), "{check:?}");
            assert!((check.retained.unwrap() - retained).abs() < 0.01);
            (share / available - retained).abs() < 0.1
        });
    }
    assert!(lever.set(0.01).is_err() && lever.set(1.5).is_err());
}

/// A group of version 2 at the top, of a test's own.
struct OwnGroup(PathBuf);

impl OwnGroup {
    fn holding(spinner: &Spinner) -> OwnGroup {
        let folder = PathBuf::from(format!("/sys/fs/cgroup/wfx-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let own = OwnGroup(folder);
        for pid in [vec![spinner.pid()], children_of(spinner.pid())].concat() {
            own.write("cgroup.procs", &pid.to_string());
        }
        own
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap();
    }

    fn quota(&self) -> String {
        let text = std::fs::read_to_string(self.0.join("cpu.max")).unwrap();
        text.trim().to_owned()
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        let inside = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines() {
            let _ = std::fs::write("/sys/fs/cgroup/cgroup.procs", pid);
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn in_version_2_a_group_of_its_own_is_squeezed_where_it_is() {
    if no_version_2() {
        return;
    }
    let _turn = turn();
    let spinner = Spinner::on(last_cpu());
    let own = OwnGroup::holding(&spinner);
    let home = spinner.groups();
    for (quota, available) in [("max 100000", 1.0), ("50000 100000", 0.5)] {
        own.write("cpu.max", quota);
        let group = Group::around(&[spinner.pid()], "server", Control::Cpu, &shim()).unwrap();
        assert_eq!(group.folder(), own.0, "nobody is moved");
        assert_eq!(group.members().len(), 2, "with its child");
        let mut lever = Capacity::of(Squeeze::ServerCapacity, group, 1, &[spinner.pid()]).unwrap();
        assert_holds(&mut lever, &spinner, available);
        drop(lever);
        assert_eq!(own.quota(), quota, "as it was");
        assert_eq!(spinner.groups(), home);
    }
}

#[test]
fn in_version_2_who_shares_a_group_is_squeezed_beside_it() {
    if no_version_2() {
        return;
    }
    let _turn = turn();
    // In the group of this test, which others are in as well.
    let spinner = Spinner::on(last_cpu());
    let home = spinner.groups();
    let group = Group::around(&[spinner.pid()], "server", Control::Cpu, &shim()).unwrap();
    assert_eq!(group.members().len(), 2, "with its child");
    assert_ne!(spinner.groups(), home);
    let mut lever = Capacity::of(Squeeze::ServerCapacity, group, 1, &[spinner.pid()]).unwrap();
    assert_holds(&mut lever, &spinner, 1.0);
    drop(lever);
    assert_eq!(spinner.groups(), home, "it is back where it was");
}

#[test]
fn pauses_take_their_share_and_whatever_was_stopped_goes_on() {
    if no_groups() {
        return;
    }
    let _turn = turn();
    let spinner = Spinner::on(last_cpu());
    let home = spinner.groups();
    let pids = [spinner.pid()];
    for by_signals in [false, true] {
        let pauses = if by_signals {
            Pauses::by_signals(&pids, 7, &shim()).unwrap()
        } else {
            Pauses::of(&pids, "server", 7, &shim()).unwrap()
        };
        let mut lever = Speed::by_pauses(Squeeze::ServerSpeed, pauses, "server");
        one_of_three(|| {
            // Beside a spell in which somebody else has a part of the processor, too.
            lever.set(1.0).unwrap();
            let alone = spinner.share(LOOK);
            lever.set(0.8).unwrap();
            lever.begin_window();
            let share = spinner.share(2 * LOOK) / alone;
            let check = lever.end_window();
            println!("{}: {share:.3} of its time, {check:?}", lever.how());
            assert!((check.retained.unwrap() - 0.8).abs() < 0.03, "{check:?}");
            // Each of a hundred pauses in a second takes some time to end.
            (0.7..0.86).contains(&share)
        });
        assert!(lever.set(0.7).is_err(), "they reach no further");
        drop(lever);
        assert_eq!(spinner.state(), 'R');
        assert_eq!(spinner.groups(), home);
    }
    assert!(Pauses::of(&[std::process::id()], "client", 7, &shim()).is_err());
}

/// Where a process and its children may run, as the kernel says.
fn cpus_of_family(pid: u32) -> Vec<String> {
    let mut all = children_of(pid);
    all.insert(0, pid);
    let line = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mut lines = status.lines();
        let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(list.trim().to_owned())
    };
    all.into_iter().filter_map(line).collect()
}

/// A shell on two processors with a child that is pinned to the second, and one more child
/// each time it is sent SIGUSR1.
fn on_two(cpus: &str, second: u32) -> Spinner {
    let script =
        format!("trap 'sleep 300 &' USR1; taskset -c {second} sleep 300 & while :; do :; done");
    let child = Command::new("taskset")
        .args(["-c", cpus, "sh", "-c", &script])
        .process_group(0)
        .spawn()
        .expect("taskset");
    let spinner = Spinner { child };
    wait_until("it spins, beside its child", || {
        spinner.cpu() > Duration::from_millis(10) && cpus_of_family(spinner.pid()).len() == 2
    });
    spinner
}

#[test]
fn one_processor_less_is_taken_of_every_thread_and_given_back() {
    let cpus = allowed_cpus();
    let [first, second, ..] = cpus[..] else {
        wallfinder_skip::skip("there is one processor");
        return;
    };
    let _turn = turn();
    let both = format!("{first},{second}");
    let spinner = on_two(&both, second);
    let pid = spinner.pid();
    wait_until("its child is pinned", || {
        cpus_of_family(pid)
            .last()
            .is_some_and(|own| *own == second.to_string())
    });
    let before = cpus_of_family(pid);
    let cpus = [first, second];
    let mut lever = FewerCpus::of(Squeeze::ServerCapacity, &[pid], &cpus, &shim()).unwrap();
    assert_eq!(cpus_of_family(pid), before, "the sham takes nothing");
    lever.set(0.8).unwrap();
    lever.begin_window();
    let usr1 = rustix::process::Signal::USR1;
    let raw = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
    rustix::process::kill_process(raw, usr1).expect("sent");
    wait_until("a child is born", || cpus_of_family(pid).len() == 3);
    assert!(
        cpus_of_family(pid)
            .iter()
            .all(|own| *own == first.to_string())
    );
    let check = lever.end_window();
    println!("{}: {check:?}", lever.how());
    assert_eq!((check.retained, check.in_force), (Some(0.5), Some(true)));
    lever.set(1.0).unwrap();
    let after = cpus_of_family(pid);
    assert_eq!(after[..2], before[..]);
    assert_eq!(
        after[2], before[0],
        "who was born meanwhile has what the side had"
    );
    assert_eq!(lever.end_window().retained, Some(1.0));
    let own = [std::process::id()];
    assert!(FewerCpus::of(Squeeze::ClientCapacity, &own, &cpus, &shim()).is_err());
    assert!(FewerCpus::of(Squeeze::ServerCapacity, &[pid], &[first], &shim()).is_err());
    drop(lever);

    let mut helper = Steps::begin(&[&format!("fewer={pid}:{both}")]);
    helper.next();
    wait_until("it is narrowed", || cpus_of_family(pid) != after);
    helper.kill();
    wait_until("it has its processors again", || {
        cpus_of_family(pid) == after
    });
    wait_until("no journal is left", || things_of(helper.pid()).is_empty());
}

/// A server that is started anew, and a driver's runs.
#[test]
fn levers_follow_their_side_to_its_next_processes() {
    if no_groups() {
        return;
    }
    let _turn = turn();
    let cpu = last_cpu();
    let first = Spinner::on(cpu);
    let group = Group::for_children("client", Control::Cpu, &shim()).unwrap();
    let capacity = Capacity::of(Squeeze::ClientCapacity, group, 1, &[]).unwrap();
    let by_freezer = Pauses::for_later("client", 7, &shim()).unwrap();
    let by_signals = Pauses::by_signals(&[first.pid()], 7, &shim()).unwrap();
    let mut levers: Vec<Box<dyn Lever>> = vec![
        Box::new(capacity),
        Box::new(Speed::by_pauses(Squeeze::ClientSpeed, by_freezer, "client")),
        Box::new(Speed::by_pauses(Squeeze::ServerSpeed, by_signals, "server")),
    ];
    drop(first);
    for lever in &mut levers {
        for _ in 0..2 {
            let next = Spinner::on(cpu);
            lever.follow(&[next.pid()]).unwrap();
            // A busy machine spoils a window now and then, and the check says so; a lever that
            // does not follow spoils all of them.
            let bites = (0..4).any(|_| {
                lever.set(1.0).unwrap();
                let alone = next.share(LOOK);
                lever.set(0.8).unwrap();
                std::thread::sleep(Duration::from_millis(50));
                lever.begin_window();
                let share = next.share(2 * LOOK) / alone;
                let check = lever.end_window();
                println!("{}: {share:.3}, {check:?}", lever.how());
                (share - 0.8).abs() < 0.08 && check.in_force == Some(true)
            });
            assert!(bites, "{}", lever.how());
            lever.set(1.0).unwrap();
        }
    }
}

#[test]
fn every_lever_is_put_up_for_sides_that_are_apart() {
    if no_groups() || allowed_cpus().len() < 2 {
        return;
    }
    let _turn = turn();
    let cpus = allowed_cpus();
    let (server, client) = (Spinner::on(cpus[0]), Spinner::on(cpus[1]));
    // Behind the server, whose processor it may use: it is paused.
    let backend = Spinner::waiting_on(cpus[0]);
    let homes = [server.groups(), client.groups(), backend.groups()];
    let side = |spinner: &Spinner| Side {
        pids: vec![spinner.pid()],
        ..Side::default()
    };
    let scene = |backend| Scene {
        server: side(&server),
        client: side(&client),
        backend,
        backend_cores: None,
        downlink: None,
        uplink: None,
        seed: 7,
        shim: shim(),
    };
    let mut put_up = reach(scene(Some(side(&backend))));
    let squeezes: Vec<Squeeze> = put_up.levers.iter().map(|lever| lever.squeeze()).collect();
    let expected = [
        Squeeze::ServerSpeed,
        Squeeze::ClientSpeed,
        Squeeze::BackendSpeed,
        Squeeze::ServerCapacity,
        Squeeze::ClientCapacity,
    ];
    assert_eq!(squeezes, expected, "{:?}", put_up.out_of_reach);
    assert_eq!(put_up.out_of_reach.len(), 2, "there is no link");
    for lever in &mut put_up.levers {
        for retained in [0.8, 1.0] {
            lever.set(retained).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            lever.begin_window();
            std::thread::sleep(Duration::from_millis(300));
            let check = lever.end_window();
            println!("{} {retained}: {check:?}", lever.how());
            assert!(
                (check.retained.unwrap() - retained).abs() < 0.02,
                "{check:?}"
            );
            assert_eq!(check.in_force, Some(true), "{check:?}");
        }
    }
    drop(put_up);
    assert_eq!([server.groups(), client.groups(), backend.groups()], homes);
}

/// A database in a container with a quota, behind a server on another machine.
#[test]
fn the_quota_of_a_backend_is_squeezed_where_it_has_one() {
    if no_groups() || allowed_cpus().len() < 2 {
        return;
    }
    let _turn = turn();
    let cpus = allowed_cpus();
    let (client, backend) = (Spinner::on(cpus[1]), Spinner::on(cpus[0]));
    let side = |spinner: &Spinner| Side {
        pids: vec![spinner.pid()],
        ..Side::default()
    };
    let put_up = || {
        reach(Scene {
            server: Side {
                elsewhere: true,
                ..Side::default()
            },
            client: side(&client),
            backend: Some(side(&backend)),
            backend_cores: Some(0.5),
            downlink: None,
            uplink: None,
            seed: 7,
            shim: shim(),
        })
    };
    let without = put_up();
    let mut out = without.out_of_reach.iter();
    let out = out.find(|out| out.squeeze == Squeeze::BackendCapacity);
    assert!(
        out.is_some_and(|out| out.why.contains("no quota")),
        "{out:?}"
    );
    drop(without);

    let mut quota = Steps::begin(&[&format!("quota={}:0.5", backend.pid())]);
    quota.next();
    let home = backend.groups();
    let mut within = put_up();
    let lever = within
        .levers
        .iter_mut()
        .find(|lever| lever.squeeze() == Squeeze::BackendCapacity)
        .unwrap_or_else(|| panic!("{:?}", within.out_of_reach));
    lever.set(0.8).expect("a smaller quota");
    lever.begin_window();
    let (before, since) = (backend.cpu(), std::time::Instant::now());
    std::thread::sleep(Duration::from_millis(600));
    let cores = (backend.cpu() - before).as_secs_f64() / since.elapsed().as_secs_f64();
    let check = lever.end_window();
    assert_eq!(check.in_force, Some(true), "{check:?}");
    assert!((cores - 0.4).abs() < 0.06, "{cores} cores: {check:?}");
    drop(within);
    assert_eq!(backend.groups(), home);
}

#[test]
fn a_process_killed_with_a_squeeze_in_force_leaves_nothing() {
    if no_groups() {
        return;
    }
    let _turn = turn();
    let spinner = Spinner::on(last_cpu());
    let pid = spinner.pid();
    let steps = [
        format!("quota={pid}:0.5"),
        format!("cpu-stealer={}", last_cpu()),
        format!("frozen={pid}"),
        format!("paused={pid}"),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let home = spinner.groups();
    let is_free = || spinner.groups() == home && spinner.state() == 'R';
    for killed_after in 1..=steps.len() {
        let mut helper = Steps::begin(&steps);
        for _ in 0..killed_after {
            helper.next();
        }
        let below = children_of(helper.pid());
        assert!(!below.is_empty(), "the keeper at least");
        helper.kill();
        wait_until("all is undone", || {
            things_of(helper.pid()).is_empty() && is_free()
        });
        wait_until("its helpers are gone", || {
            !below.iter().any(|pid| helper::is_running(*pid))
        });
    }
    for nth in 0..8 {
        let mut helper = Steps::begin(&steps);
        for _ in &steps {
            helper.go();
        }
        std::thread::sleep(Duration::from_millis(7 * nth));
        helper.kill();
        wait_until("all is undone", || {
            things_of(helper.pid()).is_empty() && is_free()
        });
    }
    let mut helper = Steps::begin(&steps);
    for _ in &steps {
        helper.next();
    }
    let pid = helper.pid();
    helper.end();
    assert!(things_of(pid).is_empty() && is_free());
}

#[test]
fn what_a_killed_keeper_could_not_undo_is_found_and_removed() {
    if no_groups() {
        return;
    }
    let _turn = turn();
    let spinner = Spinner::on(last_cpu());
    let home = spinner.groups();
    let pid = spinner.pid();
    let steps = [
        "lab=50mbit".to_owned(),
        format!("quota={pid}:0.5"),
        format!("cpu-stealer={}", last_cpu()),
        format!("frozen={pid}"),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let mut helper = Steps::begin(&steps);
    for _ in &steps {
        helper.next();
    }
    let below = children_of(helper.pid());
    let is_keeper = |pid: &&u32| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        words.is_ok_and(|words| words.contains("--keep"))
    };
    let keeper = below.iter().find(is_keeper).expect("a keeper");
    let tag = format!("wf-{}-", helper.pid());
    let of_it = || -> Vec<Remain> {
        let mut all = remains().remains;
        all.retain(|remain| remain.what.contains(&tag));
        all
    };
    assert!(of_it().is_empty(), "it lives");
    let keeper = rustix::process::Pid::from_raw(*keeper as i32).expect("a pid");
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).expect("killed");
    helper.kill();
    wait_until("its helpers are gone", || {
        !below.iter().any(|pid| helper::is_running(*pid))
    });
    let left = of_it();
    println!("{left:?}");
    assert_eq!(
        left.len(),
        5,
        "two namespaces, two groups, one of them frozen"
    );
    assert!(spinner.groups().contains(&tag), "it is held still");
    let cleaned = clean(&left);
    assert_eq!(cleaned.failed, Vec::<String>::new());
    assert_eq!(things_of(helper.pid()), Vec::<String>::new());
    assert_eq!(spinner.groups(), home);
    assert_eq!(spinner.state(), 'R');
}

/// As where both are killed in the middle of a pause.
#[test]
fn a_process_that_nobody_is_left_to_let_go_on_is_let_go_on_by_cleaning() {
    if no_groups() {
        return;
    }
    let _turn = turn();
    let (spinner, bystander) = (Spinner::on(last_cpu()), Spinner::on(last_cpu()));
    let step = format!("paused={}", spinner.pid());
    let mut helper = Steps::begin(&[step.as_str()]);
    helper.next();
    for child in children_of(helper.pid()) {
        let child = rustix::process::Pid::from_raw(child as i32).expect("a pid");
        rustix::process::kill_process(child, rustix::process::Signal::KILL).expect("killed");
    }
    helper.kill();
    for stopped in [&spinner, &bystander] {
        let pid = rustix::process::Pid::from_raw(stopped.pid() as i32).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("stopped");
        wait_until("it stands", || stopped.state() == 'T');
    }
    let mut left = remains().remains;
    left.retain(|remain| remain.what.contains("stopped process"));
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(spinner.state(), 'T', "looking does nothing");
    assert_eq!(clean(&left).failed, Vec::<String>::new());
    wait_until("it goes on", || spinner.state() == 'R');
    assert_eq!(bystander.state(), 'T', "somebody else stopped it");
    assert_eq!(things_of(helper.pid()), Vec::<String>::new());
}

fn children_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task");
    let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}
