#!/usr/bin/env bash
# Servers that everybody has, for the second section of the labelled suite and one test.
# None is vital: what is not there is said and left out.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

install_or_say servers "scenarios that need them are left out" \
	nginx:nginx-light haproxy:haproxy node:nodejs
exit 0
