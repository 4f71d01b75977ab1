//! The plain way: requests out in bursts, answers in.

use wallfinder_wire::http1::{Http1, Options, Request, Shared};
use wallfinder_wire::{Outcome, Transmit, Wire};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn a_burst_is_one_slice_and_its_answers_come_in_order() {
    let options = Options {
        in_flight_max: 4,
        ..Options::default()
    };
    let request = Request::get("localhost:8080", "/simple?x=1");
    let mut shared = Shared::new(&request, options).unwrap();
    let mut http1 = Http1::open(&shared);
    for round in 0..3 {
        let slots: Vec<u32> = (0..4).map(|_| http1.issue(&shared)).collect();
        assert_eq!(slots, [0, 1, 2, 3]);
        assert_eq!(http1.room(&shared), 0);
        let len = shared.block().len();
        assert_eq!(
            http1.poll_transmit(&shared),
            Transmit::Block { start: 0, len }
        );
        http1.handle_sent(&shared, len);
        assert_eq!(http1.poll_transmit(&shared), Transmit::Idle);

        let bytes = ANSWER.repeat(4);
        let mut rest = &bytes[..];
        for slot in slots {
            let taken = http1.handle_bytes(&mut shared, rest);
            assert_eq!(taken, ANSWER.len(), "round {round}");
            rest = &rest[taken..];
            let Some(Outcome::Answered(answer)) = http1.poll_outcome() else {
                panic!("an answer is whole");
            };
            assert_eq!((answer.slot, answer.status), (slot, 200));
            assert_eq!(answer.wire_bytes, ANSWER.len() as u64);
            assert_eq!(answer.body_bytes, 5);
            assert!(answer.reusable);
        }
    }
    assert_eq!(
        std::str::from_utf8(&shared.block()[..shared.request_bytes()]).unwrap(),
        "GET /simple?x=1 HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: wallfinder/0.1.0\r\n\
         Accept: */*\r\n\r\n"
    );
}
