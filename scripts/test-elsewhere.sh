#!/usr/bin/env bash
# Tests of what depends on the kernel and on the version of control groups, on another of each
# (elsewhere.sh): quotas, pauses and what a kill leaves of them, links, groups that stand, io_uring under a
# load. An emulated machine stands still now and then, and its clock may be too slow for a CPU stealer: each test
# has three tries, and those that want a CPU stealer or whole windows may be left out.
set -euo pipefail
cd "$(dirname "$0")/.."

# A test program of a crate, built.
program() { # crate, test
	cargo test -q -p "$1" --test "$2" --no-run --locked --message-format=json |
		grep '"profile":{[^}]*"test":true' | sed -n 's|.*"executable":"\([^"]*\)".*|\1|p'
}
squeeze=$(program wallfinder-testbed squeeze)
blackbox=$(program wallfinder-tests blackbox)

within=$(mktemp)
trap 'rm -f "$within"' EXIT
cat >"$within" <<'WITHIN'
failed=() passed=0
each() { # folder, program, filters
	cd "$1" || exit 1
	local program=$2 test try tries
	shift 2
	for test in $("$program" --list "$@" 2>/dev/null | sed -n 's/: test$//p'); do
		for try in 1 2 3; do
			"$program" --exact "$test" --nocapture >/run/said 2>&1 && break
		done
		if grep -q '^test result: ok' /run/said; then
			tries=$([ "$try" = 1 ] || echo ", at the $try. try")
			echo "ok      $test$tries$(sed -n 's/.*skipped: /, skipped: /p' /run/said | head -n 1)"
			passed=$((passed + 1))
		elif grep -q 'a CPU stealer .* is out of reach: a step of this machine.s clock' /run/said; then
			echo "left    $test: the emulated clock is too slow for its CPU stealer"
		else
			cat /run/said
			failed+=("$test")
		fi
	done
}
WITHIN
cat >>"$within" <<WITHIN
each '$PWD/crates/testbed' '$squeeze'
each '$PWD/tests' '$blackbox' lab:: standing:: ordinary:: grpc:: \
	--skip standing::a_find_that_is_killed --skip standing::rates_are_lowered
WITHIN
cat >>"$within" <<'WITHIN'
echo "$passed passed, ${#failed[@]} failed: ${failed[*]}"
[ "$passed" -gt 0 ] && [ "${#failed[@]}" = 0 ]
WITHIN
./scripts/elsewhere.sh bash "$within"
