#!/bin/sh
# Tries acltrace in bare systems, where it is the only file: demo, record, replay --verify and doctor. Needs root.
#   scripts/try-roots.sh ACLTRACE ROOT...
# A ROOT is an unpacked system with a shell and /bin/true, for example from scripts/roots.sh.
set -eu
program=$(realpath "$1")
shift
for root in "$@"; do
	echo "== $root"
	unshare --mount --propagation private sh -eu -c '
		program=$1 root=$2
		mount --rbind /proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mkdir -p "$root/sys"
		mount --rbind /sys "$root/sys"
		mount -t tmpfs -o mode=1777 none "$root/tmp"
		cp "$program" "$root/tmp/acltrace"
		exec chroot "$root" /bin/sh -eu -c "$3"' try "$program" "$root" '
		cd /tmp
		export HOME=/tmp/home
		./acltrace version
		./acltrace demo
		./acltrace record --sim --replayable -o run.aclt -- home/.cache/acltrace/files/*/bin/examples/tiny_decoder --tokens 4 --quiet
		./acltrace replay --verify run.aclt
		# All symbols of the libraries are found.
		for library in home/.cache/acltrace/files/*/lib/libascendcl.so home/.cache/acltrace/files/*/lib/libaclsim.so home/.cache/acltrace/files/*/lib/fakecuda/libcuda.so.1; do
			said=$(LD_BIND_NOW=1 LD_PRELOAD=$library /bin/true 2>&1)
			[ -z "$said" ] || { echo "$said" >&2; exit 1; }
		done
		./acltrace doctor >doctor.txt || true
		cat doctor.txt
		for part in "record: the shim$" "record: load the shim into a program" "record --sim, sim: the simulator" "replay: the player$"; do
			if ! grep -q "^ok *$part" doctor.txt; then
				echo "doctor does not say: ok $part" >&2
				exit 1
			fi
		done'
done
