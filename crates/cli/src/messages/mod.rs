//! Messages of gRPC calls: from a method's name and JSON to bytes, at run time.
//!
//! ```text
//!   --proto, -I ─► files ──┐
//!   --protoset  ─► files ──┼─► DescriptorPool ─► the method ─► its kind
//!   neither     ─► reflect ┘                         └─ JSON ─► encoded messages
//! ```
//!
//! What it is not: a look at answers. Those of reflection are decoded; of those of a load a worker finds single values,
//! where [`Method::field`] says.

mod ask;
mod files;
mod places;
mod pointer;
mod reflect;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde_json::Value;
use wallfinder_wire::grpc::Kind;
use wallfinder_wire::mix::{FieldPath, Scalar, Text};
use wallfinder_wire::tls;

use crate::exit::Failed;

/// Where a method is described.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Files of the protobuf language, and where their imports are looked for.
    Files {
        files: Vec<PathBuf>,
        folders: Vec<PathBuf>,
    },
    /// A `FileDescriptorSet`.
    Set(PathBuf),
    /// The server itself, by reflection.
    Server {
        address: SocketAddr,
        tls: Option<tls::Client>,
        authority: String,
        /// What its guard may want to see.
        metadata: Vec<(String, String)>,
    },
}

/// What is known of a call before it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) kind: Kind,
    pub(crate) messages: Vec<Vec<u8>>,
}

/// A method, and with it its messages.
#[derive(Debug, Clone)]
pub(crate) struct Method(MethodDescriptor);

impl Method {
    /// What is sent to it: one object of JSON for a message, an array of them where the client streams; nothing stands
    /// for `{}`.
    pub(crate) fn describe(&self, json: Option<&str>) -> Result<Described, Failed> {
        Ok(Described {
            kind: kind(&self.0),
            messages: self.encode(json.unwrap_or("{}"))?,
        })
    }

    /// The same with places: the messages of a call, with their prefixes.
    pub(crate) fn with_places(&self, json: &Text) -> Result<Text, String> {
        places::encoded(&self.0.input(), self.0.is_client_streaming(), json)
    }

    /// Where a pointer leads in its answers.
    pub(crate) fn field(&self, pointer: &str) -> Result<FieldPath, String> {
        pointer::path(&self.0.output(), pointer)
    }

    fn encode(&self, json: &str) -> Result<Vec<Vec<u8>>, Failed> {
        encode(&self.0, json)
    }
}

/// Finds a method (`/package.Service/Method`).
pub(crate) fn method_of(source: &Source, path: &str) -> Result<Method, Failed> {
    let (service, method) = path
        .trim_start_matches('/')
        .split_once('/')
        .ok_or_else(|| Failed::usage(format!("`{path}` is not package.Service/Method")))?;
    let (pool, origin) = match source {
        Source::Files { files, folders } => (files::compiled(files, folders)?, shown(files)),
        Source::Set(file) => (files::of_set(file)?, shown(std::slice::from_ref(file))),
        Source::Server {
            address,
            tls,
            authority,
            metadata,
        } => {
            let server = reflect::Server {
                address: *address,
                tls: tls.as_ref(),
                authority,
                metadata,
                until: Instant::now() + ask::PATIENCE,
            };
            (
                server.describe(service)?,
                format!("the server at {address}"),
            )
        }
    };
    find(&pool, service, method, &origin).map(Method)
}

