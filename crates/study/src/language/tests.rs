//! The language beside an oracle, and at its edges.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parse::DEPTH_MAX;
use super::*;

const NO_NOTES: Notes = Notes {
    unseen: "@unseen",
    seen: "@seen",
};

fn context() -> Context {
    let mut context = Context::default();
    let step = |payload: f64, wall: &str| {
        let client = BTreeMap::from([("busy".to_owned(), Value::Number(0.5))]);
        let fields = [
            ("payload".to_owned(), Value::Number(payload)),
            ("wall".to_owned(), Value::from(wall)),
            ("client".to_owned(), Value::Fields(Arc::new(client))),
        ];
        Value::Fields(Arc::new(BTreeMap::from(fields)))
    };
    let steps = [
        step(64.0, "server-cpu"),
        step(256.0, "downlink"),
        step(1024.0, "downlink"),
    ];
    context.set("steps", Value::list(steps));
    context.set("x", 3.0);
    context.set("none", f64::NAN);
    context.declare("nothing", |_| {
        Err(Fault::Function("nothing there".to_owned()))
    });
    context
}

fn value(text: &str) -> Result<Value, Fault> {
    let node = parse(text).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
    context().value(&node, &NO_NOTES)
}

#[track_caller]
fn is(text: &str, wanted: impl Into<Value>) {
    assert_eq!(value(text), Ok(wanted.into()), "{text}");
}

#[test]
fn operators_bind_as_they_do_elsewhere() {
    is("1 + 2 * 3", 7.0);
    is("(1 + 2) * 3", 9.0);
    is("10 - 4 - 3", 3.0);
    is("100 / 10 / 5", 2.0);
    is("-2 * -3 - -1", 7.0);
    is("7 % 4 + 1", 4.0);
    is("1 < 2 && 2 < 3 || false", true);
    is("true || false && false", true);
    is("!false && !(1 > 2)", true);
    is("!!true", true);
    is("1 + 1 == 2 && 'a' + 'b' == \"ab\"", true);
    is("false ? 1 : true ? 2 : 3", 2.0);
    is("x > 2 ? 'more' : 'less'", "more");
    is("2 in [1, 2, 3] && !(4 in [1, 2, 3])", true);
    is(
        "1.5e3 + 2E-1 + .5e0".replace(" + .5e0", "").as_str(),
        1500.2,
    );
    is("size([1] + [2, 3,]) // and a remark", 3.0);
}

#[test]
fn lists_are_gone_through() {
    is("steps.map(s, s.payload)[2]", 1024.0);
    is("steps.map(s, s.wall == 'downlink', s.payload)[0]", 256.0);
    is(
        "size(steps.filter(s, s.payload > 64 && s.client.busy < 1))",
        2.0,
    );
    is("steps.all(s, s.payload >= 64)", true);
    is("steps.exists(s, s.wall == 'server-cpu')", true);
    is("steps.exists_one(s, s.wall == 'downlink')", false);
    is("[].all(s, false) && ![].exists(s, true)", true);
    is("[1, 2].map(x, [10, 20].map(y, x * y))[1][0]", 20.0);
    is("[1, 2].map(x, x)[0] + x", 4.0);
    is("has(steps[0].payload) && !has(steps[0].p99_ms)", true);
    is("'wall' in steps[0] && !('p99_ms' in steps[0])", true);
    is("steps[0] == steps[0] && steps[0] != steps[1]", true);
    is(
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.size() == 3",
        true,
    );
    is(
        "int(2.7) == 2 && double('1.5') == 1.5 && string(2) == '2' && bool(true)",
        true,
    );
}

#[test]
fn what_is_not_looked_at_cannot_fail() {
    is("false && nothing()", false);
    is("true || nothing()", true);
    is("true ? 1 : nothing()", 1.0);
    is("steps.exists(s, s.payload == 64 || s.p99_ms > 1)", true);
}

#[test]
fn faults_say_whether_something_was_not_measured_or_makes_no_sense() {
    let fault = |text: &str| value(text).unwrap_err();
    assert_eq!(
        fault("steps[0].p99_ms > 1"),
        Fault::NoField("p99_ms".into())
    );
    assert_eq!(fault("steps[3]"), Fault::NoItem);
    assert_eq!(fault("steps[-1]"), Fault::NoItem);
    assert_eq!(fault("none > 1"), Fault::NotComparable);
    assert_eq!(fault("null < 1"), Fault::NotComparable);
    assert_eq!(fault("null + 1"), Fault::NotComparable);
    assert_eq!(
        fault("nothing() || true"),
        Fault::Function("nothing there".into())
    );
    assert_eq!(fault("y"), Fault::NoName("y".into()));
    for text in [
        "steps[0.5]",
        "'a' < 1",
        "'a' - 'b'",
        "1 && true",
        "!1",
        "-'a'",
        "x.wall",
        "1 ? 2 : 3",
        "size(1)",
        "size(1, 2)",
        "[1].all(x, x)",
    ] {
        assert!(
            matches!(fault(text), Fault::Wrong(_)),
            "{text}: {:?}",
            fault(text)
        );
    }
    is("1 / 0 > 1e300", true);
    is("none == none", false);
}

