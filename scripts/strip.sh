#!/usr/bin/env bash
# Takes out of a program what is not run: names of functions and lines. A copy that has them lies beside it as
# PROGRAM.debug, where debuggers, perf and the tool itself (whose functions the time goes to) find them.
set -euo pipefail
program=$1
# Read whole: a reader that ends at the first find would end readelf with a failure, and the script with it.
sections=$(readelf --sections --wide "$program")
[[ $sections == *' .symtab '* ]] || exit 0
objcopy --compress-debug-sections "$program" "$program.debug"
chmod -x "$program.debug"
# Cargo's own copy is the same file: it is replaced here, and stays as cargo left it there.
objcopy --strip-all --add-gnu-debuglink="$program.debug" "$program" "$program.stripped"
mv -f "$program.stripped" "$program"
