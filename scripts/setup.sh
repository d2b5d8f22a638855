#!/bin/sh
# Installs the Debian packages that a target needs, when root; otherwise names what is missing in one line.
#   scripts/setup.sh [build|test|bench|cross|generate]
set -eu
what=${1:-build}

missing=
need() { # command or file, package
	case $1 in
	/*) [ -e "$1" ] || missing="$missing $2" ;;
	*) command -v "$1" >/dev/null 2>&1 || missing="$missing $2" ;;
	esac
}

need cc gcc
need c++ g++
need make make
case $what in
test)
	need musl-gcc musl-tools
	ls /usr/lib/*/libjemalloc.so.2 >/dev/null 2>&1 || missing="$missing libjemalloc2"
	;;
bench)
	need lttng lttng-tools
	need uftrace uftrace
	dpkg -s liblttng-ust-dev >/dev/null 2>&1 || missing="$missing liblttng-ust-dev"
	;;
cross)
	need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
	need /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross
	need qemu-aarch64 qemu-user
	;;
generate)
	need clang clang
	need llvm-strip llvm
	;;
esac

if [ -n "$missing" ]; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "installing:$missing"
		DEBIAN_FRONTEND=noninteractive
		export DEBIAN_FRONTEND
		apt-get update -qq
		# shellcheck disable=SC2086 # a list of packages
		apt-get install -y -qq --no-install-recommends $missing >/dev/null
	else
		echo "acltrace needs these packages: sudo apt-get install$missing" >&2
		exit 1
	fi
fi

if ! command -v go >/dev/null 2>&1; then
	echo "acltrace needs Go 1.26 or newer: https://go.dev/dl" >&2
	exit 1
fi
