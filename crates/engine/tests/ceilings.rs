//! The engine's own ceiling is measured in every protocol: the null servers' answers are good ones.

use std::net::SocketAddr;

use wallfinder_engine::StepSpec;
use wallfinder_engine::Typical;
use wallfinder_engine::calibrate::calibrate;
use wallfinder_model::record::Ceiling;
use wallfinder_model::{Decode, Nanos};
use wallfinder_wire::mix::{Mix, Piece, Protocol, Slot, Spelling, Text, Value};
use wallfinder_wire::tls::{Client, Options, Trust, Version};
use wallfinder_wire::{Exchange, Request, framed, grpc};

mod drive;

const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

/// Good answers a second; what is wrong with an answer makes it none.
fn driven(request: Exchange, depth: u32, body_bytes: u64, messages: u64) -> f64 {
    driven_under(None, request, depth, body_bytes, messages)
}

/// The same, under TLS too.
fn driven_under(
    tls: Option<Client>,
    request: Exchange,
    depth: u32,
    body_bytes: u64,
    messages: u64,
) -> f64 {
    let mut spec = drive::spec(NOWHERE, request, 4, depth);
    spec.tls = tls;
    let typical = Typical {
        body_bytes,
        messages,
        closes: false,
    };
    measured(&spec, typical).driven
}

fn measured(spec: &StepSpec, typical: Typical) -> Ceiling {
    let ceiling = calibrate(spec, typical, None, Nanos::from_millis(60)).unwrap();
    assert!(ceiling.throughput >= ceiling.driven, "{ceiling:?}");
    assert!(ceiling.cpu_per_request_ns > 100.0, "{ceiling:?}");
    ceiling
}

const SHORT: Typical = Typical {
    body_bytes: 16,
    messages: 1,
    closes: false,
};

#[test]
fn http1_with_connections_that_stay_and_with_one_for_each_request() {
    let closing = Typical {
        closes: true,
        ..SHORT
    };
    for io in drive::ways() {
        let get = Exchange::Http1(Request::get("null", "/"));
        let mut spec = drive::spec(NOWHERE, get, 8, 1);
        spec.io = io;
        let kept = measured(&spec, SHORT);
        // Whether it was asked for, or is what the server does.
        let by_server = measured(&spec, closing);
        spec.load.connection_per_request = true;
        let asked_for = measured(&spec, SHORT);
        for each in [by_server, asked_for] {
            assert!(each.driven > 100.0, "{io:?}: {each:?}");
            let ratio = each.throughput / kept.throughput;
            assert!(ratio < 0.8, "{io:?}: {each:?} of {kept:?}");
        }
    }
}

/// The most common request of a mix is made anew each time, as it is in the load.
#[test]
fn a_mix_with_places_in_each_protocol() {
    let slot = |value, spelling| Piece::Slot(Slot { value, spelling });
    let column = Value::Column {
        table: 3,
        column: 1,
    };
    let common = Request::new("POST", "null", "/x").header("X-Row", "x");
    let rare = Request::get("null", "/other");
    let mut mix = Mix::of_requests([("rare", 1, rare), ("common", 9, common)]);
    let of_common = &mut mix.kinds[1].request;
    of_common.target = Text(vec![slot(column, Spelling::Path)]);
    of_common.headers[0].1 = Text(vec![slot(Value::Variable(2), Spelling::Raw)]);
    let fixed = Piece::Fixed(b"what it is: ".to_vec());
    of_common.body = Text(vec![fixed, slot(column, Spelling::Json)]);
    let calls = grpc::Request::unary("null", "/a.B/C", vec![7; 64]).of_mix();
    let (template, terms) = calls.expect("it is a call");
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Grpc] {
        let mut mix = mix.clone();
        mix.protocol = protocol;
        if protocol == Protocol::Grpc {
            mix.kinds[1].request = template.clone();
            mix.kinds[1].call = Some(terms.clone());
        }
        for depth in [1, 20] {
            let seen = driven(Exchange::Mix(Box::new(mix.clone())), depth, 16, 1);
            assert!(seen > 500.0, "{protocol:?}, {depth}: {seen}");
        }
    }
}

#[test]
fn a_connection_for_each_request_in_the_other_protocols() {
    let framed = |format: &str| framed::Request {
        format: format.parse().unwrap(),
        message: vec![b'm'; 64],
    };
    for request in [
        Exchange::Http2(Request::get("null", "/")),
        grpc::Request::unary("null", "/a.B/C", vec![7; 64]).into(),
        framed("u32be").into(),
        framed("u32be,id=u64be@4").into(),
    ] {
        let what = format!("{request:?}");
        let mut spec = drive::spec(NOWHERE, request, 4, 1);
        spec.load.connection_per_request = true;
        let each = measured(&spec, SHORT);
        assert!(each.driven > 100.0, "{what}: {each:?}");
    }
}

#[test]
fn http2_whatever_the_answers_length_and_the_requests() {
    for (depth, body_bytes) in [(1, 0), (1, 4_000), (50, 100), (10, 100_000)] {
        let seen = driven(
            Exchange::Http2(Request::get("null", "/")),
            depth,
            body_bytes,
            0,
        );
        assert!(seen > 500.0, "{depth} of {body_bytes} B: {seen}");
    }
    // Long requests use up the window that they are sent in.
    let long = Request {
        body: vec![b'b'; 300_000],
        ..Request::new("POST", "null", "/")
    };
    let seen = driven(Exchange::Http2(long), 4, 10, 0);
    assert!(seen > 100.0, "{seen}");
    let head = Request::new("HEAD", "null", "/");
    assert!(driven(Exchange::Http2(head), 4, 0, 0) > 500.0);
}

