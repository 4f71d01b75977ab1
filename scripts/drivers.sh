#!/usr/bin/env bash
# Foreign load generators under which the same observation is made: wrk and h2load from
# Debian, autocannon from npm; nghttp2's server, which tests of HTTP/2 load; and tcpdump,
# beside which tests count packets. None is
# vital: what is not there is said and left out.
set -uo pipefail
cd "$(dirname "$0")/.."

say() { echo "drivers: $*"; }

. scripts/packages.sh
install_or_say drivers "steps that need them are left out" wrk:wrk h2load:nghttp2-client
install_or_say drivers "tests that load it are left out" nghttpd:nghttp2-server
install_or_say drivers "the test that counts segments with it is left out" tcpdump:tcpdump

if [ ! -x bench/node_modules/.bin/autocannon ]; then
	if command -v npm >/dev/null 2>&1; then
		npm ci --prefix bench --no-audit --no-fund --silent >/dev/null 2>&1 ||
			say "could not install autocannon; steps that need it are left out"
	else
		say "npm is not there, so autocannon is not: steps that need it are left out"
	fi
fi
exit 0
