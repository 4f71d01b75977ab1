//! Which request a worker makes next: what begins by its weight, and how sessions go on.
//!
//! ```text
//!   next(connection) ─► the step that its session has come to, or else what begins now
//!   answered ─► Continues, after a pause · Begins: the connection is free for what begins next
//!   failed ──► the same: its session goes on as its step says, or is broken off
//! ```
//!
//! What begins is drawn one ahead, so that it is known whether there is more before a request is taken. Rows that are
//! walked are dealt to the workers in turn, to those of all hosts: of `n` the first has rows 0, n, 2n. What this is not: it sends
//! nothing, reads no clock, and knows no connection but by its number.

use std::sync::Arc;

use fastrand::Rng;
use wallfinder_wire::Redirect;
use wallfinder_wire::mix::{Ask, Flow, Mix, Order, Replay, Step, Think};

use super::counts::{FlowCounts, FlowReport};
use super::drawing::Drawing;
use crate::turns::Turns;

/// What a worker knows of its mix.
#[derive(Debug)]
pub(crate) struct Script {
    mix: Arc<Mix>,
    /// `None`: one flow, or what was logged.
    drawing: Option<Drawing>,
    random: Rng,
    /// By table.
    walks: Vec<Walk>,
    /// Entries of what was logged that have begun.
    replayed: u64,
    /// Which rows and entries are its own.
    turns: Turns,
    /// What begins next; `None`: nothing more.
    upcoming: Option<Begin>,
    /// Which session has a connection, by its number.
    places: Vec<Place>,
    under_way: u32,
    /// By flow.
    openings: Vec<Opening>,
    flows: Vec<FlowCounts>,
}

/// How a flow begins, as its mix has it: by number, so that one look tells all of it.
#[derive(Debug, Clone, Copy)]
struct Opening {
    kind: u16,
    is_session: bool,
    /// The table that it walks.
    walks: Option<u16>,
}

impl Opening {
    fn of(flow: &Flow) -> Opening {
        Opening {
            kind: flow.steps[0].kind,
            is_session: flow.is_session(),
            walks: flow.walks,
        }
    }
}

/// How rows are walked.
#[derive(Debug, Clone, Copy)]
struct Walk {
    /// Rows taken.
    taken: u64,
    /// The first that there is not.
    end: u64,
}

/// What begins.
#[derive(Debug, Clone, Copy)]
struct Begin {
    flow: u16,
    draw: u32,
}

/// A connection's session.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    is_taken: bool,
    flow: u16,
    step: u16,
    draw: u32,
    /// The intended start of its first step.
    began_ns: u64,
}

/// What comes after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Something begins, on any connection.
    Begins,
    /// The next step, on the same connection, after a pause.
    Continues {
        /// So long.
        think_ns: u64,
    },
}

impl Script {
    /// Of a worker with so many connections.
    pub(crate) fn new(
        mix: &Arc<Mix>,
        turns: impl Into<Turns>,
        connections: u32,
        seed: u64,
    ) -> Script {
        let weights: Vec<u32> = mix.flows.iter().map(|flow| flow.weight).collect();
        let walk = |order: Order, rows: usize| Walk {
            taken: 0,
            end: match order {
                Order::Once => rows as u64,
                Order::Random | Order::InOrder => u64::MAX,
            },
        };
        let tables = mix.tables.iter();
        let mut script = Script {
            drawing: Drawing::of(&weights, seed),
            random: Rng::with_seed(seed.rotate_left(17) ^ 0x5eed),
            walks: tables
                .map(|table| walk(table.order, table.rows().len()))
                .collect(),
            replayed: 0,
            turns: turns.into(),
            upcoming: None,
            places: vec![Place::default(); connections as usize],
            under_way: 0,
            openings: mix.flows.iter().map(Opening::of).collect(),
            flows: vec![FlowCounts::default(); mix.flows.len()],
            mix: Arc::clone(mix),
        };
        script.upcoming = script.begin();
        script
    }

    /// Draws what begins next.
    #[inline(always)]
    fn begin(&mut self) -> Option<Begin> {
        if self.mix.replay.is_some() {
            return self.begin_logged();
        }
        let flow = self.drawing.as_mut().map_or(0, Drawing::next);
        let draw = match self.openings[usize::from(flow)].walks {
            None => self.random.u32(..),
            Some(table) => self.walk(table)?,
        };
        Some(Begin { flow, draw })
    }

    /// The next entry of what was logged.
    fn begin_logged(&mut self) -> Option<Begin> {
        let replay = self.mix.replay.as_ref()?;
        let entries = replay.flows.len() as u64;
        let nth = self.turns.number(self.replayed);
        let is_over = replay.again_after_ns.is_none() && nth >= entries;
        let at = nth.checked_rem(entries).filter(|_| !is_over)?;
        self.replayed += 1;
        Some(Begin {
            flow: replay.flows[at as usize],
            draw: at as u32,
        })
    }

