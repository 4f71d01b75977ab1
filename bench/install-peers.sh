#!/bin/sh
# Installs the peers that can be installed, at fixed versions, where they are missing.
# Nothing outside of bench/ is touched but by Debian's package manager, and that only as root.
set -eu
cd "$(dirname "$0")"

shb_version=0.6.0
oha_version=1.16.0
ghz_version=v0.121.0

say() { printf '%-12s %s\n' "$1" "$2"; }

debian() { # package, program
  if command -v "$2" >/dev/null 2>&1; then
    say "$2" "is here"
  elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get install -y -q "$1" && say "$2" "installed"
  else
    say "$2" "is missing: apt-get install $1 (as root)"
  fi
}

crate() { # crate, version
  if grep -qs "\"$1 $2 " .peers/.crates.toml; then
    say "$1" "is here ($2)"
  elif command -v cargo >/dev/null 2>&1; then
    CARGO_TARGET_DIR=.peers/target cargo install --quiet --locked --root .peers "$1@$2"
    rm -rf .peers/target
    say "$1" "installed ($2)"
  else
    say "$1" "is missing: cargo is not installed"
  fi
}

if [ -x .peers/bin/ghz ]; then
  say ghz "is here"
elif command -v go >/dev/null 2>&1; then
  if GOBIN="$PWD/.peers/bin" go install "github.com/bojand/ghz/cmd/ghz@$ghz_version"; then
    say ghz "installed ($ghz_version)"
  else
    say ghz "could not be installed"
  fi
else
  say ghz "is missing: go is not installed"
fi
debian wrk wrk
debian nghttp2-client h2load
debian nghttp2-server nghttpd
crate shb "$shb_version"
crate oha "$oha_version"
if [ -e node_modules/autocannon/autocannon.js ]; then
  say autocannon "is here"
elif command -v npm >/dev/null 2>&1; then
  npm ci --silent --no-fund --no-audit
  say autocannon "installed"
else
  say autocannon "is missing: npm is not installed"
fi
