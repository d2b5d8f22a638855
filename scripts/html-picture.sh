#!/bin/sh
# Makes docs/pictures/page.png: records an example and opens its page of `acltrace export html` in Chromium.
# Needs build/viewers (scripts/viewers.sh) and Chromium.
set -eu
cd "$(dirname "$0")/.."
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
ROOT=$PWD
(
	cd "$T"
	export PATH="$ROOT/bin:$ROOT/bin/examples:$PATH"
	ACLSIM_CLOCK=virtual acltrace record --sim -q -o run.aclt --device-time all -- slow_step >/dev/null
	acltrace export html run.aclt
)
WINDOW=960 node scripts/html-page.mjs "$T/run.aclt.html" 'click=#steps canvas@39:90' "picture=docs/pictures/page.png"
