#!/bin/sh
# Installs the Debian packages that a target needs if run by root. Otherwise prints one line with the missing packages.
#   scripts/setup.sh [build|test|bench|cross|generate|kernels]
set -eu
cd "$(dirname "$0")/.."
what=${1:-build}

missing=
need() { # command or file, package
	case $1 in
	/*) [ -e "$1" ] || missing="$missing $2" ;;
	*) command -v "$1" >/dev/null 2>&1 || missing="$missing $2" ;;
	esac
}

# Tests that need these are skipped without them.
optional=
# shellcheck disable=SC2086 # the first may be a pattern
like() { # file or command, package
	case $1 in
	*/*) ls $1 >/dev/null 2>&1 || optional="$optional $2" ;;
	*) command -v "$1" >/dev/null 2>&1 || optional="$optional $2" ;;
	esac
}

need cc gcc
need c++ g++
need make make
[ -e build/go/bin/go ] || need go golang-go
need /etc/ssl/certs/ca-certificates.crt ca-certificates
case $what in
test)
	need musl-gcc musl-tools
	ls /usr/lib/*/libjemalloc.so.2 >/dev/null 2>&1 || missing="$missing libjemalloc2"
	# Third-party programs that call CUDA: ffmpeg, and GPU code compiled by GCC.
	like ffmpeg ffmpeg
	of=$(gcc -dumpversion 2>/dev/null || echo 12)
	like "/usr/lib/gcc/*/${of%%.*}/accel/nvptx-none/mkoffload" "gcc-${of%%.*}-offload-nvptx"
	;;
bench)
	need lttng lttng-tools
	need uftrace uftrace
	need time time
	dpkg -s liblttng-ust-dev >/dev/null 2>&1 || missing="$missing liblttng-ust-dev"
	;;
cross)
	need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
	need /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross
	need qemu-aarch64 qemu-user
	;;
kernels)
	need qemu-system-x86_64 qemu-system-x86
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

if [ -n "$optional" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "installing:$optional"
	export DEBIAN_FRONTEND=noninteractive
	for package in $optional; do
		apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 ||
			{ apt-get update -qq && apt-get install -y -qq --no-install-recommends "$package"; } >/dev/null 2>&1 ||
			echo "$package can't be installed here: tests that want it are skipped"
	done
fi

# Uses the machine's Go, or Debian's. Go 1.21 and newer fetch the version in go.mod themselves. For older versions the script
# fetches it as a module into build/go, which the Makefile puts first in PATH.
PATH=$PWD/build/go/bin:$PATH
wanted=$(sed -n 's/^go //p' go.mod)
case $(go env GOVERSION 2>/dev/null) in
go1.[0-9] | go1.[0-9].* | go1.1[0-9] | go1.1[0-9].* | go1.20 | go1.20.*)
	at=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
	echo "fetching Go $wanted for linux/$at"
	# Outside this module: an old version can't read its go.mod.
	module=golang.org/toolchain@v0.0.1-go$wanted.linux-$at
	said=$(cd / && GO111MODULE=on go mod download -json "$module" 2>&1) || { echo "acltrace needs Go $wanted or newer, and could not fetch it: $said" >&2; exit 1; }
	from=$(echo "$said" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
	rm -rf build/go
	mkdir -p build/go
	cp -R "$from/." build/go/
	chmod -R u+w build/go
	# A module must not contain go.mod files of other modules, so Go's own have another name there.
	find build/go -name _go.mod | while read -r f; do mv "$f" "${f%_go.mod}go.mod"; done
	chmod +x build/go/bin/* build/go/pkg/tool/*/*
	;;
esac
if ! have=$(go env GOVERSION 2>&1); then
	echo "acltrace needs Go $wanted or newer, from https://go.dev/dl; what is here says: $have" >&2
	exit 1
fi
