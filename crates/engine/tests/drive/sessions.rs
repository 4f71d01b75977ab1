//! Sessions with all that a mix can ask but regular expressions, which may allocate; and how servers answer them.

use wallfinder_wire::mix::{
    Check, FieldPath, FieldStep, Follow, JsonIs, Mix, Order, Piece, Prefix, Protocol, Row, Scalar,
    Slot, Source, Spelling, Table, Take, Text, Think, Value, Which,
};
use wallfinder_wire::{Redirect, Request, grpc};

use crate::frames::{DATA, HEADERS, frame};

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

const BODY: &[u8] = br#"{"ok": true, "token": "a\u0062c", "user": {"name": "ann", "n": 17}}"#;
/// [`BODY`] and what comes before it.
pub(crate) const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\nX-Key: k-1\r\nSet-Cookie: sid=1; Path=/\r\n\
    Content-Length: 67\r\n\r\n{\"ok\": true, \"token\": \"a\\u0062c\", \"user\": {\"name\": \"ann\", \"n\": 17}}";
const MOVED: &[u8] =
    b"HTTP/1.1 303 See Other\r\nLocation: ../there?page=2\r\nContent-Length: 0\r\n\r\n";
const KEPT: &[u8] =
    b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n";
/// A message whose field 1 is `ann` and whose field 2 is 17, behind its length.
const MESSAGE: &[u8] = b"\0\0\0\0\x07\x0a\x03ann\x10\x11";

fn fixed(text: &str) -> Piece {
    Piece::Fixed(text.as_bytes().to_vec())
}

fn slot(value: Value, spelling: Spelling) -> Piece {
    Piece::Slot(Slot { value, spelling })
}

/// The only column.
fn cell(spelling: Spelling) -> Piece {
    let column = Value::Column {
        table: 0,
        column: 0,
    };
    slot(column, spelling)
}

/// These requests as the steps of one session, which have rows and two variables.
fn session<'n>(requests: impl IntoIterator<Item = (&'n str, Request)>) -> Mix {
    let requests = requests.into_iter();
    let mut mix = Mix::of_requests(requests.map(|(name, request)| (name, 1, request)));
    let row = |nth: usize| Row(vec![format!("a \"b{nth}").into_bytes()]);
    mix.tables = vec![Table {
        name: "rows".to_owned(),
        order: Order::Random,
        columns: vec!["id".to_owned()],
        cells: (0..100).map(row).collect::<Vec<Row>>().into(),
    }];
    mix.variables = 2;
    let steps: Vec<_> = mix.flows.drain(1..).flat_map(|flow| flow.steps).collect();
    mix.flows[0].steps.extend(steps);
    mix
}

fn take(variable: u16, from: Source, fits: &[Scalar]) -> Take {
    Take {
        variable,
        from,
        fits: fits.to_vec(),
    }
}

/// Takes from JSON and from a field, checks both, keeps cookies, pauses, and follows redirects by GET and as they are;
/// rows stand in paths and bodies.
pub(crate) fn whole(protocol: Protocol) -> Mix {
    let post = |path: &str| Request::new("POST", "test", path).body("x");
    let mut mix = session([
        ("login", post("/login")),
        ("cart", post("/moved/x")),
        ("cart redirected", Request::get("test", "/there")),
        ("upload", post("/kept")),
        ("upload redirected", post("/there")),
    ]);
    mix.protocol = protocol;
    for (nth, kind) in mix.kinds.iter_mut().enumerate() {
        let request = &mut kind.request;
        match [2, 4].contains(&nth) {
            true => request.target = Text(vec![slot(Value::Location, Spelling::Path)]),
            false => request.target.0.extend([fixed("?q="), cell(Spelling::Url)]),
        }
        if request.method == "POST" {
            request.body = Text(vec![
                fixed("{\"q\": \""),
                cell(Spelling::Json),
                fixed("\"}"),
            ]);
        }
        if nth > 0 {
            let taken = |variable| slot(Value::Variable(variable), Spelling::Raw);
            let token = Text(vec![fixed("Bearer "), taken(0)]);
            request.headers.push(("authorization".to_owned(), token));
            request
                .headers
                .push(("x-key".to_owned(), Text(vec![taken(1)])));
        }
        kind.expect.keeps_cookies = true;
    }
    let json = |pointer: &str, is| Check::Json(pointer.to_owned(), is);
    mix.kinds[0].expect.checks = vec![
        json("/ok", JsonIs::Plain("true".to_owned())),
        json("/user/name", JsonIs::Text("ann".to_owned())),
        json("/user/n", JsonIs::There),
        Check::Header("x-key".to_owned(), "k-".to_owned()),
    ];
    mix.kinds[0].expect.takes = vec![
        take(0, Source::Json("/token".to_owned()), &[]),
        take(1, Source::Header("x-key".to_owned()), &[]),
    ];
    for (from, to, way) in [(1, 2, Redirect::ToGet), (3, 4, Redirect::AsItIs)] {
        mix.kinds[from].expect.follow = Follow::Yes;
        let expect = &mut mix.kinds[to].expect;
        expect.follow = Follow::Spent;
        let length = BODY.len() as u64;
        expect.checks = vec![
            Check::BodyHas(b"ann".to_vec()),
            Check::Length(length, length),
        ];
        mix.flows[0].steps[to].hop = Some(way);
    }
    mix.flows[0].steps[1].think = Think::Exponential(200_000);
    mix
}