#[test]
fn what_is_no_expression_says_where() {
    for (text, at) in [
        ("1 +", 3),
        ("1 2", 2),
        ("(1", 2),
        ("a = b", 2),
        ("a & b", 2),
        ("'abc", 0),
        ("'a\\q'", 0),
        ("1x", 0),
        ("1e999", 0),
        ("steps.filter(s)", 14),
        ("steps.filter(1, true)", 13),
        ("steps.filter(s, true, s)", 20),
        ("has(x)", 4),
        ("x ? 1", 5),
        ("[1, , 2]", 4),
        ("#", 0),
        ("@ramp('a', 'b')", 0),
        ("in", 0),
        ("x in", 4),
        ("é", 0),
    ] {
        assert_eq!(parse(text).map_err(|bad| bad.at), Err(at), "{text}");
    }
}

#[test]
fn what_is_deep_or_long_is_refused_and_nothing_overflows() {
    let deep = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
    assert!(parse(&deep(DEPTH_MAX - 1)).is_ok());
    for text in [
        deep(2_000),
        "-".repeat(3_000) + "1",
        "!".repeat(3_000) + "x",
        "[".repeat(4_000),
    ] {
        assert!(parse(&text).is_err());
    }
    assert!(parse(&format!("1{}", " + 1".repeat(200))).is_ok());
    assert!(parse(&format!("1{}", " + 1".repeat(900))).is_err());
    assert!(parse(&format!("x{}", ".a".repeat(900))).is_err());
}

#[test]
fn an_evaluation_ends() {
    let tens = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let mut text = "1".to_owned();
    for depth in 0..12 {
        text = format!("{tens}.map(v{depth}, {text})");
    }
    assert!(matches!(value(&text), Err(Fault::Wrong(why)) if why.contains("too long")));
}

/// Numbers of a generator with a seed (Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A random expression of numbers with as few brackets as its meaning allows, how tightly it binds, and its value.
fn arithmetic(random: &mut Random, depth: u32) -> (String, u8, f64) {
    if depth == 0 || random.below(5) == 0 {
        let number = random.below(100) as f64 / 4.0;
        return (format!("{number}"), 9, number);
    }
    if random.below(6) == 0 {
        let (text, binds, value) = arithmetic(random, depth - 1);
        return (format!("-{}", bracketed(text, binds, 6)), 6, -value);
    }
    let (sign, binds): (char, u8) =
        [('+', 4), ('-', 4), ('*', 5), ('/', 5)][random.below(4) as usize];
    let (left, left_binds, a) = arithmetic(random, depth - 1);
    let (right, right_binds, b) = arithmetic(random, depth - 1);
    let value = match sign {
        '+' => a + b,
        '-' => a - b,
        '*' => a * b,
        _ => a / b,
    };
    let (left, right) = (
        bracketed(left, left_binds, binds),
        bracketed(right, right_binds, binds + 1),
    );
    (format!("{left} {sign} {right}"), binds, value)
}

fn bracketed(text: String, binds: u8, least: u8) -> String {
    match binds < least {
        true => format!("({text})"),
        false => text,
    }
}

#[test]
fn any_arithmetic_has_the_value_that_its_brackets_say() {
    for seed in 1..2_000 {
        let (text, _, wanted) = arithmetic(&mut Random(seed * 0x9E37_79B9), 5);
        let got = value(&text).and_then(|value| value.number()).unwrap();
        assert!(
            got == wanted || (got.is_nan() && wanted.is_nan()),
            "seed {seed}: {text} is {got}, and not {wanted}"
        );
    }
}

#[test]
fn no_text_makes_it_panic() {
    const PARTS: [&str; 24] = [
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        "steps",
        "x",
        "1",
        "1.5",
        "'a'",
        "\"",
        "\\",
        "&&",
        "!",
        "-",
        "?",
        ":",
        "in",
        ".map(s, ",
        ".filter(s, ",
        "has(",
        "é",
        "// ",
    ];
    for seed in 1..20_000 {
        let mut random = Random(seed * 0x9E37_79B9);
        let parts = 1 + random.below(14);
        let text: String = (0..parts)
            .map(|_| PARTS[random.below(24) as usize])
            .collect();
        if let Ok(node) = parse(&text) {
            let _ = context().value(&node, &NO_NOTES);
        }
    }
}
