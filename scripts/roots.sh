#!/bin/sh
# Unpacks bare Debian systems, for tests with their C libraries.
#   scripts/roots.sh DIR SUITE-ARCH...
# Example: scripts/roots.sh build/roots bullseye-amd64 bullseye-arm64
# Prints their folders, separated by colons. The first run needs root, debootstrap and the network.
set -eu
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
all=
for name in "$@"; do
	root=$dir/$name
	all=$all${all:+:}$root
	[ -e "$root.done" ] && continue
	rm -rf "$root"
	# Packages are only unpacked. Nothing in them runs.
	debootstrap --foreign --arch="${name#*-}" --variant=minbase --include=libc6-dev "${name%-*}" "$root" \
		"${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
		{ echo "debootstrap failed: see $root.log" >&2; exit 1; }
	for deb in "$root"/var/cache/apt/archives/*.deb; do
		dpkg-deb -x "$deb" "$root"
	done
	: >"$root.done"
done
echo "$all"
