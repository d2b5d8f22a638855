#!/bin/sh
# Makes docs/pictures/pprof.png: records an example and opens its profile in pprof's web page in Chromium.
# Needs Go, build/viewers (scripts/viewers.sh) and Chromium.
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory build
T=$(mktemp -d)
ACLSIM_CLOCK=virtual bin/acltrace record --sim -q --device-time all -o "$T/run.aclt" -- bin/examples/tiny_decoder --tokens 16 >/dev/null
bin/acltrace export pprof "$T/run.aclt" -o "$T/run.pb.gz" >/dev/null
go tool pprof -http=127.0.0.1:26687 -no_browser "$T/run.pb.gz" >/dev/null 2>&1 &
pprof=$!
trap 'kill $pprof 2>/dev/null; rm -rf "$T"' EXIT INT TERM
until curl -fs http://127.0.0.1:26687/ui/ >/dev/null 2>&1; do sleep 0.1; done
node scripts/pprof-page.mjs 'http://127.0.0.1:26687/ui/flamegraph?si=device_time' docs/pictures/pprof.png
