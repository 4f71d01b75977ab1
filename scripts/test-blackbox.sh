#!/usr/bin/env bash
# Runs the rules of the house and the black-box tests, some at a time on whatever machine there is (tests/src/turns.rs).
# A test that fails beside others runs once more with the machine to itself: what it tests is broken when it
# fails there too. When it passes, that is said at the end, for a test which depends on its neighbours
# is a bug to be mended. More than eight that fail are no accident, and none of them runs again.
set -euo pipefail
cd "$(dirname "$0")/.."

at_most=8
: "${CARGO:=cargo}"
said=$(mktemp)
trap 'rm -f "$said"' EXIT

run() {
	"$CARGO" test --workspace --locked --test house --test blackbox "$@"
}

# One for each test.
RUST_TEST_THREADS=512 run --no-fail-fast 2>&1 | tee "$said" && exit 0

# Its name stands in the list of failures, which ends with the test program's result.
mapfile -t failed < <(sed -n 's/^test \([a-z0-9_:]*\) \.\.\. FAILED$/\1/p' "$said" | sort -u)
if [ "${#failed[@]}" = 0 ] || [ "${#failed[@]}" -gt "$at_most" ]; then
	exit 1
fi
for test in "${failed[@]}"; do
	echo "once more, and alone: $test"
	run -- --exact "$test" --nocapture || exit 1
done
printf 'failed beside other tests, and passed alone; to be mended: %s\n' "${failed[@]}"
