#!/bin/sh
# Prints the licenses of the Go modules in a program.
#   scripts/licenses.sh PROGRAM
set -eu
go version -m "$1" | awk '$1 == "dep" { print $2 "@" $3 }' | LC_ALL=C sort | while read -r module; do
	dir=$(go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	found=
	for f in "$dir"/LICENSE* "$dir"/LICENCE* "$dir"/COPYING* "$dir"/NOTICE*; do
		[ -f "$f" ] || continue
		found=1
		printf '\n==== %s: %s\n\n' "$module" "${f##*/}"
		cat "$f"
	done
	[ "$found" ] || { echo "$module has no license file in $dir" >&2; exit 1; }
done
printf '\n==== Go %s\n\n' "$(go env GOVERSION)"
cat "$(go env GOROOT)/LICENSE"
