#!/bin/sh
# Builds Jaeger's web pages into build/jaeger-ui from the source on GitHub or in the folder JAEGER_UI_SOURCE, because no registry
# has them. Needs git, npm and node 20 or newer. The first run takes minutes.
set -eu
cd "$(dirname "$0")/.."
VERSION=v1.74.0 # the last that node 20 builds
[ -f build/jaeger-ui/index.html ] && exit 0
ROOT=$PWD
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT INT TERM
echo "building Jaeger's pages $VERSION, some minutes the first time"
if [ -n "${JAEGER_UI_SOURCE:-}" ]; then
	git -C "$JAEGER_UI_SOURCE" archive "$VERSION" | tar x -C "$T"
else
	git clone --quiet --depth 1 --branch "$VERSION" https://github.com/jaegertracing/jaeger-ui "$T"
fi
cd "$T"
npm install --silent --ignore-scripts --no-audit --no-fund
(cd packages/plexus && NODE_ENV=production npx webpack --mode production --config webpack.layout-worker.config.js >/dev/null)
(cd packages/jaeger-ui && NODE_ENV=production REACT_APP_VSN_STATE='{}' npx vite build --logLevel error)
mkdir -p "$ROOT/build"
cp -r packages/jaeger-ui/build "$ROOT/build/jaeger-ui"
