//! The message of the echo subjects: `Payload { id = 1, data = 2, timestamp = 3 }`
//! (`subjects/go/echo/payload/echo.proto`).

/// As long as the ids of the Go clients, so that all send as many bytes.
const ID: &str = "wallfinder-study";

/// A message with so many bytes of data, encoded.
pub fn echo(data_bytes: u32) -> Vec<u8> {
    let mut message = Vec::with_capacity(data_bytes as usize + 32);
    let mut delimited = |field: u8, bytes: &mut dyn Iterator<Item = u8>, len: u32| {
        message.push(field << 3 | 2);
        let mut rest = len;
        while rest >= 0x80 {
            message.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        message.push(rest as u8);
        message.extend(bytes);
    };
    delimited(1, &mut ID.bytes(), ID.len() as u32);
    if data_bytes > 0 {
        // Bytes that differ: nobody on the way may take them for less than they are.
        delimited(2, &mut (0..data_bytes).map(|i| (i % 251) as u8), data_bytes);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::echo;

    #[test]
    fn it_is_protobuf() {
        let empty = echo(0);
        assert_eq!(&empty[..2], &[0x0a, 16]);
        assert_eq!(empty.len(), 18);
        let some = echo(300);
        // Field 2, length-delimited, 300 as a varint.
        assert_eq!(&some[18..21], &[0x12, 0xac, 0x02]);
        assert_eq!(some.len(), 21 + 300);
    }
}