/// Calls of gRPC with rows in metadata and messages, and in the second what was taken from the answer to the first.
pub(crate) fn calls() -> Mix {
    let call = grpc::Request::unary("test", "/a.B/C", "x").of_mix();
    let (template, terms) = call.expect("it is one");
    let post = || Request::new("POST", "test", "/a.B/C");
    let mut mix = session([("first", post()), ("second", post())]);
    mix.protocol = Protocol::Grpc;
    // Field 1, a string, and behind it field 2, a number.
    let message = |name: Piece, number: Option<Piece>| {
        let mut message = Text(vec![fixed("\x0a")]);
        message.append(&Text::sized(Prefix::Varint, Text(vec![name])));
        if let Some(number) = number {
            message.append(&Text(vec![fixed("\x10"), number]));
        }
        Text::sized(Prefix::Call, message)
    };
    let [text, int] = [Scalar::Text, Scalar::Int64];
    let taken = |variable, scalar| slot(Value::Variable(variable), Spelling::Scalar(scalar));
    let bodies = [
        message(cell(Spelling::Scalar(text)), None),
        message(taken(0, text), Some(taken(1, int))),
    ];
    for (kind, body) in mix.kinds.iter_mut().zip(bodies) {
        kind.request = template.clone();
        kind.request.body = body;
        let user = Text(vec![cell(Spelling::Raw)]);
        kind.request.headers.push(("x-user".to_owned(), user));
        kind.call = Some(terms.clone());
        kind.expect.checks = vec![
            Check::Field(field(1, text), JsonIs::Text("ann".to_owned())),
            Check::Field(field(2, int), JsonIs::Plain("17".to_owned())),
        ];
    }
    mix.kinds[0].expect.takes = vec![
        take(0, Source::Field(field(1, text)), &[text]),
        take(1, Source::Field(field(2, int)), &[int]),
    ];
    mix
}

fn field(number: u32, scalar: Scalar) -> FieldPath {
    let step = FieldStep {
        number,
        which: Which::Only,
    };
    FieldPath {
        steps: vec![step],
        scalar,
        names: Vec::new(),
        has_default: true,
    }
}

/// What a request of [`whole`] is answered in HTTP/1.1.
pub(crate) fn answer_to_head(head: &[u8]) -> &'static [u8] {
    let has = |part: &[u8]| head.windows(part.len()).any(|window| window == part);
    if has(b" /moved") {
        MOVED
    } else if has(b" /kept") {
        KEPT
    } else {
        WHOLE
    }
}

/// What a request of [`whole`] is answered in HTTP/2: five streams of a connection are a session.
pub(crate) fn answer_to_stream(stream: u32, says: &mut Vec<u8>) {
    let redirect = |status: &str, to: &str| {
        // A literal value of `:status`, which has the index 8 (RFC 7541, A).
        let mut block = vec![0x08, 3];
        block.extend(status.bytes());
        block.extend(literals(&[("location", to)]));
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
    };
    match stream / 2 % 5 {
        1 => says.extend(redirect("303", "../there?page=2")),
        3 => says.extend(redirect("307", "/there")),
        _ => {
            let mut block = vec![STATUS_200];
            block.extend(literals(&[("x-key", "k-1"), ("set-cookie", "sid=1")]));
            says.extend(frame(HEADERS, END_HEADERS, stream, &block));
            says.extend(frame(DATA, END_STREAM, stream, BODY));
        }
    }
}

/// What a call is answered.
pub(crate) fn answer_to_call(stream: u32, says: &mut Vec<u8>) {
    let mut head = vec![STATUS_200];
    head.extend(literals(&[("content-type", "application/grpc")]));
    says.extend(frame(HEADERS, END_HEADERS, stream, &head));
    says.extend(frame(DATA, 0, stream, MESSAGE));
    let status = literals(&[("grpc-status", "0")]);
    says.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &status));
}

/// `:status: 200`, as the static table has it.
const STATUS_200: u8 = 0x88;

/// Fields that are spelled out and go into the peer's table, which fills up with them.
fn literals(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0x40);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend(text.bytes());
        }
    }
    block
}
