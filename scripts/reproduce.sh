#!/bin/sh
# Builds a release of the current commit twice, in different folders, and compares the files. The second build has an empty cache.
#   scripts/reproduce.sh [VERSION]
# Prints the checksums if they are equal. Otherwise the folders are kept.
set -eu
cd "$(dirname "$0")/.."
version=${1:-v0.0.0}
commit=$(git rev-parse HEAD)
work=$(mktemp -d)
for dir in "$work/a" "$work/another/folder"; do
	git clone -q . "$dir"
	git -C "$dir" checkout -q "$commit"
	make -s -C "$dir" release "VERSION=$version" >"$work/log" 2>&1 || { tail -n 50 "$work/log" >&2; exit 1; }
	GOCACHE=$work/cache
	export GOCACHE
done
diff "$work/a/dist/SHA256SUMS" "$work/another/folder/dist/SHA256SUMS" || { echo "the builds in $work differ" >&2; exit 1; }
cat "$work/a/dist/SHA256SUMS"
rm -rf "$work"
