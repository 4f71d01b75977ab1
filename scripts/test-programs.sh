#!/usr/bin/env bash
# Runs the test programs of the workspace's crates three at a time, which cargo runs one after the other:
# most of them wait, for a load to end or a deadline to pass. Those that weigh processors and
# times against each other come afterwards, one by one. The black-box tests have a run of their own. A
# program that fails runs once more when all have ended, as in test-blackbox.sh, and for its reasons.
set -euo pipefail
cd "$(dirname "$0")/.."

measuring='/(squeeze|stealer|sampling|cost|lab)-'
elsewhere='/(blackbox|house)-'

at_most=3
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT

# What cargo gives to what it runs.

# folder of the crate, a tab, program
programs() {
	cargo test -q --workspace --lib --bins --tests --no-run --locked --message-format=json |
		grep '"profile":{[^}]*"test":true' |
		sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"executable":"\([^"]*\)".*|\1\t\2|p' |
		grep -Ev "$elsewhere"
}

# As cargo does: in the folder of its crate. What it says is shown whole, when it has ended.
run_one() {
	local folder=$1 program=$2 name
	name=$(basename "$program")
	cd "$folder"
	local failed=0 since=$SECONDS
	"$program" >"$said/$name" 2>&1 || failed=$?
	{
		echo "     Ran ${folder##*/} ${name%-*} in $((SECONDS - since)) s"
		cat "$said/$name"
		[ "$failed" = 0 ] || printf '%s\t%s\n' "$folder" "$program" >>"$said/failed"
	} | flock "$said" cat
	return "$failed"
}
export -f run_one
export said

# so many at a time
run_all() {
	tr '\t' '\n' | xargs -r -d '\n' -P "$1" -n 2 bash -c 'run_one "$@"' _
}

all=$(programs)
failed=0
grep -Ev "$measuring" <<<"$all" | run_all 3 || failed=1
grep -E "$measuring" <<<"$all" | run_all 1 || failed=1
[ "$failed" = 1 ] || exit 0

again=$(cat "$said/failed" 2>/dev/null || true)
if [ -z "$again" ] || [ "$(wc -l <<<"$again")" -gt "$at_most" ]; then
	echo "some of the tests above failed" >&2
	exit 1
fi
echo "once more, and one by one:"
echo "$again"
if ! run_all 1 <<<"$again"; then
	echo "some of the tests above failed, twice" >&2
	exit 1
fi
echo "failed beside other tests, and passed alone; to be mended:"
echo "$again"
