//! Connections that wait for something, the longest first, each of them once.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Line {
    conns: VecDeque<u32>,
    stands: Box<[bool]>,
}

impl Line {
    /// An empty one, with room for all connections.
    pub(super) fn new(connections: usize) -> Line {
        Line {
            conns: VecDeque::with_capacity(connections),
            stands: vec![false; connections].into_boxed_slice(),
        }
    }

    /// Behind those that stand in it already; one that does so keeps its place.
    #[inline]
    pub(super) fn join(&mut self, conn: u32) {
        let stands = &mut self.stands[conn as usize];
        if !*stands {
            *stands = true;
            self.conns.push_back(conn);
        }
    }

    /// Takes the first out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let conn = self.conns.pop_front()?;
        self.stands[conn as usize] = false;
        Some(conn)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.conns.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.conns.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stands_in_line_once_and_in_its_place() {
        let mut line = Line::new(3);
        for conn in [2, 0, 2, 1, 0] {
            line.join(conn);
        }
        assert_eq!(line.len(), 3);
        assert_eq!(line.pop(), Some(2));
        line.join(2);
        let rest: Vec<u32> = std::iter::from_fn(|| line.pop()).collect();
        assert_eq!(rest, [0, 1, 2]);
        assert!(line.is_empty());
    }
}
