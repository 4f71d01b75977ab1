//! The echo on a plain stream: each message follows its length, four bytes, the most
//! significant first.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answer::{Kind, MESSAGE_BYTES_MAX};
use crate::credit::{Policy, Receiver};

const LENGTH_BYTES: usize = 4;

/// Answers message after message, until the client leaves or breaks the frame. The buffers
/// live as long as the connection.
pub async fn converse(mut stream: TcpStream, kind: Kind, policy: Policy) -> io::Result<()> {
    let mut receiver = Receiver::begin(policy, &mut stream).await?;
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    let mut length = [0; LENGTH_BYTES];
    loop {
        match stream.read_exact(&mut length).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        };
        let count = u32::from_be_bytes(length) as usize;
        if count > MESSAGE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        request.resize(count, 0);
        receiver.read(&mut stream, &mut request).await?;
        answer.clear();
        receiver.append_owed(&mut answer);
        let begin = answer.len() + LENGTH_BYTES;
        answer.extend_from_slice(&length);
        let answered = kind.answer(&request, &mut answer);
        answered.map_err(|_| io::ErrorKind::InvalidData)?;
        let count = (answer.len() - begin) as u32;
        answer[begin - LENGTH_BYTES..begin].copy_from_slice(&count.to_be_bytes());
        stream.write_all(&answer).await?;
        receiver.answered();
    }
}
