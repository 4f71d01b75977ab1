#!/bin/sh
# Installs the peers that can be installed, at fixed versions, where they are missing: all of them, or
# those that are named (`install-peers.sh ghz fortio`).
# Nothing outside of bench/ is touched but by Debian's package manager, and that only as root.
set -eu
cd "$(dirname "$0")"

shb_version=0.6.0
oha_version=1.16.0
ghz_version=v0.121.0
fortio_version=v1.68.2
k6_version=v1.8.1
vegeta_version=v12.13.0

say() { printf '%-12s %s\n' "$1" "$2"; }

only=" $* "
wanted() { # program
  [ "$only" = "  " ] && return 0
  case "$only" in *" $1 "*) return 0 ;; esac
  return 1
}

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

from_go() { # program, package, version
  if [ -x ".peers/bin/$1" ]; then
    say "$1" "is here"
  elif ! command -v go >/dev/null 2>&1; then
    say "$1" "is missing: go is not installed"
  elif why=$(GOBIN="$PWD/.peers/bin" go install "$2@$3" 2>&1); then
    say "$1" "installed ($3)"
  else
    say "$1" "could not be installed: $(printf '%s\n' "$why" | tail -n 1)"
  fi
}

if wanted ghz; then from_go ghz github.com/bojand/ghz/cmd/ghz "$ghz_version"; fi
if wanted k6; then from_go k6 go.k6.io/k6 "$k6_version"; fi
if wanted vegeta; then from_go vegeta github.com/tsenart/vegeta/v12 "$vegeta_version"; fi
if wanted fortio; then from_go fortio fortio.org/fortio "$fortio_version"; fi
if wanted wrk; then debian wrk wrk; fi
if wanted h2load; then debian nghttp2-client h2load; fi
if wanted nghttpd; then debian nghttp2-server nghttpd; fi
if wanted shb; then crate shb "$shb_version"; fi
if wanted oha; then crate oha "$oha_version"; fi
if ! wanted autocannon; then
  exit 0
elif [ -e node_modules/autocannon/autocannon.js ]; then
  say autocannon "is here"
elif command -v npm >/dev/null 2>&1; then
  npm ci --silent --no-fund --no-audit
  say autocannon "installed"
else
  say autocannon "is missing: npm is not installed"
fi
