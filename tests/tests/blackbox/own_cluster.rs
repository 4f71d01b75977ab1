//! A cluster of NATS of one's own, whose operator and account sign a token for each user: agents and controllers need the
//! permissions that SECURITY.md lists and no others, and the authority that vouches for its servers is trusted as the
//! system's are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use async_nats::ConnectOptions;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::StreamExt;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use wallfinder_hub::Here;
use wallfinder_protocol::{Grant, VERSION};
use wallfinder_tests::{
    Ran, Running, assert_balanced, binary, free_port, own_ip, skip, subjects, together, until,
};

use crate::hub::Hub;
use crate::hub_away::{Counting, NO_WAY_OUT};

/// Longer than any command here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// What somebody may publish, and what they may read.
type Permissions = [Vec<String>; 2];

/// What SECURITY.md says that an agent of this name needs.
fn of_agent(name: &str) -> Permissions {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../SECURITY.md");
    let text = fs::read_to_string(page).expect("it is in the tree");
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let begins = "A cluster of your own is as good as its permissions:";
    let (_, said) = text.split_once(begins).expect("its permissions");
    let (publishes, more) = said.split_once(" to publish,").expect("what to publish");
    let (reads, _) = more.split_once(" to read").expect("what to read");
    let subjects = |text: &str| -> Vec<String> {
        let quoted = text.split('`').skip(1).step_by(2);
        quoted.map(|one| one.replace("NAME", name)).collect()
    };
    let (mut publishes, reads) = (subjects(publishes), subjects(reads));
    assert_eq!((publishes.len(), reads.len()), (2, 2), "{said}");
    // The second is written by its end alone.
    publishes[1] = publishes[0].replace(".say.*", &publishes[1]);
    [publishes, reads]
}

/// A controller publishes what agents read, and reads what they publish.
fn of_controller() -> Permissions {
    let [publishes, reads] = of_agent("*");
    [reads, publishes]
}

/// A token of NATS that says what `key` may, signed by who vouches for it.
fn token(kind: &str, key: &KeyPair, by: &KeyPair, mut may: Value) -> String {
    may["type"] = json!(kind);
    may["version"] = json!(2);
    let claims = json!({
        "jti": format!("of {kind}"),
        "iat": 1,
        "iss": by.public_key(),
        "sub": key.public_key(),
        "name": kind,
        "nats": may,
    });
    let head = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&head), part(&claims));
    let signature = by.sign(signed.as_bytes()).expect("it has its seed");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Two nats-servers that know each other, and nobody but whom one account vouches for.
struct Cluster {
    _members: [Running; 2],
    /// Each by its address.
    servers: [String; 2],
    account: KeyPair,
    /// A folder, and an authority that this machine does not know.
    hub: Hub,
}

impl Cluster {
    /// Says what is missing where it cannot be.
    fn up(ip: &str) -> Option<Cluster> {
        let mut hub = Hub::up(ip, &["none"], "observe")?;
        let program = subjects()?.join("nats-server");
        // Its authority, and what that vouches for, are all that is needed of it.
        hub.kill();
        let text = fs::read_to_string(Path::new(&hub.dir()).join("nats.json"));
        let mut common: Value = serde_json::from_str(&text.expect("settings")).expect("settings");
        let known = common.as_object_mut().expect("settings");
        known.remove("authorization").expect("users of a hub");
        let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
        let limits = json!({ "limits": {
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
            "wildcards": true, "conn": -1, "leaf": -1,
        }});
        let of_account = token("account", &account, &operator, limits);
        common["operator"] = json!(token("operator", &operator, &operator, json!({})));
        common["resolver"] = json!("MEMORY");
        common["resolver_preload"][account.public_key()] = json!(of_account);
        let (routes, ports) = ([0; 2].map(|_| free_port()), [0; 2].map(|_| free_port()));
        let members = [0, 1].map(|nth| {
            let mut settings = common.clone();
            settings["server_name"] = json!(format!("own-{nth}"));
            settings["listen"] = json!(format!("{ip}:{}", ports[nth]));
            settings["cluster"] = json!({
                "name": "own",
                "listen": format!("127.0.0.1:{}", routes[nth]),
                "routes": routes.map(|port| format!("nats://127.0.0.1:{port}")),
            });
            let name = format!("own-{nth}.json");
            let path = hub.place.file(&name, settings.to_string());
            let mut command = Command::new(&program);
            command.arg("-c").arg(path);
            hub.place.start_command(command)
        });
        Some(Cluster {
            _members: members,
            servers: ports.map(|port| format!("{ip}:{port}")),
            account,
            hub,
        })
    }

