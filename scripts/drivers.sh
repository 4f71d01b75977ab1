#!/usr/bin/env bash
# Foreign load generators under which the same observation is made: wrk and h2load from
# Debian, autocannon from npm. None is vital: what is not there is said and left out.
set -uo pipefail
cd "$(dirname "$0")/.."

say() { echo "drivers: $*"; }

packages=()
command -v wrk >/dev/null 2>&1 || packages+=(wrk)
command -v h2load >/dev/null 2>&1 || packages+=(nghttp2-client)
if ((${#packages[@]})); then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		export DEBIAN_FRONTEND=noninteractive
		if ! { apt-get update -qq && apt-get install -y -qq "${packages[@]}"; } >/dev/null 2>&1; then
			say "could not install ${packages[*]}; steps that need them are left out"
		fi
	else
		say "not there: ${packages[*]} (Debian: apt-get install ${packages[*]}); steps that need them are left out"
	fi
fi

if [ ! -x bench/node_modules/.bin/autocannon ]; then
	if command -v npm >/dev/null 2>&1; then
		npm ci --prefix bench --no-audit --no-fund --silent >/dev/null 2>&1 ||
			say "could not install autocannon; steps that need it are left out"
	else
		say "npm is not there, so autocannon is not: steps that need it are left out"
	fi
fi
exit 0
