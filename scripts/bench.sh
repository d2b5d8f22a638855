#!/bin/sh
# The benchmarks, each beside its yardstick in the same run. docs/performance.md keeps the figures.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh bench
B=build/bench
mkdir -p $B/null
CFLAGS="-std=c11 -O2 -Wall -Wextra -Werror -Iapi/acl/include"

echo "== one launch with 64 bytes of arguments, nanoseconds (median of 1000 rounds)"
# shellcheck disable=SC2086
{
	cc $CFLAGS -fPIC -shared -Wl,-soname,libascendcl.so -o $B/null/libascendcl.so probe/shim/bench/null.c
	cc $CFLAGS -o $B/launch probe/shim/bench/launch.c -L$B/null -lascendcl
	cc -O2 -Iapi/acl/include -Iprobe/shim/bench -DLTTNG -o $B/launch-lttng probe/shim/bench/launch.c probe/shim/bench/lttng.c -L$B/null -lascendcl -llttng-ust -ldl
}
export LD_LIBRARY_PATH=$B/null
$B/launch bare
bin/acltrace record -q -o $B/shim.aclt --payload none --ring-size 1M -- $B/launch shim
if command -v lttng >/dev/null 2>&1; then
	LTTNG_HOME=$(mktemp -d)
	export LTTNG_HOME
	lttng-sessiond --daemonize --no-kernel >/dev/null 2>&1 || true
	for mode in discard; do
		if lttng create bench --output="$LTTNG_HOME/trace" >/dev/null 2>&1 &&
			lttng enable-channel --userspace --$mode --subbuf-size=1M --num-subbuf=4 c >/dev/null 2>&1 &&
			lttng enable-event --userspace --channel c 'acltrace_bench:*' >/dev/null 2>&1 &&
			lttng start >/dev/null 2>&1; then
			$B/launch-lttng "lttng-ust ($mode)"
			lttng destroy >/dev/null 2>&1
		else
			echo "lttng-ust: no session could be made"
		fi
	done
	pkill -u "$(id -u)" lttng-sessiond >/dev/null 2>&1 || true
	rm -rf "$LTTNG_HOME"
fi
unset LD_LIBRARY_PATH

echo "== Go benchmarks, one core"
go test -run '^$' -bench . -cpu 1 ./format/... ./record ./sim/... ./timeline/... ./replay/... ./otelexport/... 2>&1 | grep -E '^(Benchmark|pkg:)' || true
