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
	cc $CFLAGS -o $B/launch probe/shim/bench/launch.c -L$B/null -lascendcl -lpthread
	cc $CFLAGS -o $B/copy probe/shim/bench/copy.c -L$B/null -lascendcl
	cc -O2 -Iapi/acl/include -Iprobe/shim/bench -DLTTNG -o $B/launch-lttng probe/shim/bench/launch.c probe/shim/bench/lttng.c -L$B/null -lascendcl -llttng-ust -ldl -lpthread
}
export LD_LIBRARY_PATH=$B/null
for threads in 1 2 8; do
	$B/launch bare $((1000 / threads)) $threads
	bin/acltrace record -q -o $B/shim.aclt --payload none --ring-size 1M -- $B/launch shim $((1000 / threads)) $threads
done
if command -v lttng >/dev/null 2>&1; then
	LTTNG_HOME=$(mktemp -d)
	export LTTNG_HOME
	lttng-sessiond --daemonize --no-kernel >/dev/null 2>&1 || true
	for mode in discard; do
		if lttng create bench --output="$LTTNG_HOME/trace" >/dev/null 2>&1 &&
			lttng enable-channel --userspace --$mode --subbuf-size=1M --num-subbuf=4 c >/dev/null 2>&1 &&
			lttng enable-event --userspace --channel c 'acltrace_bench:*' >/dev/null 2>&1 &&
			lttng start >/dev/null 2>&1; then
			for threads in 1 2 8; do $B/launch-lttng "lttng-ust ($mode)" $((1000 / threads)) $threads; done
			lttng destroy >/dev/null 2>&1
		else
			echo "lttng-ust: no session could be made"
		fi
	done
	pkill -u "$(id -u)" lttng-sessiond >/dev/null 2>&1 || true
	rm -rf "$LTTNG_HOME"
fi

echo "== one copy of 64 MiB from the host, microseconds (median of 30)"
bin/acltrace record -q -o $B/copy.aclt --replayable -- $B/copy "payload kept"
bin/acltrace record -q -o $B/copy.aclt -- $B/copy "payload hashed"
unset LD_LIBRARY_PATH

echo "== tiny_decoder, microseconds a token by its own clock: bare, recorded (medians of 9)"
ACLSIM_KERNELS=bin/examples/decoder_kernels.so
export ACLSIM_KERNELS
for _ in 1 2 3 4 5 6 7 8 9; do
	bare=$(bin/examples/tiny_decoder --tokens 200 | awk '/^time/{print $2}')
	recorded=$(bin/acltrace record -q --sim -o $B/decoder.aclt -- bin/examples/tiny_decoder --tokens 200 | awk '/^time/{print $2}')
	echo "$bare $recorded"
done | awk '{a[NR]=$1; b[NR]=$2} END {n=asort_(a); asort_(b); print a[5], b[5]} function asort_(x, i,j,t) {for (i=2;i<=NR;i++) for (j=i;j>1&&x[j-1]+0>x[j]+0;j--) {t=x[j];x[j]=x[j-1];x[j-1]=t} return NR}'

echo "== Go benchmarks, one core"
go test -run '^$' -bench . -cpu 1 ./format/... ./record ./sim/... ./timeline/... ./replay/... ./otelexport/... ./export/... 2>&1 | grep -E '^(Benchmark|pkg:)' || true
