# Sourced: packages of Debian that are not vital are installed where that is allowed, and
# where it is not, what is left out without them is said.

# install_or_say WHO WHAT_IS_LEFT_OUT COMMAND:PACKAGE...
install_or_say() {
	local who=$1 left_out=$2 pair missing=()
	shift 2
	for pair in "$@"; do
		PATH="$PATH:/usr/sbin" command -v "${pair%%:*}" >/dev/null 2>&1 || missing+=("${pair##*:}")
	done
	((${#missing[@]})) || return 0
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "$who: not there: ${missing[*]} (Debian: apt-get install ${missing[*]}); $left_out"
		return 0
	fi
	# Servers are wanted, not services: a package must not start one.
	local policy=/usr/sbin/policy-rc.d ours=
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && ours=yes
	fi
	export DEBIAN_FRONTEND=noninteractive
	if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1; then
		echo "$who: could not install ${missing[*]}; $left_out"
	fi
	if [ -n "$ours" ]; then rm -f "$policy"; fi
	return 0
}