    /// The next row of a table.
    fn walk(&mut self, table: u16) -> Option<u32> {
        let walk = &mut self.walks[usize::from(table)];
        let row = self.turns.number(walk.taken);
        if row >= walk.end {
            return None;
        }
        walk.taken += 1;
        Some(row as u32)
    }

    /// Whether a connection has a request to make: one of its session, or one that begins.
    #[inline]
    pub(crate) fn has_next(&self, conn: u32) -> bool {
        self.upcoming.is_some() || self.places[conn as usize].is_taken
    }

    /// Whether nothing more begins: rows that are used once are used up.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.upcoming.is_none()
    }

    /// Whether a session has this connection.
    #[inline]
    pub(crate) fn holds(&self, conn: u32) -> bool {
        self.places[conn as usize].is_taken
    }

    /// Sessions that have begun and not ended.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Nothing is sent of what begins next, so many times: an arrival's place in a log is its own, and what it would have
    /// been is drawn anew. A row that it had taken is taken by the next.
    pub(crate) fn skip(&mut self, count: u64) {
        for _ in 0..count {
            let Some(Begin { flow, .. }) = self.upcoming else {
                return;
            };
            let walked = self.openings[usize::from(flow)].walks;
            if let Some(table) = walked.filter(|_| self.mix.replay.is_none()) {
                self.walks[usize::from(table)].taken -= 1;
            }
            self.upcoming = self.begin();
        }
    }

    /// Which kind the next request is, of what begins or on a connection; `None`: there is none.
    pub(crate) fn kind_of_next(&self, conn: Option<u32>) -> Option<u16> {
        let place = conn.map(|conn| &self.places[conn as usize]);
        if let Some(place) = place.filter(|place| place.is_taken) {
            let flow = &self.mix.flows[usize::from(place.flow)];
            return Some(flow.steps[usize::from(place.step)].kind);
        }
        let Begin { flow, .. } = self.upcoming?;
        Some(self.openings[usize::from(flow)].kind)
    }

    /// The next request on a connection, which [`Script::has_next`] said that it has.
    #[inline]
    pub(crate) fn next(&mut self, conn: u32, intended_ns: u64) -> Ask {
        let place = &mut self.places[conn as usize];
        if place.is_taken {
            let step = &self.mix.flows[usize::from(place.flow)].steps[usize::from(place.step)];
            return Ask {
                kind: step.kind,
                draw: place.draw,
                is_fresh: false,
            };
        }
        let Begin { flow, draw } = self.upcoming.expect("it was said to have one");
        let Opening {
            kind, is_session, ..
        } = self.openings[usize::from(flow)];
        if is_session {
            *place = Place {
                is_taken: true,
                flow,
                step: 0,
                draw,
                began_ns: intended_ns,
            };
            self.under_way += 1;
            self.flows[usize::from(flow)].begun += 1;
        }
        self.upcoming = self.begin();
        Ask {
            kind,
            draw,
            is_fresh: true,
        }
    }

    /// An answer came, well or not, and perhaps leads on to another place. How long a session took that ends with it is
    /// recorded in the report; `None`: its window has ended.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        conn: u32,
        (is_well, redirects): (bool, Option<Redirect>),
        now: u64,
        reports: Option<&mut [FlowReport]>,
    ) -> After {
        let place = &mut self.places[conn as usize];
        if !place.is_taken {
            return After::Begins;
        }
        if !is_well {
            return self.failed(conn);
        }
        let steps = &self.mix.flows[usize::from(place.flow)].steps;
        match behind(steps, place.step, redirects) {
            Some((nth, think)) => {
                place.step = nth;
                After::Continues {
                    think_ns: self.think_ns(think),
                }
            }
            None => {
                let Place { flow, began_ns, .. } = std::mem::take(place);
                self.under_way -= 1;
                self.flows[usize::from(flow)].completed += 1;
                if let Some(reports) = reports {
                    let took = &mut reports[usize::from(flow)].took;
                    took.record(now.saturating_sub(began_ns));
                }
                After::Begins
            }
        }
    }

    /// A request failed: its session, if it is one's, goes on with the next step where this one says so, or is over.
    pub(crate) fn failed(&mut self, conn: u32) -> After {
        let place = &mut self.places[conn as usize];
        if !place.is_taken {
            return After::Begins;
        }
        let steps = &self.mix.flows[usize::from(place.flow)].steps;
        let continues = steps[usize::from(place.step)].continues;
        if let Some((nth, think)) = behind(steps, place.step, None).filter(|_| continues) {
            place.step = nth;
            return After::Continues {
                think_ns: self.think_ns(think),
            };
        }
        let flow = std::mem::take(place).flow;
        self.under_way -= 1;
        self.flows[usize::from(flow)].broken_off += 1;
        After::Begins
    }

    fn think_ns(&mut self, think: Think) -> u64 {
        match think {
            Think::None => 0,
            Think::For(ns) => ns,
            Think::Between(from, to) => self.random.u64(from..=to.max(from)),
            Think::Exponential(mean) => {
                let uniform = 1.0 - self.random.f64();
                let drawn = -(uniform.ln()) * mean as f64;
                drawn.min(10.0 * mean as f64) as u64
            }
        }
    }

    /// Writes what became of the sessions into a report.
    pub(crate) fn report(&self, into: &mut [FlowReport]) {
        for (into, own) in into.iter_mut().zip(&self.flows) {
            into.counts = *own;
        }
    }
}

