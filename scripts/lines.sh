#!/usr/bin/env bash
# Counts lines of code and of tests for each crate, and words for each page of the docs. A line that is blank or only a
# comment is none. Tests are what stands in tests/, examples/ and *_test.go, and below #[cfg(test)].
#
#   ./scripts/lines.sh [FOLDER]     another checkout, to compare with
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# Files of modules that are declared below #[cfg(test)], and what stands in folders of their names.
test_modules() {
	grep -rA1 --include='*.rs' '#\[cfg(test)\]' "$1" |
		sed -nE 's/^(.*)\.rs-(pub(\([a-z]+\))? )?mod ([a-z0-9_]+);$/\1 \4/p' | while read -r parent name; do
		case ${parent##*/} in lib | main | mod) folder=${parent%/*} ;; *) folder=$parent ;; esac
		printf '%s\n' "$folder/$name.rs" "$folder/$name/"
	done
}

# code, a tab, tests
count() {
	local folder=$1 modules
	modules=$(test_modules "$folder" || true)
	find "$folder" \( -name target -o -name node_modules -o -name .peers -o -path tests/skip \) -prune -o \
		-type f \( -name '*.rs' -o -name '*.go' -o -name '*.sh' -o -name '*.py' \) -print | sort | xargs -r awk -v modules="$modules" '
		BEGIN { many = split(modules, module, "\n") }
		FNR == 1 {
			inside = 0; pending = 0
			whole = FILENAME ~ /(^|\/)(tests|examples|testdata|testsubject)\// || FILENAME ~ /_test\.go$/
			for (at = 1; at <= many; at++)
				if (module[at] != "" && index(FILENAME, module[at]) == 1) whole = 1
		}
		/^[ \t]*$/ || /^[ \t]*\/\// || (FILENAME ~ /\.(sh|py)$/ && /^[ \t]*#/) { next }
		whole || inside { tests++ }
		inside && $0 == close_line { inside = 0; next }
		whole || inside { next }
		# Rustfmt closes what it opens at the same depth.
		/^[ \t]*#\[cfg\(test\)\]$/ { pending = 1; tests++; next }
		pending && /^[ \t]*#\[/ { tests++; next }
		pending {
			pending = 0; tests++
			if ($0 !~ /[;,]$/ && $0 !~ /\}$/) { inside = 1; match($0, /^[ \t]*/); close_line = substr($0, 1, RLENGTH) "}" }
			next
		}
		{ code++ }
		END { printf "%d\t%d\n", code, tests }'
}

printf '%-28s %8s %8s\n' "lines of" code tests
all_code=0 all_tests=0
for folder in crates/* subjects/go subjects/rust bench walls tests fuzz scripts; do
	[ -d "$folder" ] || continue
	IFS=$'\t' read -r code tests < <(count "$folder" | awk '{ c += $1; t += $2 } END { print c "\t" t }')
	printf '%-28s %8d %8d\n' "$folder" "$code" "$tests"
	all_code=$((all_code + code)) all_tests=$((all_tests + tests))
done
printf '%-28s %8d %8d\n\n' all "$all_code" "$all_tests"

printf '%-28s %8s\n' "words of" words
find . \( -name target -o -name node_modules -o -name .peers -o -name .git -o -name runs \) -prune -o -name '*.md' -print |
	sort | xargs wc -w | awk '{ sub(/^\.\//, "", $2); printf "%-28s %8d\n", $2, $1 }'
