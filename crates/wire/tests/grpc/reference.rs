//! The messages of a whole body, read in the plainest way: what the reader is compared with.

/// How many whole messages there are, and whether another one has begun; `None` where a
/// prefix is not sound.
pub(crate) fn messages(mut body: &[u8], bytes_max: u32) -> Option<(u32, bool)> {
    let mut count = 0;
    while let Some((flag, rest)) = body.split_first() {
        if *flag != 0 {
            return None;
        }
        let Some((length, rest)) = rest.split_first_chunk() else {
            return Some((count, true));
        };
        let length = u32::from_be_bytes(*length);
        if length > bytes_max {
            return None;
        }
        match rest.get(length as usize..) {
            Some(after) => body = after,
            None => return Some((count, true)),
        }
        count += 1;
    }
    Some((count, false))
}
