//! The echo as a unary call of gRPC, on h2.
//!
//! ```text
//!   HEADERS :method POST, :path /wallfinder.echo.Echo/Call     DATA 0 length message
//!   HEADERS :status 200, content-type                           DATA 0 length message
//!   HEADERS grpc-status 0
//! ```
//!
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>. What it has not:
//! compression, deadlines and metadata; a call that needs them is refused, or goes on.

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::net::TcpStream;

use crate::answer::{Kind, MESSAGE_BYTES_MAX};

/// The method that is called.
const PATH: &str = "/wallfinder.echo.Echo/Call";
/// A flag that is not set, and a length of four bytes.
const PREFIX_BYTES: usize = 5;

/// How much a client may have on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Of a stream, in bytes.
    pub stream: u32,
    /// Of a connection.
    pub connection: u32,
}

impl Default for Windows {
    /// As hyper and tonic have it: a message of 64 KB fits with all that is around it.
    fn default() -> Windows {
        Windows {
            stream: 1 << 20,
            connection: 1 << 20,
        }
    }
}

/// A call that cannot be answered, by the codes of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused {
    code: &'static str,
    why: &'static str,
}

const UNIMPLEMENTED: &str = "12";
const INTERNAL: &str = "13";
const RESOURCE_EXHAUSTED: &str = "8";

/// Answers calls until the client leaves.
pub async fn converse(stream: TcpStream, kind: Kind, windows: Windows) -> Result<(), h2::Error> {
    let mut connection = h2::server::Builder::new()
        .initial_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .handshake(stream)
        .await?;
    while let Some(call) = connection.accept().await {
        let (request, respond) = call?;
        let kind = kind.clone();
        // A stream that its client gave up is no end to the connection.
        tokio::spawn(async move { answer(request, respond, &kind).await });
    }
    Ok(())
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    kind: &Kind,
) -> Result<(), h2::Error> {
    let content = request.headers().get(CONTENT_TYPE);
    let is_grpc = content.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if !is_grpc || request.method() != Method::POST {
        let mut answer = Response::new(());
        *answer.status_mut() = match is_grpc {
            true => StatusCode::METHOD_NOT_ALLOWED,
            false => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        };
        respond.send_response(answer, true)?;
        return Ok(());
    }
    let answered = match request.uri().path() {
        PATH => encoded(request.into_body(), kind).await?,
        _ => Err(Refused {
            code: UNIMPLEMENTED,
            why: "unknown service or method",
        }),
    };
    let mut head = Response::new(());
    let content = HeaderValue::from_static("application/grpc");
    head.headers_mut().insert(CONTENT_TYPE, content);
    match answered {
        Ok(message) => {
            let mut stream = respond.send_response(head, false)?;
            stream.send_data(message, false)?;
            stream.send_trailers(status("0", ""))
        }
        // Only trailers, in the one block that there is. What is left of the request is not
        // waited for: h2 resets the stream with NO_ERROR.
        Err(refused) => {
            head.headers_mut().extend(status(refused.code, refused.why));
            respond.send_response(head, true)?;
            Ok(())
        }
    }
}

fn status(code: &'static str, why: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    trailers.insert("grpc-message", HeaderValue::from_static(why));
    trailers
}

/// Reads the one message of a request, and gives its answer with its prefix.
async fn encoded(mut body: RecvStream, kind: &Kind) -> Result<Result<Bytes, Refused>, h2::Error> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        if whole.len() + chunk.len() > PREFIX_BYTES + MESSAGE_BYTES_MAX {
            return Ok(Err(Refused {
                code: RESOURCE_EXHAUSTED,
                why: "the message is too long",
            }));
        }
        if whole.is_empty() {
            // Of one frame, which most are, nothing is copied.
            whole = chunk
                .try_into_mut()
                .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        } else {
            whole.extend_from_slice(&chunk);
        }
    }
    Ok(message_of(&whole).and_then(|message| {
        let mut answer = Vec::with_capacity(PREFIX_BYTES + message.len() + 16);
        answer.put_slice(&[0; PREFIX_BYTES]);
        let answered = kind.answer(message, &mut answer);
        answered.map_err(|_| internal("the message is no payload"))?;
        let length = (answer.len() - PREFIX_BYTES) as u32;
        answer[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
        Ok(Bytes::from(answer))
    }))
}

/// The message behind its prefix.
fn message_of(body: &[u8]) -> Result<&[u8], Refused> {
    let (prefix, message) = body
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or(internal("there is no message"))?;
    let [flag, length @ ..] = *prefix;
    if flag != 0 {
        return Err(Refused {
            code: UNIMPLEMENTED,
            why: "messages are not decompressed",
        });
    }
    match message.len() == u32::from_be_bytes(length) as usize {
        true => Ok(message),
        false => Err(internal("the message has not the length that it says")),
    }
}

const fn internal(why: &'static str) -> Refused {
    Refused {
        code: INTERNAL,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stands_behind_its_prefix() {
        assert_eq!(message_of(b"\0\0\0\0\x02ab"), Ok(&b"ab"[..]));
        assert_eq!(message_of(b"\0\0\0\0\0"), Ok(&b""[..]));
        for (body, code) in [
            (&b""[..], INTERNAL),
            (b"\0\0\0\0", INTERNAL),
            (b"\0\0\0\0\x03ab", INTERNAL),
            (b"\0\0\0\0\x01ab", INTERNAL),
            (b"\x01\0\0\0\x02ab", UNIMPLEMENTED),
        ] {
            assert_eq!(message_of(body).map_err(|refused| refused.code), Err(code));
        }
    }
}
