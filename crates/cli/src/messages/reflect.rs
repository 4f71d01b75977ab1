//! Descriptors from the server itself: server reflection, v1 and else v1alpha.
//!
//! Some servers answer with a file and all that it imports, some with the file alone; so
//! imports that have not come are asked for until none is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use prost::Message as _;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::FileDescriptorProto;
use wallfinder_wire::WireError;
use wallfinder_wire::grpc::{Kind, Request};
use wallfinder_wire::tls;

use super::ask::{Unanswered, ask};
use super::no_service;
use crate::exit::Failed;

/// Imports behind imports: no program has so many.
const ROUNDS_MAX: usize = 64;

/// A server that describes itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server<'a> {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<&'a tls::Client>,
    pub(super) authority: &'a str,
    pub(super) metadata: &'a [(String, String)],
    /// When it has to have told everything.
    pub(super) until: Instant,
}

/// `ServerReflectionRequest`; one of the three is set.
#[derive(Clone, PartialEq, prost::Message)]
struct Question {
    #[prost(string, optional, tag = "3")]
    file_by_filename: Option<String>,
    #[prost(string, optional, tag = "4")]
    file_containing_symbol: Option<String>,
    #[prost(string, optional, tag = "7")]
    list_services: Option<String>,
}

/// `ServerReflectionResponse`; one of the three is set.
#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(message, optional, tag = "4")]
    files: Option<Files>,
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
    #[prost(message, optional, tag = "7")]
    error: Option<Error>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    encoded: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Service>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Error {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

impl Server<'_> {
    /// The files that a service needs.
    pub(super) fn describe(self, service: &str) -> Result<DescriptorPool, Failed> {
        let mut why = Unanswered::Class(WireError::GrpcUnimplemented);
        for version in ["v1", "v1alpha"] {
            match self.files_of(version, service) {
                Ok(files) => return pool(files),
                Err(Refused::Failed(failed)) => return Err(failed),
                Err(Refused::Unanswered(unanswered)) => why = unanswered,
            }
            if why != Unanswered::Class(WireError::GrpcUnimplemented) {
                break;
            }
        }
        let address = self.address;
        let why = match why {
            Unanswered::Class(WireError::GrpcUnimplemented) => "it has no reflection".to_owned(),
            other => other.to_string(),
        };
        Err(Failed::run(format!(
            "the server at {address} does not describe {service} ({why}); \
             give its description with --proto FILE or --protoset FILE"
        )))
    }

    fn files_of(self, version: &str, service: &str) -> Result<Found, Refused> {
        let mut files = Found::new();
        let mut questions = vec![Question {
            file_containing_symbol: Some(service.to_owned()),
            ..Question::default()
        }];
        for _ in 0..ROUNDS_MAX {
            for response in self.ask(version, &questions)? {
                if let Some(error) = response.error {
                    return Err(self.refused(version, service, &files, &error));
                }
                for encoded in response.files.iter().flat_map(|files| &files.encoded) {
                    let file = FileDescriptorProto::decode(encoded.as_slice())
                        .map_err(|error| Unanswered::Other(error.to_string()))?;
                    files.insert(file.name().to_owned(), file);
                }
            }
            add_known(&mut files);
            let names: BTreeSet<&str> = missing(&files).collect();
            questions = names
                .into_iter()
                .map(|name| Question {
                    file_by_filename: Some(name.to_owned()),
                    ..Question::default()
                })
                .collect();
            if questions.is_empty() {
                return Ok(files);
            }
        }
        let why = format!("imports behind imports, {ROUNDS_MAX} times");
        Err(Unanswered::Other(why).into())
    }

    /// An error of the first question is about the service, and of later ones about imports.
    fn refused(self, version: &str, service: &str, files: &Found, error: &Error) -> Refused {
        if !files.is_empty() {
            return Unanswered::Other(error.message.clone()).into();
        }
        let list = Question {
            // What stands here is not looked at.
            list_services: Some("*".into()),
            ..Question::default()
        };
        let listed = self.ask(version, &[list]).unwrap_or_default();
        let listed = listed.into_iter().filter_map(|response| response.services);
        let names = listed.flat_map(|services| services.services);
        let names: Vec<String> = names.map(|service| service.name).collect();
        if names.is_empty() {
            return Unanswered::Other(error.message.clone()).into();
        }
        let origin = format!("the server at {}", self.address);
        Refused::Failed(no_service(service, &origin, names))
    }

    fn ask(self, version: &str, questions: &[Question]) -> Result<Vec<Response>, Unanswered> {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let request = Request {
            kind: Kind::Bidirectional,
            metadata: self.metadata.to_vec(),
            messages: questions.iter().map(|q| q.encode_to_vec()).collect(),
            keeps_answers: true,
            ..Request::unary(self.authority, path, "")
        };
        let messages = ask(self.address, self.tls, &request, self.until)?;
        let decoded = messages
            .iter()
            .map(|message| Response::decode(message.as_slice()));
        decoded
            .collect::<Result<_, _>>()
            .map_err(|error| Unanswered::Other(error.to_string()))
    }
}

/// Files by their names.
type Found = BTreeMap<String, FileDescriptorProto>;

enum Refused {
    Unanswered(Unanswered),
    /// Known to be the user's to change.
    Failed(Failed),
}

impl From<Unanswered> for Refused {
    fn from(unanswered: Unanswered) -> Refused {
        Refused::Unanswered(unanswered)
    }
}

/// Files that every program has; not every server gives them.
fn add_known(files: &mut Found) {
    let known = DescriptorPool::global();
    let wanted: Vec<String> = missing(files).map(str::to_owned).collect();
    for name in wanted {
        if let Some(file) = known.get_file_by_name(&name) {
            files.insert(name, file.file_descriptor_proto().clone());
        }
    }
}

fn missing(files: &Found) -> impl Iterator<Item = &str> {
    let imported = files.values().flat_map(|file| &file.dependency);
    let missing = imported.filter(|name| !files.contains_key(*name));
    missing.map(String::as_str)
}

fn pool(files: Found) -> Result<DescriptorPool, Failed> {
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files.into_values())
        .map_err(|error| Failed::run(format!("what the server says of itself: {error:?}")))?;
    Ok(pool)
}
