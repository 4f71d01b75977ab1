#!/usr/bin/env bash
# Says plainly what is missing to build, and installs what may be installed.
set -euo pipefail

missing=()
need() { # command, what it is for, where it comes from
	command -v "$1" >/dev/null 2>&1 || missing+=("$1 ($2): $3")
}

need cargo "builds the tool" "https://rustup.rs, Rust 1.95 or newer"
need go "builds the subjects" "https://go.dev/dl, Go 1.26 or newer"
need gcc "links" "Debian: apt-get install gcc"

if ((${#missing[@]})); then
	echo "Missing, and not installed from here:" >&2
	printf '  %s\n' "${missing[@]}" >&2
	exit 1
fi

older() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" != "$2" ]; }

rust=$(rustc --version | awk '{print $2}')
if older "$rust" 1.95; then
	echo "Rust is $rust; 1.95 or newer is needed: rustup update stable" >&2
	exit 1
fi

go=$(go env GOVERSION | sed 's/^go//')
if older "$go" 1.26; then
	echo "Go is $go; 1.26 or newer is needed: https://go.dev/dl" >&2
	exit 1
fi

# Formatting and lints are part of the tests.
if ! cargo clippy --version >/dev/null 2>&1 || ! cargo fmt --version >/dev/null 2>&1; then
	if command -v rustup >/dev/null 2>&1; then
		rustup component add clippy rustfmt
	else
		echo "cargo fmt and cargo clippy are needed by 'make test': install rustfmt and clippy" >&2
	fi
fi
