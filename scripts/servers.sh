#!/usr/bin/env bash
# Servers that everybody has, for the second section of the labelled suite and one test; a browser, for
# the test of the subject content; and what shows which files root looks at.
# None is vital: what is not there is said and left out.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

install_or_say servers "scenarios that need them are left out" \
	nginx:nginx-light haproxy:haproxy node:nodejs
install_or_say hosts "tests of a server on another host are left out" ssh:openssh-client sshd:openssh-server
install_or_say systemd "the test of the agent's service is left out" systemd-analyze:systemd
install_or_say strace "the test that watches root in somebody else's folder is left out" strace:strace
install_or_say browser "the test that reads compressed pages by it is left out" chromium:chromium
exit 0
