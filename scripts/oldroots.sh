#!/bin/sh
# Unpacks old Debian systems for tests with old C libraries: glibc 2.31 on x86-64 and aarch64.
#   scripts/oldroots.sh DIR
# Prints the value for ACLTRACE_OLD_ROOT. The first run needs root, debootstrap and the network.
set -eu
mkdir -p "$1"
dir=$(cd "$1" && pwd)
all=
for arch in amd64 arm64; do
	root=$dir/bullseye-$arch
	all=$all${all:+:}$root
	[ -e "$root.done" ] && continue
	rm -rf "$root"
	# Packages are only unpacked. Nothing in them runs.
	debootstrap --foreign --arch="$arch" --variant=minbase --include=libc6-dev bullseye "$root" \
		"${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
		{ echo "debootstrap failed: see $root.log" >&2; exit 1; }
	for deb in "$root"/var/cache/apt/archives/*.deb; do
		dpkg-deb -x "$deb" "$root"
	done
	: >"$root.done"
done
echo "$all"
