//! Calls whose messages each wait for an answer to the one before: what is written when.

use wallfinder_wire::grpc::{self, Kind, Request};
use wallfinder_wire::http2::{FrameKind, Http2, Options, Shared};
use wallfinder_wire::{Outcome, Transmit, Wire};

use crate::peer::{END_STREAM, frames_of, numbers, settings};
use crate::script::{data, head, message, status};

const MESSAGES: [&str; 3] = ["one", "two", "three"];

/// The client of such a call, whose peer has said these settings.
struct Client {
    shared: Shared,
    http2: Http2,
}

impl Client {
    fn new(parameters: &[(u16, u32)]) -> Client {
        let mut request = Request::unary("h:1", "/a.B/C", "");
        request.kind = Kind::Bidirectional;
        request.messages = MESSAGES.map(Vec::from).to_vec();
        request.in_turn = true;
        let mut shared = grpc::shared(&request, Options::default()).unwrap();
        let mut http2 = Http2::open(&shared);
        http2.handle_bytes(&mut shared, &settings(parameters));
        http2.issue(&shared);
        Client { shared, http2 }
    }

    /// Hears these frames, and gives what it writes of the call then, and whether that is its end.
    fn hear(&mut self, frames: &[u8]) -> (Vec<u8>, bool) {
        self.http2.handle_bytes(&mut self.shared, frames);
        let mut buffer = vec![0; 20_000];
        let mut written = Vec::new();
        while self.http2.poll_transmit(&self.shared) == Transmit::Own {
            let len = self.http2.write(&self.shared, &mut buffer);
            written.extend_from_slice(&buffer[..len]);
        }
        let preface = written.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let frames = frames_of(preface.unwrap_or(&written)).into_iter();
        let frames: Vec<_> = frames.filter(|f| f.kind == FrameKind::DATA).collect();
        let ends = frames.iter().any(|frame| frame.flags == END_STREAM);
        (frames.into_iter().flat_map(|f| f.payload).collect(), ends)
    }

    fn messages_of_the_answer(&mut self) -> u32 {
        match self.http2.poll_outcome() {
            Some(Outcome::Answered(answer)) => answer.call.expect("it is a call").messages,
            other => panic!("{other:?}"),
        }
    }
}

fn sent(text: &str) -> (Vec<u8>, bool) {
    (message(text.as_bytes()), text == MESSAGES[2])
}

const NOTHING: (Vec<u8>, bool) = (Vec::new(), false);

#[test]
fn a_message_waits_for_the_whole_answer_to_the_one_before() {
    let mut client = Client::new(&[]);
    assert_eq!(client.hear(b""), sent("one"));
    assert_eq!(client.hear(&head(1)), NOTHING);
    let answer = message(b"1");
    let (last, before) = answer.split_last().expect("a message");
    for byte in before {
        assert_eq!(client.hear(&data(1, &[*byte])), NOTHING);
    }
    assert_eq!(client.hear(&data(1, &[*last])), sent("two"));
    assert_eq!(client.hear(&data(1, &message(b""))), sent("three"));
    assert_eq!(client.hear(&data(1, &message(b"3"))), NOTHING);
    client.hear(&status(1, "0"));
    assert_eq!(client.messages_of_the_answer(), 3);
}

#[test]
fn a_peer_that_answers_more_than_it_was_asked_is_told_the_rest_at_once() {
    let mut client = Client::new(&[]);
    client.hear(b"");
    let answers = [head(1), data(1, &message(b"1").repeat(5))].concat();
    let (rest, ends) = client.hear(&answers);
    assert_eq!(rest, [sent("two").0, sent("three").0].concat());
    assert!(ends);
    client.hear(&status(1, "0"));
    assert_eq!(client.messages_of_the_answer(), 5);
}

#[test]
fn windows_hold_for_messages_in_turn() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let first = message(b"one").len() as u32;
    let mut client = Client::new(&[(INITIAL_WINDOW_SIZE, first + 2)]);
    assert_eq!(client.hear(b""), sent("one"));
    let (begun, _) = client.hear(&[head(1), data(1, &message(b"1"))].concat());
    assert_eq!(begun.len(), 2);
    // Room for all that is left: the third message has its turn to wait for.
    let (rest, ends) = client.hear(&numbers(FrameKind::WINDOW_UPDATE, 1, &[1000]));
    assert_eq!(([begun, rest].concat(), ends), sent("two"));
    assert_eq!(client.hear(&data(1, &message(b"2"))), sent("three"));
}

#[test]
fn a_call_that_ends_before_its_turn_is_answered_all_the_same() {
    let mut client = Client::new(&[]);
    client.hear(b"");
    client.hear(&[head(1), data(1, &message(b"1")), status(1, "0")].concat());
    assert_eq!(client.messages_of_the_answer(), 1);
}