/// The step that comes behind one and the pause before it. Those that follow a redirect are passed over, but for one of
/// the kind that there was.
#[inline]
fn behind(steps: &[Step], nth: u16, redirects: Option<Redirect>) -> Option<(u16, Think)> {
    let mut rest = steps.iter().enumerate().skip(usize::from(nth) + 1);
    let (nth, step) = rest.find(|(_, step)| step.hop.is_none() || step.hop == redirects)?;
    Some((nth as u16, step.think))
}

/// The instants of what was logged; with it the arrivals of an open loop are those.
pub(crate) fn logged(mix: Option<&Arc<Mix>>) -> Option<&Replay> {
    mix?.replay.as_ref()
}

#[cfg(test)]
mod tests {
    use wallfinder_model::drive::Share;
    use wallfinder_wire::mix::{Cells, Flow, Known, Protocol, Row, Table};

    use super::*;

    /// One request that is filled in with rows.
    fn walking(order: Order, rows: usize) -> Arc<Mix> {
        let row = |nth: usize| Row(vec![nth.to_string().into_bytes()]);
        let step = Step {
            kind: 0,
            think: Think::None,
            hop: None,
            continues: false,
        };
        Arc::new(Mix {
            protocol: Protocol::Http1,
            kinds: Vec::new(),
            flows: vec![Flow {
                name: "a".to_owned(),
                weight: 1,
                steps: vec![step],
                walks: Some(0),
            }],
            tables: vec![Table {
                name: "rows".to_owned(),
                order,
                columns: vec!["id".to_owned()],
                cells: Cells::from((0..rows).map(row).collect::<Vec<Row>>()),
            }],
            variables: 0,
            known: Known::default(),
            origins: Vec::new(),
            replay: None,
        })
    }

    /// The rows that each of so many workers takes, of so many requests each at the most.
    fn dealt(order: Order, rows: usize, workers: u32, each: usize) -> Vec<Vec<u32>> {
        let mix = walking(order, rows);
        let of = |worker| {
            let mut script = Script::new(
                &mix,
                Share {
                    nth: worker,
                    of: workers,
                },
                1,
                7,
            );
            let take = std::iter::from_fn(|| script.has_next(0).then(|| script.next(0, 0).draw));
            take.take(each).collect()
        };
        (0..workers).map(of).collect()
    }

    #[test]
    fn rows_that_are_used_once_are_each_used_once_over_all_workers() {
        for workers in [1, 2, 3, 7] {
            let mut all = dealt(Order::Once, 1_000, workers, 5_000).concat();
            all.sort_unstable();
            assert_eq!(all, (0..1_000).collect::<Vec<u32>>(), "{workers} workers");
        }
    }

    #[test]
    fn a_row_of_which_nothing_is_sent_is_taken_by_the_next() {
        let mut script = Script::new(&walking(Order::Once, 3), Share::WHOLE, 1, 7);
        let mut taken = Vec::new();
        while script.has_next(0) {
            script.skip(2);
            taken.push(script.next(0, 0).draw);
        }
        assert_eq!(taken, [0, 1, 2]);
    }

    #[test]
    fn rows_in_order_go_round() {
        assert_eq!(dealt(Order::InOrder, 3, 2, 4), [[0, 2, 4, 6], [1, 3, 5, 7]]);
    }

    #[test]
    fn pauses_have_the_mean_that_they_are_asked_for() {
        let mut script = Script::new(&walking(Order::InOrder, 1), Share::WHOLE, 1, 3);
        let mut mean = |think| {
            (0..100_000)
                .map(|_| script.think_ns(think) as f64)
                .sum::<f64>()
                / 1e5
        };
        assert!((mean(Think::Exponential(1_000_000)) / 1e6 - 1.0).abs() < 0.02);
        assert!((mean(Think::Between(0, 1_000_000)) / 5e5 - 1.0).abs() < 0.02);
        assert_eq!(mean(Think::For(5)), 5.0);
    }
}
