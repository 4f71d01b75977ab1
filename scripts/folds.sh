#!/usr/bin/env bash
# Whether the linker that rustc calls knows how to keep alike functions once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'fn main() {}' >"$folder/empty.rs"
rustc --out-dir "$folder" -C link-arg=-Wl,--icf=all "$folder/empty.rs" 2>/dev/null
