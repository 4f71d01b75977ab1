#!/usr/bin/env bash
# Tests of what depends on the kernel and on the version of control groups, on another of each
# (elsewhere.sh): quotas, pauses and what a kill leaves of them, links, groups that stand, io_uring under a
# load. One at a time, and not those that time the machine: an emulated one stands still now and then.
set -euo pipefail
cd "$(dirname "$0")/.."

# A test program of a crate, built.
program() { # crate, test
	cargo test -q -p "$1" --test "$2" --no-run --locked --message-format=json |
		grep '"profile":{[^}]*"test":true' | sed -n 's|.*"executable":"\([^"]*\)".*|\1|p'
}
squeeze=$(program wallfinder-stage squeeze)
blackbox=$(program wallfinder-tests blackbox)

RUST_MIN_STACK=$(sed -n 's/^RUST_MIN_STACK = "\(.*\)"/\1/p' .cargo/config.toml)
export RUST_MIN_STACK RUST_TEST_THREADS=1
kills=standing::a_find_that_is_killed_leaves_rates_as_they_stood # waits for windows
./scripts/elsewhere.sh bash -c "
(cd crates/stage && '$squeeze')
stage=\$?
(cd tests && '$blackbox' lab:: standing:: ordinary:: grpc:: --skip $kills)
exit \$((stage + \$?))"
