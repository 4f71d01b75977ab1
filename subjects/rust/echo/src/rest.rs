//! The echo as a POST of a binary body to /echo, over HTTP/1.1, by hyper.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::answer::{Kind, MESSAGE_BYTES_MAX};

const CONTENT: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Answers requests until the client leaves.
pub async fn converse(stream: TcpStream, kind: Kind) -> Result<(), hyper::Error> {
    let service = service_fn(|request| answer(request, &kind));
    http1::Builder::new()
        // Names of fields as Go writes them, so that an answer is as long.
        .title_case_headers(true)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(
    request: Request<Incoming>,
    kind: &Kind,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() != "/echo" {
        return Ok(refusal(StatusCode::NOT_FOUND, "404 page not found\n"));
    }
    if request.method() != Method::POST {
        let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
        answer
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
        return Ok(answer);
    }
    let body = Limited::new(request.into_body(), MESSAGE_BYTES_MAX);
    let Ok(body) = body.collect().await else {
        let why = "the body cannot be read\n";
        return Ok(refusal(StatusCode::BAD_REQUEST, why));
    };
    let body = body.to_bytes();
    // One allocation, and for most answers no more than it needs.
    let mut encoded = Vec::with_capacity(body.len() + 16);
    if kind.answer(&body, &mut encoded).is_err() {
        let why = "the body is no payload\n";
        return Ok(refusal(StatusCode::BAD_REQUEST, why));
    }
    let length = HeaderValue::from(encoded.len());
    let mut answer = Response::new(Full::new(Bytes::from(encoded)));
    // In the order in which Go writes them; hyper adds the date.
    answer.headers_mut().insert(CONTENT_LENGTH, length);
    answer.headers_mut().insert(CONTENT_TYPE, CONTENT);
    Ok(answer)
}

fn refusal(status: StatusCode, why: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(why.as_bytes())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, TEXT);
    answer
}