fn shown(files: &[PathBuf]) -> String {
    let names = files.iter().map(|file| file.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}

fn kind(method: &MethodDescriptor) -> Kind {
    Kind::of(method.is_client_streaming(), method.is_server_streaming())
}

fn find(
    pool: &DescriptorPool,
    service: &str,
    method: &str,
    origin: &str,
) -> Result<MethodDescriptor, Failed> {
    let Some(found) = pool.get_service_by_name(service) else {
        let names = pool
            .services()
            .map(|service| service.full_name().to_owned());
        return Err(no_service(service, origin, names.collect()));
    };
    let named = found.methods().find(|candidate| candidate.name() == method);
    named.ok_or_else(|| {
        let names = found.methods().map(|method| match kind(&method) {
            Kind::Unary => method.name().to_owned(),
            kind => format!("{} ({})", method.name(), kind.name()),
        });
        let names = names.collect::<Vec<_>>().join(", ");
        Failed::usage(format!(
            "{service} has no method `{method}`; it has: {names}"
        ))
    })
}

fn no_service(service: &str, origin: &str, mut there: Vec<String>) -> Failed {
    there.sort();
    let there = match there.as_slice() {
        [] => "there is none at all".to_owned(),
        names => format!("there are: {}", names.join(", ")),
    };
    Failed::usage(format!("no service `{service}` in {origin}; {there}"))
}

fn encode(method: &MethodDescriptor, json: &str) -> Result<Vec<Vec<u8>>, Failed> {
    let input = method.input();
    if method.is_client_streaming() && json.trim_start().starts_with('[') {
        let objects: Vec<Value> = serde_json::from_str(json)
            .map_err(|error| Failed::usage(format!("the body is not an array of JSON: {error}")))?;
        let encoded = objects.into_iter().enumerate().map(|(at, object)| {
            let message = DynamicMessage::deserialize(input.clone(), object);
            let message = message.map_err(|error| {
                let which = format!("message {} of the body", at + 1);
                not_a_message(&input, &which, &error)
            })?;
            Ok(message.encode_to_vec())
        });
        return encoded.collect();
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(input.clone(), &mut reader)
        .and_then(|message| reader.end().map(|()| message))
        .map_err(|error| not_a_message(&input, "the body", &error))?;
    Ok(vec![message.encode_to_vec()])
}

/// Most fields that are named where JSON does not fit them.
const FIELDS_SHOWN: usize = 20;

fn not_a_message(input: &MessageDescriptor, which: &str, error: &serde_json::Error) -> Failed {
    let (name, has) = (input.full_name(), fields_of(input));
    Failed::usage(format!("{which} is not a {name}: {error}; {name} {has}"))
}

/// What a message has, in words.
fn fields_of(input: &MessageDescriptor) -> String {
    let mut fields: Vec<String> = input
        .fields()
        .take(FIELDS_SHOWN)
        .map(|field| {
            let list = if field.is_list() { "repeated " } else { "" };
            format!("{} ({list}{})", field.json_name(), kind_name(&field.kind()))
        })
        .collect();
    if input.fields().len() > FIELDS_SHOWN {
        fields.push("…".into());
    }
    match fields.as_slice() {
        [] => "has no fields".to_owned(),
        names => format!("has: {}", names.join(", ")),
    }
}

/// How a value that is no message is encoded.
fn scalar_of(kind: &prost_reflect::Kind) -> Option<Scalar> {
    use prost_reflect::Kind;
    Some(match kind {
        Kind::Message(_) => return None,
        Kind::Enum(_) | Kind::Int32 => Scalar::Int32,
        Kind::Int64 => Scalar::Int64,
        Kind::Uint32 => Scalar::Uint32,
        Kind::Uint64 => Scalar::Uint64,
        Kind::Sint32 => Scalar::Sint32,
        Kind::Sint64 => Scalar::Sint64,
        Kind::Fixed32 => Scalar::Fixed32,
        Kind::Fixed64 => Scalar::Fixed64,
        Kind::Sfixed32 => Scalar::Sfixed32,
        Kind::Sfixed64 => Scalar::Sfixed64,
        Kind::Float => Scalar::Float,
        Kind::Double => Scalar::Double,
        Kind::Bool => Scalar::Bool,
        Kind::String => Scalar::Text,
        Kind::Bytes => Scalar::Bytes,
    })
}

fn kind_name(kind: &prost_reflect::Kind) -> String {
    match kind {
        prost_reflect::Kind::Message(message) => message.full_name().to_owned(),
        prost_reflect::Kind::Enum(names) => names.full_name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(source: &Source, path: &str, json: Option<&str>) -> Result<Described, Failed> {
        method_of(source, path)?.describe(json)
    }

    const SHOP: &str = r#"
syntax = "proto3";
package shop.v1;
import "parts/price.proto";
import "google/protobuf/timestamp.proto";
enum Size { SMALL = 0; LARGE = 2; }
message Order {
  string name = 1;
  int64 count = 2;
  repeated Price prices = 3;
  Size size = 4;
  map<string, bool> flags = 5;
  bytes blob = 6;
  google.protobuf.Timestamp at = 7;
}
message Nothing {}
service Orders {
  rpc Put(Order) returns (Nothing);
  rpc PutAll(stream Order) returns (Nothing);
  rpc Watch(Nothing) returns (stream Order);
  rpc Talk(stream Order) returns (stream Order);
}
"#;
    const PRICE: &str = r#"
syntax = "proto3";
package shop.v1;
message Price { double amount = 1; string currency_code = 2; }
"#;

    /// A folder with `shop.proto`, and what it imports in another one.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("wallfinder-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("lib/parts")).unwrap();
            std::fs::write(path.join("shop.proto"), SHOP).unwrap();
            std::fs::write(path.join("lib/parts/price.proto"), PRICE).unwrap();
            Folder(path)
        }

        fn source(&self, file: &str) -> Source {
            Source::Files {
                files: vec![self.0.join(file)],
                folders: vec![self.0.join("lib")],
            }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[track_caller]
    fn refused(source: &Source, path: &str, json: &str) -> String {
        let failed = describe(source, path, Some(json)).unwrap_err();
        assert_eq!(failed.code, crate::exit::BAD_ARGUMENTS);
        failed.message
    }

    #[test]
    fn json_becomes_the_bytes_that_protobuf_says() {
        let folder = Folder::new("messages");
        let source = folder.source("shop.proto");
        let json = r#"{"name": "x", "count": "300", "prices": [{"amount": 1.5, "currencyCode": "CHF"}],
            "size": "LARGE", "flags": {"a": true}, "blob": "AP8=", "at": "1970-01-01T00:00:01Z"}"#;
        let described = describe(&source, "/shop.v1.Orders/Put", Some(json)).unwrap();
        assert_eq!(described.kind, Kind::Unary);
        let expected = b"\x0a\x01x\x10\xac\x02\
            \x1a\x0e\x09\0\0\0\0\0\0\xf8\x3f\x12\x03CHF\
            \x20\x02\x2a\x05\x0a\x01a\x10\x01\x32\x02\0\xff\x3a\x02\x08\x01";
        assert_eq!(described.messages, [expected.to_vec()]);
        let empty = describe(&source, "/shop.v1.Orders/Watch", None).unwrap();
        assert_eq!(
            (empty.kind, empty.messages),
            (Kind::ServerStreaming, vec![vec![]])
        );
    }

    #[test]
    fn an_array_is_the_messages_of_a_client_that_streams() {
        let folder = Folder::new("streams");
        let source = folder.source("shop.proto");
        let all = |method: &str, json: &str| {
            describe(&source, &format!("/shop.v1.Orders/{method}"), Some(json)).unwrap()
        };
        let two = all("PutAll", r#" [{"name": "a"}, {}]"#);
        assert_eq!(two.kind, Kind::ClientStreaming);
        assert_eq!(two.messages, [b"\x0a\x01a".to_vec(), vec![]]);
        assert_eq!(all("Talk", "[]").messages, [] as [Vec<u8>; 0]);
        assert_eq!(all("Talk", "{}").messages, [Vec::<u8>::new()]);
        let said = refused(&source, "/shop.v1.Orders/Put", "[{}]");
        assert!(
            said.starts_with("the body is not a shop.v1.Order"),
            "{said}"
        );
        let said = refused(&source, "/shop.v1.Orders/PutAll", r#"[{}, {"nome": 1}]"#);
        assert!(
            said.starts_with("message 2 of the body is not a shop.v1.Order"),
            "{said}"
        );
    }

    #[test]
    fn what_is_missing_is_named_beside_what_there_is() {
        let folder = Folder::new("missing");
        let source = folder.source("shop.proto");
        for (path, json, says) in [
            (
                "/shop.v1.Order/Put",
                "{}",
                &["no service `shop.v1.Order`", "shop.proto", "shop.v1.Orders"][..],
            ),
            (
                "/shop.v1.Orders/Get",
                "{}",
                &[
                    "no method `Get`",
                    "Put, PutAll (client-streaming), Watch (server-streaming), Talk (bidi-streaming)",
                ],
            ),
            (
                "/shop.v1.Orders/Put",
                r#"{"nome": "x"}"#,
                &[
                    "nome",
                    "line 1",
                    "name (string), count (int64), prices (repeated shop.v1.Price), size (shop.v1.Size)",
                ],
            ),
            (
                "/shop.v1.Orders/Put",
                r#"{"count": "many"}"#,
                &["the body is not a shop.v1.Order", "line 1"],
            ),
            ("/shop.v1.Orders/Put", r#"{"size": "HUGE"}"#, &["HUGE"]),
            ("/shop.v1.Orders/Put", "{} {}", &["trailing characters"]),
            (
                "/shop.v1.Orders/Watch",
                r#"{"x": 1}"#,
                &["shop.v1.Nothing has no fields"],
            ),
            ("/shop", "{}", &["package.Service/Method"]),
        ] {
            let said = refused(&source, path, json);
            for part in says {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named_with_its_line() {
        let folder = Folder::new("files");
        let write = |name: &str, text: &str| std::fs::write(folder.0.join(name), text).unwrap();
        write("syntax.proto", "syntax = \"proto3\";\n\nmessage {\n");
        write(
            "unknown.proto",
            "syntax = \"proto3\";\nmessage A {\n  B b = 1;\n}\n",
        );
        write(
            "import.proto",
            "syntax = \"proto3\";\nimport \"no/such.proto\";\n",
        );
        for (file, says) in [
            ("syntax.proto", "syntax.proto:3:9"),
            ("unknown.proto", "unknown.proto:3:3"),
            ("import.proto", "import.proto:2:"),
            ("absent.proto", "absent.proto"),
        ] {
            let said = refused(&folder.source(file), "/a.B/C", "{}");
            assert!(said.contains(says), "{says}: {said}");
        }
    }

    #[test]
    fn a_set_of_descriptors_is_as_good_as_its_files() {
        let folder = Folder::new("set");
        let shop = [folder.0.join("shop.proto")];
        let pool = files::compiled(&shop, &[folder.0.join("lib")]).unwrap();
        let set = folder.0.join("shop.binpb");
        std::fs::write(&set, pool.encode_to_vec()).unwrap();
        let source = Source::Set(set.clone());
        let described = describe(&source, "/shop.v1.Orders/Put", Some(r#"{"name": "x"}"#)).unwrap();
        assert_eq!(described.messages, [b"\x0a\x01x".to_vec()]);
        std::fs::write(&set, b"\xff\xff").unwrap();
        let said = refused(&source, "/shop.v1.Orders/Put", "{}");
        assert!(said.contains("shop.binpb"), "{said}");
    }
}
