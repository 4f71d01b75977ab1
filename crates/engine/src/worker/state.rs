//! What a worker consists of. What it does stands in the files beside this one, by idea.

use std::sync::Arc;

use wallfinder_model::drive::LeverSetting;
use wallfinder_sys::io::Io;
use wallfinder_wire::Wire;

use super::admission::Admission;
use super::connection::Connection;
use super::dialling::Dialling;
use super::end::WorkerEnd;
use super::ledger::Ledger;
use super::line::Line;
use crate::batching::Batching;
use crate::mix::Script;
use crate::plan::WorkerPlan;
use crate::reach::Reach;
use crate::samples::SampleSender;
use crate::signals::Signals;
use crate::slowdown::Slowdown;
use crate::swap_buffer::SwapBuffer;

/// Sockets whose state is asked of the kernel at the end.
pub(super) const SOCKETS_LOOKED_AT: usize = 64;

/// A worker, from its first connection to its end.
pub(crate) struct Worker<W: Wire, I: Io> {
    pub(super) plan: WorkerPlan,
    pub(super) signals: Arc<Signals>,
    pub(super) io: I,
    pub(super) shared: W::Shared,
    pub(super) connections: Vec<Connection<W>>,
    pub(super) ledger: Ledger,
    pub(super) admission: Admission,
    pub(super) dialling: Dialling,
    pub(super) reach: Reach,
    /// Which request of a mix comes next.
    pub(super) script: Option<Script>,
    /// Whether taking an answer may allocate.
    pub(super) allocates: bool,
    /// Connections that may have something to send.
    pub(super) dirty: Line,
    pub(super) batching: Batching,
    /// Sends that end in an event which nothing waits for.
    pub(super) unawaited: u32,
    /// The peer has ended a connection behind an answer.
    pub(super) peer_ends: bool,
    /// Connections that were tried once.
    pub(super) tried: u32,
    /// The schedule's zero, by the monotonic clock; 0: not chosen yet.
    pub(super) zero_ns: u64,
    pub(super) publishing: Publishing,
    pub(super) following: Following,
    pub(super) end: WorkerEnd,
}

/// Where reports go, and how things stood at the last one.
pub(super) struct Publishing {
    pub(super) reports: SwapBuffer,
    pub(super) at_ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) polled_ns: u64,
}

/// The levers as they were followed last.
pub(super) struct Following {
    pub(super) version: u32,
    pub(super) setting: LeverSetting,
    pub(super) slowdown: Option<Slowdown>,
    /// Of what is known to all users; 0: what the wire began with.
    pub(super) known: u32,
}

impl<W: Wire, I: Io> Worker<W, I> {
    /// A worker with everything it needs reserved.
    pub(crate) fn new(
        plan: WorkerPlan,
        signals: Arc<Signals>,
        reports: SwapBuffer,
        io: I,
        shared: W::Shared,
        samples: Option<SampleSender>,
    ) -> Worker<W, I> {
        let load = &plan.load;
        let depth = load.in_flight_per_connection;
        let seed = plan.seed ^ u64::from(plan.share.nth);
        let mix = plan.mix.as_ref();
        let admission = Admission::new(&plan);
        let granted = match admission.is_open() {
            true => 0,
            false => depth as usize,
        };
        // Spare connections are opened when a lever first asks for them.
        let opened = plan.connections - plan.spare;
        let connections = (0..plan.connections)
            .map(|conn| Connection::new(W::open(&shared), granted, conn >= opened))
            .collect();
        if let Some(looked) = W::looked(&shared) {
            looked.by(I::CLOCK);
        }
        let mut end = WorkerEnd::default();
        end.sockets.reserve_exact(SOCKETS_LOOKED_AT);
        Worker {
            allocates: W::may_allocate(&shared),
            io,
            shared,
            connections,
            ledger: Ledger::new(
                (plan.connections, depth),
                admission.room.in_flight_max,
                load.timeout.0,
                mix.map(|mix| &**mix),
                samples,
            ),
            script: mix.map(|mix| Script::new(mix, plan.turns.clone(), plan.connections, seed)),
            admission,
            dialling: Dialling::new(plan.connections, opened, seed),
            reach: Reach::new(),
            dirty: Line::new(plan.connections as usize),
            batching: Batching::NONE,
            unawaited: 0,
            peer_ends: false,
            tried: plan.spare,
            zero_ns: 0,
            publishing: Publishing {
                reports,
                at_ns: 0,
                cpu_ns: 0,
                polled_ns: 0,
            },
            following: Following {
                version: 0,
                setting: LeverSetting::FREE,
                slowdown: None,
                known: 0,
            },
            end,
            plan,
            signals,
        }
    }

    #[inline]
    pub(super) fn connection(&mut self, conn: u32) -> &mut Connection<W> {
        &mut self.connections[conn as usize]
    }

    /// A connection may have something to send, or room for more.
    #[inline]
    pub(super) fn offer(&mut self, conn: u32) {
        if self.admission.is_open() && self.is_free(conn) {
            self.admission.line_up(conn, self.ledger.changed_ns());
        }
        self.dirty.join(conn);
    }
}
