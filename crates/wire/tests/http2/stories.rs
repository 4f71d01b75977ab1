//! Header blocks of other encoders, as `testdata/hpack/README.md` says, and the crate
//! `fluke-hpack` as a second opinion in both directions.

use proptest::prelude::*;
use wallfinder_wire::http2::hpack::{
    Decoder, Field, HpackError, Interpret, Limits, RequestBlocks, StaticFields,
};

/// Keeps the text of every field.
struct Text;

impl Interpret for Text {
    type Name = Vec<u8>;
    type Value = Vec<u8>;

    fn name(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn value(_: &Vec<u8>, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}

type List = Vec<(Vec<u8>, Vec<u8>)>;

struct Reader {
    decoder: Decoder<Text>,
    known: StaticFields<Text>,
    scratch: Vec<u8>,
}

impl Reader {
    fn new(table_bytes_max: u32) -> Reader {
        Reader {
            decoder: Decoder::new(table_bytes_max),
            known: StaticFields::new(),
            scratch: Vec::new(),
        }
    }

    fn read(&mut self, block: &[u8]) -> Result<List, HpackError> {
        let limits = Limits {
            list_bytes_max: 1 << 20,
            fields_max: 5000,
        };
        let mut list = List::new();
        let (known, scratch) = (&self.known, &mut self.scratch);
        self.decoder
            .decode(known, scratch, limits, block, |name, value| {
                list.push((name.clone(), value.clone()));
            })?;
        Ok(list)
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).expect("hex") as u8;
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| digit(&pair[0]) << 4 | digit(&pair[1]))
        .collect()
}

fn read_story(name: &str, table_bytes_max: u32, cases: usize) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/hpack");
    let text = std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap();
    let mut reader = Reader::new(table_bytes_max);
    let mut read = 0;
    for case in text.split("\n\n").filter(|case| !case.is_empty()) {
        let (block, fields) = case.split_once('\n').expect("hex, then fields");
        let expected: List = fields
            .lines()
            .map(|line| {
                let colon = 1 + line[1..].find(": ").expect("name: value");
                (line[..colon].into(), line[colon + 2..].into())
            })
            .collect();
        let list = reader.read(&hex(block));
        assert_eq!(list, Ok(expected), "case {read} of {name}");
        read += 1;
    }
    assert_eq!(read, cases, "{name}");
}

#[test]
fn blocks_of_other_encoders_are_read_as_they_were_meant() {
    for (name, cases) in [
        ("go-hpack", 12),
        ("haskell-http2-linear-huffman", 12),
        ("haskell-http2-static", 8),
        ("nghttp2", 12),
        ("node-http2-hpack", 10),
        ("python-hpack", 12),
        ("swift-nio-hpack-huffman", 12),
        ("swift-nio-hpack-plain-text", 8),
    ] {
        read_story(name, 4096, cases);
    }
    read_story("nghttp2-16384-4096", 16_384, 12);
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(vec!["content-type", "server", ":status", "date", "x"])
            .prop_map(|name| name.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..40),
    ]
}

fn lists() -> impl Strategy<Value = Vec<List>> {
    let values = prop::collection::vec(any::<u8>(), 0..300);
    let list = prop::collection::vec((names(), values), 1..20);
    prop::collection::vec(list, 1..8)
}

proptest! {
    /// Names and values repeat, so entries are found, inserted and evicted.
    #[test]
    fn blocks_of_a_second_encoder_are_read_as_they_were_meant(
        lists in lists(),
        repeats in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut encoder = fluke_hpack::Encoder::new();
        let mut reader = Reader::new(4096);
        let again = repeats.iter().map(|index| index.get(&lists));
        for list in lists.iter().chain(again) {
            let fields = list.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
            let block = encoder.encode(fields);
            prop_assert_eq!(&reader.read(&block).unwrap(), list);
        }
    }

    #[test]
    fn requests_are_read_by_a_second_decoder_as_by_ours(
        fields in prop::collection::vec(("[a-z-]{1,30}", prop::collection::vec(any::<u8>(), 0..400)), 0..30),
    ) {
        let mut list: Vec<Field> = [(":method", "GET"), (":scheme", "http"), (":path", "/x")]
            .iter()
            .map(|(name, value)| Field { name: (*name).into(), value: value.as_bytes().into() })
            .collect();
        list.extend(fields.into_iter().map(|(name, value)| Field { name, value }));
        let expected: List = list
            .iter()
            .map(|field| (field.name.as_bytes().to_vec(), field.value.clone()))
            .collect();
        let blocks = RequestBlocks::new(&list);
        prop_assert!(blocks.table_bytes <= 4096);
        let mut ours = Reader::new(4096);
        let mut theirs = fluke_hpack::Decoder::new();
        for block in [&blocks.literal, &blocks.first, &blocks.later, &blocks.literal, &blocks.later] {
            prop_assert_eq!(&ours.read(block).unwrap(), &expected);
            let read: List = theirs
                .decode(block)
                .unwrap()
                .into_iter()
                .map(|(name, value)| (name.to_vec(), value.to_vec()))
                .collect();
            prop_assert_eq!(&read, &expected);
        }
    }

    /// Whatever the bytes, there is an end without a panic, and the table keeps its limit.
    #[test]
    fn any_bytes_are_a_list_or_an_error(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..10),
    ) {
        let mut reader = Reader::new(512);
        for block in blocks {
            if reader.read(&block).is_err() {
                break;
            }
            prop_assert!(reader.decoder.table_bytes() <= 512);
        }
    }
}
