//! Waiting until a server that is started beside the tool listens, before it is looked for.
//!
//! A server of this machine is seen to listen in `/proc`, so that nothing connects to it before the load
//! does; any other is called once.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wallfinder_probe::{NotSeen, server_of};

use crate::exit::Failed;
use crate::job::Job;

/// How often the target is looked at.
const POLL: Duration = Duration::from_millis(50);
/// How long a target elsewhere may take to answer a call.
const CALL: Duration = Duration::from_secs(1);
/// A wait that is longer is told.
const TOLD_FROM: Duration = Duration::from_millis(500);
/// Who has just begun to listen may start its workers now.
const SETTLE: Duration = Duration::from_millis(200);

/// Finds the target's address, and waits for so long as `--wait` says until somebody listens there.
pub(crate) fn address_of(job: &Job) -> Result<SocketAddr, Failed> {
    let wait = job.scenario.target.wait;
    let patience = Duration::from_nanos(wait.0);
    let began = Instant::now();
    let (mut was_refused, mut told) = (false, false);
    loop {
        // Which of a name's addresses takes connections is known when one does.
        let address = job.url.resolve(None, &job.around.reach)?;
        if patience.is_zero() || !is_refused(address, job) {
            if was_refused {
                sleep(SETTLE);
            }
            return Ok(address);
        }
        was_refused = true;
        let waited = began.elapsed();
        if waited >= patience {
            return Err(Failed::run(format!(
                "nobody listens on {address} (net.refused), after a wait of {} (--wait): is the server \
                 running there?",
                wait
            )));
        }
        if waited >= TOLD_FROM && !told && !job.around.output.quiet {
            told = true;
            eprintln!("waiting until {address} listens, for {wait} at the most");
        }
        sleep(POLL.min(patience - waited));
    }
}

/// Whether nobody listens at an address, beyond doubt.
fn is_refused(address: SocketAddr, job: &Job) -> bool {
    let is_here = match server_of(address) {
        Err(NotSeen::NoListener { .. }) => true,
        Err(NotSeen::Remote { .. }) => false,
        _ => return false,
    };
    // From another namespace than the load's a call would say nothing.
    if job.scenario.client.netns.is_some() {
        return is_here;
    }
    // A rule of the firewall may lead elsewhere: who is called knows.
    let called = TcpStream::connect_timeout(&address, CALL);
    called.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}
