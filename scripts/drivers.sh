#!/usr/bin/env bash
# Foreign load generators under which the same observation is made: wrk and h2load from
# Debian, autocannon from npm, ghz and fortio from their sources in Go; nghttp2's server, which tests
# of HTTP/2 load; tcpdump, beside which tests count packets; and what lays links. None is vital: what
# is not there is said and left out.
set -uo pipefail
cd "$(dirname "$0")/.."

say() { echo "drivers: $*"; }

. scripts/packages.sh
install_or_say drivers "steps that need them are left out" wrk:wrk h2load:nghttp2-client
install_or_say drivers "tests that load it are left out" nghttpd:nghttp2-server
install_or_say drivers "the test that counts segments with it is left out" tcpdump:tcpdump
install_or_say tests "tests of the page and of coded bodies in a browser are left out" chromium:chromium
install_or_say lab "links cannot be laid, and tests that need them are left out" ip:iproute2 tc:iproute2

# npm comes with node, but not with Debian's.
if [ ! -x bench/node_modules/.bin/autocannon ]; then
	install_or_say drivers "so autocannon is not, and steps that need it are left out" npm:npm
fi

if [ ! -x bench/node_modules/.bin/autocannon ]; then
	if command -v npm >/dev/null 2>&1; then
		npm ci --prefix bench --no-audit --no-fund --silent >/dev/null 2>&1 ||
			say "could not install autocannon; steps that need it are left out"
	else
		say "autocannon is not there: steps that need it are left out"
	fi
fi

# Those that call gRPC, shared with the benchmarks.
wanted=()
for program in ghz fortio; do
	command -v "$program" >/dev/null 2>&1 || [ -x "bench/.peers/bin/$program" ] || wanted+=("$program")
done
if ((${#wanted[@]})); then
	./bench/install-peers.sh "${wanted[@]}" | while read -r program outcome; do
		case $outcome in
		"installed ("*) ;;
		*) say "$program $outcome; steps and tests that need it are left out" ;;
		esac
	done
fi
exit 0
