//! Descriptors from files: the protobuf language, compiled here, or a set that was compiled
//! elsewhere.

use std::path::{Path, PathBuf};

use prost_reflect::DescriptorPool;
use protox::Compiler;

use crate::exit::Failed;

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
        std::fs::File::open(file)
            .map_err(|error| Failed::usage(format!("--proto {}: {error}", file.display())))?;
    }
    let beside = files.iter().map(|file| match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    });
    let folders = folders.iter().map(PathBuf::as_path).chain(beside);
    // The debugging form is the one with file, line and column.
    let wrong = |error: protox::Error| Failed::usage(format!("{error:?}"));
    let mut compiler = Compiler::new(folders).map_err(wrong)?;
    for file in files {
        compiler.open_file(file).map_err(wrong)?;
    }
    Ok(compiler.descriptor_pool())
}

/// Reads a `FileDescriptorSet`.
pub(super) fn of_set(file: &Path) -> Result<DescriptorPool, Failed> {
    let named = |error: &dyn std::fmt::Display| format!("--protoset {}: {error}", file.display());
    let bytes = std::fs::read(file).map_err(|error| Failed::usage(named(&error)))?;
    DescriptorPool::decode(bytes.as_slice()).map_err(|error| {
        Failed::usage(format!(
            "{}; a whole set is made by `protoc --include_imports --descriptor_set_out=FILE`",
            named(&error)
        ))
    })
}
