#!/bin/sh
# Runs the tests with other readers of Parquet: pyarrow, pandas, polars, DuckDB, Spark and ClickHouse. First makes a virtual environment in
# build/parquet, once for each version of the pinned wheels. A machine that can't make it, or has no Java for Spark, skips tests with the reason.
set -eu
cd "$(dirname "$0")/.."
pins=export/parquet/peers/requirements.txt
env=build/parquet
log=build/parquet.log

skip() {
	echo "test-parquet: skipped: $1"
	exit 0
}

if ! cmp -s $pins "$env/pins"; then
	rm -rf "$env"
	mkdir -p build
	echo "fetching readers of Parquet, 2 GB, some minutes the first time"
	python3 -m venv "$env" >"$log" 2>&1 || skip "python3 makes no virtual environment (Debian package python3-venv): see $log"
	"$env/bin/pip" install -q --disable-pip-version-check --retries 1 -r $pins >"$log" 2>&1 || skip "the package index lacks wheels for this machine, or does not answer: see $log"
	cp $pins "$env/pins"
fi
ACLTRACE_PARQUET=$PWD/$env/bin/python
export ACLTRACE_PARQUET
go test -count=1 -timeout 30m "$@" -run TestPeers ./export/parquet