    /// All servers of it, as they are given to a command.
    fn all(&self) -> String {
        format!("nats://{}", self.servers.join(","))
    }

    fn authority(&self) -> PathBuf {
        Path::new(&self.hub.dir()).join("authority.pem")
    }

    /// The file that `nsc` would write for a user with these permissions.
    fn credentials(&self, name: &str, [publish, subscribe]: Permissions) -> String {
        let key = KeyPair::new_user();
        let may = json!({
            "pub": { "allow": publish },
            "sub": { "allow": subscribe },
            "subs": -1, "data": -1, "payload": -1,
        });
        let token = token("user", &key, &self.account, may);
        let seed = key.seed().expect("it has one");
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        let path = self.hub.place.file(&format!("{name}.creds"), text);
        let own = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, own).expect("a file of ours");
        path.display().to_string()
    }

    /// Starts the tool where the authority of this cluster is one of the system's.
    fn start(&self, words: &[&str]) -> Running {
        let mut command = Command::new(binary());
        command.args(words).env("SSL_CERT_FILE", self.authority());
        self.hub.place.start_command(command)
    }

    /// An agent of this host, known by a token of these permissions.
    fn agent(&self, name: &str, may: Permissions) -> Running {
        let (creds, servers) = (self.credentials(name, may), self.all());
        let results = self.hub.results().display().to_string();
        let agent = self.start(&[
            "agent",
            "--join",
            &creds,
            "--nats",
            &servers,
            "--name",
            name,
            "--results",
            &results,
        ]);
        until("agent", || agent.err().contains("joined"));
        agent
    }
}

/// The controller's end.
struct Controller<'c> {
    cluster: &'c Cluster,
    at: [String; 4],
}

impl Controller<'_> {
    /// One that dials the last of the servers alone, wherever agents are.
    fn of(cluster: &Cluster) -> Controller<'_> {
        let creds = cluster.credentials("controller", of_controller());
        let last = format!("nats://{}", cluster.servers[1]);
        Controller {
            cluster,
            at: ["--nats".to_owned(), last, "--creds".to_owned(), creds],
        }
    }

    fn words<'w>(&'w self, words: &[&'w str]) -> Vec<&'w str> {
        let at = self.at.iter().map(String::as_str);
        words.iter().copied().chain(at).collect()
    }

    fn run(&self, words: &[&str]) -> Ran {
        self.cluster.start(&self.words(words)).wait(LIMIT)
    }

    /// Who is there, once somebody of this name is.
    fn once_there(&self, name: &str) -> String {
        let begins = format!("{name}  ");
        let mut said = String::new();
        until(name, || {
            said = self.run(&["hosts"]).out;
            said.lines().any(|line| line.starts_with(&begins))
        });
        said
    }
}

