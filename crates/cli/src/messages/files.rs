//! Descriptors from files: the protobuf language, compiled here, or a set that was compiled
//! elsewhere.

use std::path::{Path, PathBuf};

use prost_reflect::DescriptorPool;
use protox::file::{
    ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver,
};
use protox::{Compiler, Error};
use wallfinder_sys::file::{self, Source};

use crate::exit::Failed;

/// Longest file of the protobuf language.
const PROTO_BYTES_MAX: u64 = 8 << 20;
/// Longest set of descriptors.
const SET_BYTES_MAX: u64 = 64 << 20;

/// Compiles files. Imports are looked for in `folders`, and then beside the files.
pub(super) fn compiled(files: &[PathBuf], folders: &[PathBuf]) -> Result<DescriptorPool, Failed> {
    for folder in folders {
        if !folder.is_dir() {
            let folder = folder.display();
            return Err(Failed::usage(format!(
                "-I {folder}: there is no such folder"
            )));
        }
    }
    for file in files {
        check(file)
            .map_err(|error| Failed::usage(format!("--proto {}: {error}", file.display())))?;
    }
    let beside = files.iter().map(|file| match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    });
    let mut resolver = ChainFileResolver::new();
    for folder in folders.iter().map(PathBuf::as_path).chain(beside) {
        resolver.add(Bounded {
            folder: folder.to_owned(),
            files: IncludeFileResolver::new(folder.to_owned()),
        });
    }
    resolver.add(GoogleFileResolver::new());
    // The debugging form is the one with file, line and column.
    let wrong = |error: Error| Failed::usage(format!("{error:?}"));
    let mut compiler = Compiler::with_file_resolver(resolver);
    for file in files {
        compiler.open_file(file).map_err(wrong)?;
    }
    Ok(compiler.descriptor_pool())
}

/// Files of a folder that are regular ones and not too long, imports among them.
struct Bounded {
    folder: PathBuf,
    files: IncludeFileResolver,
}

impl FileResolver for Bounded {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        self.files.resolve_path(path)
    }

    fn open_file(&self, name: &str) -> Result<File, Error> {
        let path = self.folder.join(name);
        if path.exists() {
            check(&path)
                .map_err(|error| Error::new(format!("{} ({name}): {error}", path.display())))?;
        }
        // The library reads it once more: only so does it keep the path, by which it tells which of two
        // files of one name it took.
        self.files.open_file(name)
    }
}

fn check(file: &Path) -> Result<(), file::Unread> {
    file::read(Source::File(file.into()), PROTO_BYTES_MAX, file::PATIENCE).map(drop)
}

/// Reads a `FileDescriptorSet`.
pub(super) fn of_set(file: &Path) -> Result<DescriptorPool, Failed> {
    let named = |error: &dyn std::fmt::Display| format!("--protoset {}: {error}", file.display());
    let bytes = file::read(Source::File(file.into()), SET_BYTES_MAX, file::PATIENCE)
        .map_err(|error| Failed::usage(named(&error)))?;
    DescriptorPool::decode(bytes.as_slice()).map_err(|error| {
        Failed::usage(format!(
            "{}; a whole set is made by `protoc --include_imports --descriptor_set_out=FILE`",
            named(&error)
        ))
    })
}

/// What `then` makes of a file with this text, which is gone afterwards.
#[cfg(test)]
pub(super) fn with_file<T>(text: &str, then: impl FnOnce(PathBuf) -> T) -> T {
    let folder = std::env::temp_dir().join(format!(
        "wallfinder-proto-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("test.proto");
    std::fs::write(&file, text).unwrap();
    let made = then(file);
    std::fs::remove_dir_all(folder).unwrap();
    made
}
