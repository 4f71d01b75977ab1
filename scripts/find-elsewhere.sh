#!/usr/bin/env bash
# A server on another machine, with another kernel and another clock: the emulated one (elsewhere.sh), which is reached
# by a tap and the real ssh. An agent is copied there, its clock is compared, and find runs to its verdict.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=${1:-target/release/wallfinder}

say() { echo "find-elsewhere: $*" >&2; }
if [ "$(id -u)" != 0 ] || [ ! -e /dev/net/tun ]; then
	say "skipped: it needs root and /dev/net/tun"
	[ "${WALLFINDER_STRICT:-}" != 1 ] || exit 1
	exit 0
fi
. scripts/packages.sh
install_or_say find-elsewhere "there is no other host without it" sshd:openssh-server ssh-keygen:openssh-client

tap=wf-far here=10.233.0.1 there=10.233.0.2
work=$(mktemp -d)
machine=
end() {
	[ -z "$machine" ] || kill "$machine" 2>/dev/null || true
	wait 2>/dev/null || true
	ip link delete "$tap" 2>/dev/null || true
	rm -rf "$work"
}
trap end EXIT

ip tuntap add "$tap" mode tap
ip address add "$here/30" dev "$tap"
ip link set "$tap" up
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
ssh-keygen -q -t ed25519 -N '' -f "$work/user"
cat >"$work/sshd" <<SSHD
ListenAddress $there
HostKey /run/host
AuthorizedKeysFile $work/user.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PidFile none
SSHD
echo "$there $(cat "$work/host.pub")" >"$work/known"
cat >"$work/config" <<CONFIG
Host *
	IdentityFile $work/user
	UserKnownHostsFile $work/known
	StrictHostKeyChecking yes
	User root
CONFIG
cat >"$work/there" <<THERE
ip address add $there/30 dev eth0 && ip link set eth0 up
mkdir -p /run/sshd && install -m 600 $work/host /run/host
\$(command -v sshd) -f $work/sshd
taskset -c 0 $PWD/bin/knownwall --host $there --spin-us 2000
THERE
TAP=$tap TIMEOUT=600 ./scripts/elsewhere.sh bash "$work/there" >"$work/said" 2>&1 &
machine=$!
for _ in $(seq 120); do
	! timeout 1 bash -c "exec 3<>/dev/tcp/$there/8090" 2>/dev/null || break
	kill -0 "$machine" 2>/dev/null || { cat "$work/said"; exit 1; }
	sleep 1
done

"$tool" hosts "ssh://$there" --ssh "ssh -F $work/config"
"$tool" find "http://$there:8090/" -c 8 --effort quick --timeout 30s --server-host "ssh://$there" \
	--ssh "ssh -F $work/config" --runs "$work/runs" | tee "$work/found"
grep -q "^ WALL  *the server's CPU" "$work/found" && say "its wall was named"
ssh -F "$work/config" "$there" pkill knownwall || true
