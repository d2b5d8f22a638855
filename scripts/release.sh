#!/bin/sh
# Packs the built programs for `make release`.
#   scripts/release.sh VERSION
# The same commit, compilers and VERSION give the same files: see docs/dev/release.md.
set -eu
cd "$(dirname "$0")/.."
version=$1
case $version in
'' | *[!A-Za-z0-9._+-]*) echo "a version has letters, digits and . _ + - only, not \"$version\"" >&2; exit 1 ;;
esac
[ "$(uname -m)" = x86_64 ] || { echo "releases are built on x86-64" >&2; exit 1; }
time=$(git log -1 --format=%ct)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf dist
mkdir dist
for arch in amd64 arm64; do
	program=bin/acltrace
	[ $arch = amd64 ] || program=bin/acltrace-$arch
	name=acltrace-$version-linux-$arch
	mkdir "$work/$name"
	install -m 755 $program "$work/$name/acltrace"
	# Documents, examples and headers keep their folders, so links between them work.
	git ls-files -z -- '*.md' LICENSE docs examples api/acl/include api/cuda/include sim/libascendcl/include ':!internal' ':!*_test.go' |
		xargs -0 cp --parents -t "$work/$name"
	scripts/licenses.sh $program >"$work/$name/LICENSES.txt"
	mkdir -p "$work/$name/man/man1"
	go run ./internal/cmd/docgen -acltrace bin/acltrace -man "$work/$name/man/man1"
	tar -C "$work" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$time" -cf - "$name" |
		gzip -9n >"dist/$name.tar.gz"
done
cd dist
sha256sum -- *.tar.gz >SHA256SUMS
cat SHA256SUMS
