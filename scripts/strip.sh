#!/usr/bin/env bash
# Takes what only debuggers read out of a program, into FILE.debug beside it, where they find it by its link.
# Names of functions stay: the tool tells by them where its own time goes.
set -euo pipefail
program=$1
readelf --sections --wide "$program" | grep -q '\.debug_info' || exit 0
objcopy --only-keep-debug --compress-debug-sections "$program" "$program.debug"
# Cargo's own copy is the same file: it is replaced here, and stays as cargo left it there.
objcopy --strip-debug --add-gnu-debuglink="$program.debug" "$program" "$program.stripped"
mv -f "$program.stripped" "$program"
