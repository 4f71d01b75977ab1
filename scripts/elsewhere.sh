#!/usr/bin/env bash
# Runs a command on another kernel: that of Debian 12, with control groups of version 2 alone, in an emulated machine
# that sees this one's files. What it writes stays in memory, and is gone with it.
#
#   ./scripts/elsewhere.sh bash -c 'uname -r; target/release/wallfinder doctor --squeezes'
#
# It needs root (Debian's packages, and all files to be read); else it says so, and nothing is run. The processor is
# emulated, for a machine that is virtual itself seldom has others in it: some ten times slower, which is no machine
# to measure on. MEMORY=10G, TIMEOUT=1800 (seconds). TAP=NAME: its eth0 is this machine's tap of that name.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "elsewhere: $*" >&2; }
# In strict mode nothing passes by not running (tests/skip).
skip() {
	say "skipped: $*"
	[ "${WALLFINDER_STRICT:-}" != 1 ] || exit 1
	exit 0
}
if [ "$(id -u)" != 0 ]; then
	skip "it needs root"
fi

. scripts/packages.sh
install_or_say elsewhere "there is no other machine without them" qemu-system-x86_64:qemu-system-x86 \
	cpio:cpio busybox:busybox-static modprobe:kmod
newest() { find "$1" -maxdepth 1 -name "$2" | sort -V | tail -n 1; }
kernel=$(newest /boot 'vmlinuz-6.1.*[0-9]-amd64')
if [ -z "$kernel" ]; then
	install_or_say elsewhere "there is no other kernel without it" no-such-command:linux-image-amd64
	kernel=$(newest /boot 'vmlinuz-6.1.*[0-9]-amd64')
fi
if [ -z "$kernel" ]; then
	skip "Debian's kernel could not be had (linux-image-amd64)"
fi
release=${kernel#/boot/vmlinuz-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/initrd/{bin,proc,sys,dev,files,memory,machine,modules}
cp "$(command -v busybox)" "$work/initrd/bin/busybox"

# What reads this machine's files: the kernel has it as modules.
at=10
for module in $(for name in virtio_pci 9pnet_virtio 9p overlay virtio_net; do
	modprobe --set-version "$release" --show-depends "$name"
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}'); do
	cp "$module" "$work/initrd/modules/$at-$(basename "$module")"
	at=$((at + 1))
done

# Variables that builds and tests look at go along.
{
	export -p | grep -E '^declare -x (PATH|HOME|CARGO|RUST|CLIPPY|WALLFINDER|GO)[A-Z_]*='
	printf 'cd %q\n' "$PWD"
	printf '%q ' "$@"
} >"$work/initrd/command"

cat >"$work/initrd/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in /modules/*; do $b insmod "$module"; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,ro,cache=loose files /files
$b mount -t tmpfs -o size=75% memory /memory
$b mkdir /memory/upper /memory/work
$b mount -t overlay -o lowerdir=/files,upperdir=/memory/upper,workdir=/memory/work machine /machine
for own in proc sys dev; do $b mount -o bind /$own /machine/$own; done
$b mkdir -p /machine/dev/pts /machine/dev/shm
$b mount -t devpts pts /machine/dev/pts
for empty in run dev/shm; do $b mount -t tmpfs empty /machine/$empty; done
$b mount -t cgroup2 groups /machine/sys/fs/cgroup
$b mount -t tracefs trace /machine/sys/kernel/tracing 2>/dev/null
# As systemd does: the processes of a session are in a group below one that hands controllers on.
echo '+cpu +cpuset +memory' >/machine/sys/fs/cgroup/cgroup.subtree_control
$b mkdir -p /machine/sys/fs/cgroup/user.slice/session.scope
echo '+cpu +cpuset +memory' >/machine/sys/fs/cgroup/user.slice/cgroup.subtree_control
echo $$ >/machine/sys/fs/cgroup/user.slice/session.scope/cgroup.procs
$b cp /command $b /machine/run/
# The first process of the new root: it is there that the kernel looks for modules.
$b cat >/machine/run/main <<'MAIN'
ip link set lo up
bash /run/command
echo "ended elsewhere: $?"
/run/busybox poweroff -f
MAIN
exec $b switch_root /machine /bin/bash /run/main
INIT
chmod +x "$work/initrd/init"
(cd "$work/initrd" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd.gz"

say "Linux $release, cgroup2: $*"
nic=none
[ -z "${TAP:-}" ] || nic="tap,ifname=$TAP,script=no,downscript=no,model=virtio-net-pci"
timeout --foreground "${TIMEOUT:-1800}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp "$(nproc)" \
	-m "${MEMORY:-10G}" -nographic -no-reboot -nic "$nic" \
	-kernel "$kernel" -initrd "$work/initrd.gz" -append 'console=ttyS0 quiet panic=1 rdinit=/init' \
	-virtfs local,path=/,mount_tag=files,security_model=passthrough,readonly=on,multidevs=remap \
	</dev/null | tr -d '\r' | tee "$work/said"
code=$(sed -n 's/^ended elsewhere: //p' "$work/said" | tail -n 1)
if [ -z "$code" ]; then
	say "the machine ended before the command did"
	exit 1
fi
exit "$code"
