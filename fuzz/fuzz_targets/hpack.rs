//! Any header blocks: a list or an error, the same list each time it is encoded anew, and
//! a table within its limit.
//!
//! Blocks are separated by their lengths: one byte each.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wallfinder_wire::http2::hpack::{Decoder, Field, Interpret, StaticFields, Limits, RequestBlocks};

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

const TABLE_BYTES_MAX: u32 = 256;

type List = Vec<(Vec<u8>, Vec<u8>)>;

fn read(decoder: &mut Decoder<Text>, block: &[u8]) -> Option<List> {
    let limits = Limits {
        list_bytes_max: 1 << 16,
        fields_max: 1000,
    };
    let mut list = List::new();
    decoder
        .decode(&StaticFields::new(), &mut Vec::new(), limits, block, |name, value| {
            list.push((name.clone(), value.clone()));
        })
        .ok()?;
    Some(list)
}

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new(TABLE_BYTES_MAX);
    let mut rest = data;
    while let Some((len, after)) = rest.split_first() {
        let (block, after) = after.split_at(after.len().min(usize::from(*len)));
        rest = after;
        let Some(list) = read(&mut decoder, block) else {
            return;
        };
        assert!(decoder.table_bytes() <= TABLE_BYTES_MAX);
        let fields: Option<Vec<Field>> = list
            .iter()
            .map(|(name, value)| {
                let name = String::from_utf8(name.clone()).ok()?;
                let value = value.clone();
                Some(Field { name, value })
            })
            .collect();
        if let Some(fields) = fields {
            let blocks = RequestBlocks::new(&fields);
            let mut peer = Decoder::new(4096);
            for block in [&blocks.literal, &blocks.first, &blocks.later, &blocks.later] {
                assert_eq!(read(&mut peer, block).as_ref(), Some(&list));
            }
        }
    }
});
