#!/usr/bin/env bash
# The product in two minutes: whose number is another generator's, what ours gets, and which wall stands behind a link.
set -euo pipefail
cd "$(dirname "$0")/.."
wallfinder=$(realpath "$1")
runs=${DEMO_RUNS:-runs}

failed=0

say() {
	if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}
# What is run, as a user would write it, and then that. What fails is said, and the rest goes on.
show() {
	local word line=
	for word in "$@"; do
		case $word in *[\ {}]*) word="'$word'" ;; esac
		line+=" $word"
	done
	echo "\$ wallfinder$line"
	"$wallfinder" "$@" --runs "$runs" || {
		echo "demo: that ended with exit code $?" >&2
		failed=1
	}
}

simple=http://subject:8083/simple
say "1. A benchmark by autocannon, observed. Whose number is it?"
autocannon=bench/node_modules/.bin/autocannon
if [ -x "$autocannon" ] || command -v autocannon >/dev/null; then
	show run --subject catalogue "$simple" --driver 'autocannon -c 100 -p 10 -d 6 {url}'
else
	echo "Left out: autocannon is not here (make drivers says why)."
fi

say "2. The same server under Wallfinder's own engine."
show run --subject catalogue "$simple" -c 100 --pipeline 10 -d 6s

read=http://subject:8083/read
if [ "$(id -u)" = 0 ] && command -v ip >/dev/null && command -v tc >/dev/null; then
	say "3. Documents of 4.6 KB over a link of 500 Mbit/s. Which wall is it, and which is next? (a minute)"
	show find --subject catalogue "$read" --link 500mbit --effort quick
else
	say "3. Documents of 4.6 KB. Which wall is it? (a minute; as root there would be a link, and more to squeeze)"
	show find --subject catalogue "$read" --effort quick
fi

page=$runs/latest/report.html
say "The page of that: $(realpath "$page" 2>/dev/null || echo "$page")"
echo "A verdict that is not 'proved' names what kept it from that: others on this machine, or too few rounds (quick never proves)."
echo "A published comparison of load generators, with all of its claims, is one command further on:"
echo "  $1 study run client-ceiling --size demo"
exit "$failed"