#[test]
fn a_cluster_of_ones_own_carries_a_load_by_the_permissions_that_are_documented_and_nobody_without_them()
 {
    let _turn = together();
    let Some(own) = own_ip() else {
        return skip(NO_WAY_OUT);
    };
    let ip = own.to_string();
    let Some(cluster) = Cluster::up(&ip) else {
        return;
    };
    let _one = cluster.agent("c1", of_agent("c1"));
    // It may speak as another than it is called.
    let two = cluster.agent("c2", of_agent("c3"));
    let controller = Controller::of(&cluster);
    let there = controller.once_there("c1");
    assert!(!there.contains("c2  "), "{there}");
    let ran = controller.run(&["hosts", "c2"]).ends_with(1);
    let told = "c2: it is not at the hub; there are c1";
    assert!(ran.out.contains(told), "{}", ran.said());
    until("why", || {
        two.err().to_lowercase().contains("permissions violation")
    });
    let server = Counting::start(own);
    let url = server.url();
    let ran = controller.run(&[
        "run",
        &url,
        "-c",
        "2",
        "-n",
        "50",
        "-q",
        "--no-calibrate",
        "--client-host",
        "c*",
        "--i-may-load",
        &ip,
    ]);
    let ran = ran.ends_with(0);
    let step = cluster.hub.place.step();
    assert_balanced(&step);
    assert_eq!(step["counts"]["answered"], 50, "{}", ran.said());
    assert_eq!(server.answered(), 50);
    // Nothing is said to servers that nobody whom this machine trusts vouches for.
    let words = controller.words(&["hosts"]);
    let ran = cluster.hub.place.run(&words).ends_with(1);
    assert!(ran.err.contains("is not reached"), "{}", ran.said());
}

/// An agent that answers who asks who is there. It ends when this is dropped.
struct Answering(Option<oneshot::Sender<()>>, Option<thread::JoinHandle<()>>);

impl Answering {
    fn start(cluster: &Cluster, here: Here) -> Answering {
        let creds = cluster.credentials(&here.name, of_agent(&here.name));
        let creds = fs::read_to_string(creds).expect("a file of ours");
        let options = ConnectOptions::with_credentials(&creds).expect("credentials");
        let options = options.add_root_certificates(cluster.authority());
        let servers = cluster.servers.each_ref();
        let servers = servers.map(|server| format!("tls://{server}")).to_vec();
        let (stop, stopped) = oneshot::channel();
        let answers = async move {
            let client = options.connect(servers).await.expect("it is known");
            let mut asked = client.subscribe("wallfinder.all").await.expect("it may");
            while let Some(question) = asked.next().await {
                let question: Value = serde_json::from_slice(&question.payload).expect("JSON");
                let number = question["number"].as_u64().expect("a number");
                let said = serde_json::to_vec(&Here {
                    number,
                    ..here.clone()
                });
                let to = format!("wallfinder.agent.{}.here", here.name);
                let said = said.expect("JSON").into();
                client.publish(to, said).await.expect("it may");
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = answers => {}
                    _ = stopped => {}
                }
            });
        });
        Answering(Some(stop), Some(thread))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        drop(self.0.take());
        let _ = self.1.take().map(thread::JoinHandle::join);
    }
}

#[test]
fn an_agent_of_another_protocol_is_shown_with_the_way_out() {
    let _turn = together();
    let Some(cluster) = Cluster::up("127.0.0.1") else {
        return;
    };
    let _same = cluster.agent("c1", of_agent("c1"));
    let controller = Controller::of(&cluster);
    controller.once_there("c1");
    let here = Here {
        number: 0,
        name: "c2".to_owned(),
        instance: 7,
        host: "h2".to_owned(),
        kernel: "6.8".to_owned(),
        cpus: 2,
        version: "9.9.9".to_owned(),
        protocol: VERSION + 1,
        grants: vec![Grant::Observe],
        is_root: true,
        sessions: 0,
        monotonic_ns: 1,
    };
    let _other = Answering::start(&cluster, here);
    let there = controller.once_there("c2");
    let way_out = format!(
        "it speaks protocol {}, this is {VERSION}: install the same version on both",
        VERSION + 1
    );
    let (one, two) = there.split_once("c2  ").expect("both");
    assert!(
        two.contains("Wallfinder 9.9.9") && two.contains(&way_out),
        "{there}"
    );
    assert!(
        one.starts_with("c1  ") && !one.contains("protocol"),
        "{there}"
    );
}