#[test]
fn calls_of_grpc_of_every_kind() {
    let unary = grpc::Request::unary("null", "/a.B/C", vec![7; 64]);
    assert!(driven(unary.clone().into(), 10, 64, 1) > 500.0);
    for (kind, messages) in [
        (grpc::Kind::ServerStreaming, 5),
        (grpc::Kind::ClientStreaming, 1),
        (grpc::Kind::Bidirectional, 3),
    ] {
        let call = grpc::Request {
            kind,
            ..unary.clone()
        };
        let seen = driven(call.into(), 10, 64 * messages, messages);
        assert!(seen > 500.0, "{kind:?}: {seen}");
    }
}

#[test]
fn framed_messages_in_turn_and_by_id() {
    for format in ["u32be", "u16le,inclusive", "u32be,id=u64be@4"] {
        let request = framed::Request {
            format: format.parse().unwrap(),
            message: vec![b'm'; 64],
        };
        for body_bytes in [1, 5_000] {
            let seen = driven(request.clone().into(), 8, body_bytes, 0);
            assert!(seen > 500.0, "{format} of {body_bytes} B: {seen}");
        }
    }
}

/// A client whose roots have signed no server: a null server is believed all the same.
fn suspicious(alpn: &[&str], version: Version) -> Client {
    let root = rcgen::generate_simple_self_signed(["elsewhere".to_owned()]).unwrap();
    Client::new(&Options {
        name: "server.test".into(),
        alpn: alpn.iter().map(ToString::to_string).collect(),
        trust: Trust::Roots(vec![root.cert.der().to_vec()]),
        identity: None,
        groups: Vec::new(),
        version: Some(version),
        resumes: true,
    })
    .unwrap()
}

#[test]
fn every_protocol_under_tls() {
    let framed = |format: &str| framed::Request {
        format: format.parse().unwrap(),
        message: vec![b'm'; 64],
    };
    let unary = grpc::Request::unary("null", "/a.B/C", vec![7; 64]);
    let get = || Request::get("null", "/");
    for version in [Version::Tls13, Version::Tls12] {
        for (request, alpn) in [
            (Exchange::Http1(get()), &["http/1.1"][..]),
            (Exchange::Http2(get()), &["h2"]),
            (unary.clone().into(), &["h2"]),
            (framed("u32be").into(), &[]),
            (framed("u32be,id=u64be@4").into(), &[]),
        ] {
            // Within a record, and over several.
            let lengths: &[u64] = match version {
                Version::Tls13 => &[64, 100_000],
                Version::Tls12 => &[100_000],
            };
            for &body_bytes in lengths {
                let client = suspicious(alpn, version);
                // Of 60 ms others may have had all but a few.
                let mut seen = (0..5)
                    .map(|_| driven_under(Some(client.clone()), request.clone(), 4, body_bytes, 1));
                let is_driven = seen.any(|seen| seen > 100.0);
                assert!(is_driven, "{version:?} {alpn:?} {body_bytes} B");
            }
        }
    }
}

#[test]
fn what_a_null_server_cannot_play_is_refused() {
    let mut spec = drive::spec(NOWHERE, Exchange::Http2(Request::get("null", "/")), 1, 1);
    let typical = Typical {
        body_bytes: 2 << 20,
        messages: 0,
        closes: false,
    };
    let refused = |spec: &_| calibrate(spec, typical, None, Nanos::from_millis(50)).unwrap_err();
    assert!(refused(&spec).to_string().contains("windows"));
    let credit = framed::Request {
        format: "u32be,credit".parse().unwrap(),
        message: vec![b'm'; 64],
    };
    spec.request = credit.into();
    assert!(refused(&spec).to_string().contains("credit"));
}

/// No ceiling is better than that of an easier load.
#[test]
fn what_costs_the_workers_more_than_a_null_server_makes_it_is_refused() {
    let get = Exchange::Http1(Request::get("null", "/"));
    let plain = drive::spec(NOWHERE, get, 2, 1);
    let refused = |decode: Decode, one_each: bool, tls: Option<Client>| {
        let mut spec = plain.clone();
        spec.load.decode = decode;
        spec.load.connection_per_request = one_each;
        spec.tls = tls;
        let ceiling = calibrate(&spec, SHORT, None, Nanos::from_millis(50));
        ceiling.err().map(|why| why.to_string())
    };
    let client = || Some(suspicious(&["http/1.1"], Version::Tls13));
    for (decode, one_each, tls, why) in [
        (Decode::Inflate, false, None, Some("decoded")),
        (Decode::Check, true, None, Some("decoded")),
        (Decode::None, true, client(), Some("handshake")),
        (Decode::Check, false, None, None),
        (Decode::None, false, client(), None),
    ] {
        let said = refused(decode, one_each, tls);
        let is_told = match (&said, why) {
            (Some(said), Some(why)) => said.contains(why),
            (None, None) => true,
            _ => false,
        };
        assert!(is_told, "{decode:?} {one_each}: {said:?}");
    }
}
