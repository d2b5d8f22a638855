#!/bin/sh
# Runs benchmarks, each beside a yardstick in the same run, and compares them with the aims. docs/dev/performance.md keeps the
# figures.
#
#	bench.sh [capture] [payloads] [step] [cuda] [decoder] [apart] [pace] [whatif] [plan] [file] [ring] [operators] [marks] [go]     these parts, default all
#
# Compared programs run in turn, ROUNDS times (default 7), and the result is the median. So other load slows all of them alike.
# Takes about ten minutes.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh bench
B=build/bench
RESULTS=$B/results # lines with a key and a number
ROUNDS=${ROUNDS:-7}
[ $# -gt 0 ] || set -- capture payloads step cuda decoder apart pace whatif plan file ring operators marks go
SCRATCH=$(mktemp -d)
mkdir -p $B/null
: >$RESULTS

LTTNG_PID=
built=
broken= # packages whose benchmarks did not run
end() {
	[ -z "$LTTNG_PID" ] || kill "$LTTNG_PID" 2>/dev/null || true
	rm -rf "$SCRATCH"
}
trap end EXIT

programs() {
	[ -z "$built" ] || return 0
	built=yes
	flags="-std=c11 -O2 -Wall -Wextra -Werror -Iapi/acl/include"
	# shellcheck disable=SC2086 # a list of flags
	{
		cc $flags -fPIC -shared -Wl,-soname,libascendcl.so -o $B/null/libascendcl.so probe/shim/bench/null.c
		cc $flags -o $B/launch probe/shim/bench/launch.c -L$B/null -lascendcl -lpthread
		cc $flags -o $B/copy probe/shim/bench/copy.c -L$B/null -lascendcl
		cc $flags -o $B/step probe/shim/bench/step.c -Llib -lascendcl -lpthread
		cc -O2 -Iapi/acl/include -Iprobe/shim/bench -DLTTNG -o $B/launch-lttng probe/shim/bench/launch.c probe/shim/bench/lttng.c \
			-L$B/null -lascendcl -llttng-ust -ldl -lpthread
	}
}

# Stores the output of a launch benchmark: "NAME, THREADS threads: NS yardstick NS".
launches() { awk '{sub(",", "", $1); print "launch." $1 "." $2, $4; print "launch.yardstick." $2, $6}' >>$RESULTS; }

record() { LD_LIBRARY_PATH=$B/null bin/acltrace record -f -q "$@"; }

# LTTng-UST: an entry and an exit event with the shim's fields, into buffers that drop events when full.
lttng_start() {
	LTTNG_HOME=$SCRATCH
	export LTTNG_HOME
	lttng-sessiond --daemonize --no-kernel --pidfile="$SCRATCH/sessiond" >/dev/null 2>&1 || return 1
	LTTNG_PID=$(cat "$SCRATCH/sessiond")
	lttng create bench --output="$SCRATCH/lttng" >/dev/null 2>&1 &&
		lttng enable-channel --userspace --discard --subbuf-size=1M --num-subbuf=4 c >/dev/null 2>&1 &&
		lttng enable-event --userspace --channel c 'acltrace_bench:*' >/dev/null 2>&1 &&
		lttng start >/dev/null 2>&1
}

# uftrace at the PLT: five arguments and the result. It can't copy the 64 bytes that an argument points to.
uftrace_run() {
	f=aclrtLaunchKernelWithHostArgs
	LD_LIBRARY_PATH=$B/null timeout 60 uftrace record --force --no-event --no-sched -b 4m -d "$SCRATCH/uftrace" \
		-A "$f@arg1/x,arg2,arg3/x,arg5/x,arg6" -R "$f@retval" "$@"
	rm -rf "$SCRATCH/uftrace"
}

capture() {
	programs
	echo "== one launch with 64 bytes of arguments: bare, recorded, LTTng-UST, uftrace; copies of 64 MiB and 1 MiB; $ROUNDS rounds"
	lttng=yes
	lttng_start || { echo "LTTng-UST is left out: no session could be made" && lttng=; }
	for _ in $(seq "$ROUNDS"); do
		for threads in 1 2 8; do
			n=$((400 / threads))
			LD_LIBRARY_PATH=$B/null $B/launch bare $n $threads | launches
			record -o $B/shim.aclt --payload none --ring-size 1M -- $B/launch shim $n $threads | launches
			[ $threads != 1 ] || record -o $B/shim.aclt --payload none --ring-size 1M -- $B/launch rich $n $threads rich | launches
			record -o $B/shim.aclt --armed -- $B/launch armed $n $threads | launches
			[ -z "$lttng" ] || LD_LIBRARY_PATH=$B/null $B/launch-lttng lttng $n $threads | launches
			uftrace_run $B/launch uftrace $n $threads | launches
		done
		# The trace is on disk, and once in memory, so that the disk is not the limit.
		record -o $B/copy.aclt --replayable -- $B/copy kept 9
		record -o /dev/shm/acltrace-bench.aclt --replayable -- $B/copy kept-in-memory 9
		record -o $B/copy.aclt -- $B/copy hashed 9
		record -o $B/copy.aclt -- $B/copy hashed-1MiB 999 1024
		rm -f $B/copy.aclt /dev/shm/acltrace-bench.aclt
	done | awk '{print "copy." $1, $2; print "copy.memcpy." $1, $4; print "copy.rate." $1, $4 / $2; print "copy.processor." $1, $8 / $6}' >>$RESULTS
}

# What a copy gains by its payload, which is kept up to 64 KiB and hashed above: a synchronous copy, and asynchronous ones from
# memory of the program and of the runtime.
payloads() {
	programs
	echo "== copies of 4 KiB and 1 MiB with their payloads, and memcpy; $ROUNDS rounds"
	for _ in $(seq "$ROUNDS"); do
		for kib in 4 1024; do
			for how in sync async pinned; do
				# shellcheck disable=SC2046 # no word for sync
				record -o $B/copy.aclt -- $B/copy $how-$kib 999 $kib $([ $how = sync ] || echo $how)
			done
		done
	done | awk '{print "payload." $1, $2; print "payload.memcpy." $1, $4}' >>$RESULTS
	rm -f $B/copy.aclt
}

# A step end to end, with default flags: 24 threads, each with steps of 400 launches, 5 graph runs and 40 asynchronous copies of 4 KiB to
# 1 MiB. The simulator executes its kernels, on the same cores. Every call is recorded or counted.
step() {
	programs
	echo "== a step of 400 launches, 5 graph runs and 40 copies, 24 threads: bare, recorded; $ROUNDS rounds"
	for _ in $(seq "$ROUNDS"); do
		ACLSIM_KERNELS=lib/aclsim_kernels.so bin/acltrace sim -- $B/step bare lib/aclsim_kernels.o 8
		ACLSIM_KERNELS=lib/aclsim_kernels.so bin/acltrace record -f -q --sim -o $B/step.aclt -- $B/step recorded lib/aclsim_kernels.o 8
		bin/acltrace info --json $B/step.aclt | awk -F '[:,]' '
			/^  "calls": *{/ { calls = 1 }
			calls == 1 && /"total"/ { all = $2; calls = 2 }
			/"calls_lost"/ { lost = $2 }
			END { print "counted", all + lost }'
	done | awk '
		$1 == "counted" { print "step.left", $2 - made; next }
		{ print "step." $1, $2 / 1000; print "step.least." $1, $4 / 1000; print "step.processor." $1, $6 / 1000; made = $8 }
		$1 == "bare" { bare = $2; processor = $6 }
		$1 == "recorded" { print "step.ratio", $2 / bare; print "step.added", ($6 - processor) / 1000 }' >>$RESULTS
	rm -f $B/step.aclt
}

# cuLaunchKernelEx with four arguments and an attribute, on a driver whose functions return immediately.
cuda() {
	# shellcheck disable=SC2086 # a list of flags
	flags="-std=gnu11 -O2 -Wall -Wextra -Werror -Iapi/cuda/include"
	cc $flags -fPIC -shared -Wl,-soname,libcuda.so.1 -o $B/null/libcuda.so.1 probe/shim/bench/cuda_null.c
	cc $flags -o $B/cuda_launch probe/shim/bench/cuda_launch.c $B/null/libcuda.so.1
	echo "== cuLaunchKernelEx with four arguments and an attribute: bare, recorded; $ROUNDS rounds"
	for _ in $(seq "$ROUNDS"); do
		LD_LIBRARY_PATH=$B/null $B/cuda_launch bare
		record --api cuda -o $B/cuda.aclt --payload none --ring-size 1M -- $B/cuda_launch recorded
	done | awk '{print "cuda." $1, $2}' >>$RESULTS
	rm -f $B/cuda.aclt
}

# A program that computes, by its own clock: microseconds per token.
decoder() {
	rounds=$((4 * ROUNDS))
	echo "== tiny_decoder: bare, recorded; $rounds rounds"
	tokens() { ACLSIM_KERNELS=bin/examples/decoder_kernels.so "$@" --tokens 200 | awk '/^time/{print $2}'; }
	for _ in $(seq $rounds); do
		bare=$(tokens bin/examples/tiny_decoder)
		recorded=$(tokens bin/acltrace record -f -q --sim -o $B/decoder.aclt -- bin/examples/tiny_decoder)
		echo "$bare $recorded"
	done | awk '{print "decoder.bare", $1; print "decoder.recorded", $2; print "decoder.ratio", $2 / $1}' >>$RESULTS
}

# The cost of recording if the recorder has a core of its own: program and simulator use the first core, the recorder the
# second. Kernels compute, as in decoder, or take modelled times and leave the core to the caller. As root, use `chrt -r 10` to
# keep other programs off the cores.
apart() {
	echo "== tiny_decoder on one core, the recorder on another: bare, recorded; $((2 * ROUNDS)) rounds"
	cc -std=c11 -O2 -Wall -Wextra -Werror -fPIC -shared -o $B/tokens.so probe/shim/bench/tokens.c -ldl
	token() {
		rm -f "$SCRATCH/token"
		ACLSIM_KERNELS=$kernels ACLSIM_KERNELS_BESIDE=0 LD_PRELOAD=$PWD/$B/tokens.so TOKENS=$SCRATCH/token "$@" --tokens 200 >/dev/null 2>&1 || true # with modelled kernels the tokens are wrong
		cat "$SCRATCH/token"
	}
	for _ in $(seq $((2 * ROUNDS))); do
		for kernels in bin/examples/decoder_kernels.so ""; do
			what=${kernels:+computed}
			echo "${what:-modelled} $(token taskset -c 0 bin/acltrace sim -- bin/examples/tiny_decoder) \
				$(token taskset -c 1 bin/acltrace record -f -q --sim -o $B/decoder.aclt -- taskset -c 0 bin/examples/tiny_decoder)"
		done
	done | awk '{print "apart.bare." $1, $2; print "apart.recorded." $1, $5; print "apart.ratio." $1, $5 / $2; print "apart.caller." $1, $3; print "apart.caller.recorded." $1, $6}' >>$RESULTS
}

# A replay on the simulator at the recorded pace: the error of the total time, the same without the time in which ready threads
# had no core, and the median delay of calls.
pace() {
	echo "== recorded pace: tiny_decoder, with kernels that compute, with modelled ones, and with pauses, $ROUNDS rounds"
	for _ in $(seq "$ROUNDS"); do
		for what in computed modelled pauses; do
			kernels=bin/examples/decoder_kernels.so pause=0
			[ $what != modelled ] || kernels=
			[ $what != pauses ] || pause=2
			ACLSIM_KERNELS=$kernels ACLSIM_KERNELS_BESIDE=0 bin/acltrace record -f -q --sim --replayable -o $B/pace.aclt -- bin/examples/tiny_decoder --tokens 64 --sleep-ms $pause >/dev/null 2>&1 || true # with modelled kernels the tokens are wrong
			bin/acltrace replay --pace recorded --json $B/pace.aclt | awk -F '[:,]' -v k=$what '
				/"error_percent"/ && !n++ { error = $2 < 0 ? -$2 : $2; print "pace.error." k, error }
				/"unexplained_percent"/ { left = $2 < 0 ? -$2 : $2; print "pace.left." k, left; print k ": " error " % off, " left " % without the time without a core" >"/dev/stderr" }
				/"p50_ns"/ && !m++ { print "pace.late." k, $2 / 1000 }'
		done
	done >>$RESULTS
	rm -f $B/pace.aclt
}

# Predictions by replays in virtual time, and the measured times on the changed device.
whatif() {
	echo "== what-if: 12 programs and 6 changes of the device, with and without device times"
	ACLTRACE_LIB=$PWD/lib timeout 300 go test -run '^$' -bench Predictions -benchtime 1x ./replay/whatif | grep -vE '^(goos|goarch|pkg|cpu|PASS|ok)'
}

# Compiles a plan for ten million calls and measures processor time and peak memory.
plan() {
	echo "== plan: compile a trace of 10,000,000 calls for a replay"
	ACLTRACE_BENCH_CALLS=10000000 timeout 300 go test -run '^$' -bench Compile -cpu 1 -benchtime 1x ./replay/compile | tee /dev/stderr | benchmarks
}

# Stores the output of Go benchmarks: "BenchmarkNAME  ROUNDS  FIGURE UNIT  FIGURE UNIT ...".
benchmarks() { awk '/^Benchmark/ {for (i = 3; i < NF; i += 2) print "go." substr($1, 10) "." $(i + 1), $i}' >>$RESULTS; }

# The trace file beside other formats for the same calls, three rounds in turn. Then a trace with 10^8 calls, 0.4 GB, at 10^6
# calls a minute: info, one second from the middle, and a full read.
file() {
	echo "== trace file, MCAP, structures in zstd; one core"
	for _ in 1 2 3; do
		for package in . ./yardsticks; do
			(cd format/$package && timeout 300 go test -run '^$' -bench 'Write|Size|Projection|Read/.*/.*/all|Read/.*/(mcap|structs)' -benchtime 0.7s -cpu 1 . 2>&1) |
				grep -E '^(Benchmark|panic|FAIL|---)' || echo "$package: ended early"
		done
	done | tee "$SCRATCH/file"
	! grep -qE '^(panic|FAIL|--- FAIL)' "$SCRATCH/file" || broken="$broken ./format"
	benchmarks <"$SCRATCH/file"
	echo "== a trace of 10^8 calls"
	go build -o $B/benchtrace ./internal/cmd/benchtrace
	trace=$SCRATCH/large.aclt
	$B/benchtrace 100000000 "$trace" decode 1000000
	for _ in $(seq "$ROUNDS"); do
		bash -c "TIMEFORMAT='large.info %R
large.info.cpu %U'; time bin/acltrace info $trace >/dev/null"
		bash -c "TIMEFORMAT='large.window %R
large.window.cpu %U'; time bin/acltrace cat --from 3000s --to 3001s $trace >/dev/null"
	done 2>>$RESULTS
	/usr/bin/time -f 'large.stats.kib %M' -a -o $RESULTS bin/acltrace stats "$trace" >/dev/null
}

# The peak memory of a flight recorder with a 64 MiB ring, without the ring's files: for 10^6 copies with 4 KiB of random
# content, and for calls without payload.
ring() {
	echo "== flight recorder: peak of the resident memory, MiB"
	cc -std=c11 -O2 -Wall -Wextra -Werror -Iapi/acl/include -o $B/payloads probe/shim/bench/payloads.c -Llib -lascendcl
	for level in small none; do
		bin/acltrace record -q --sim --ring 64M --policy block --payload $level -o "$SCRATCH/ring.aclt" -- $B/payloads 1000000 &
		pid=$! peak=0
		while now=$(awk '/^VmHWM/ {print int($2 / 1024)}' /proc/$pid/status 2>/dev/null) && [ -n "$now" ]; do
			peak=$now
			sleep 0.1
		done
		wait $pid
		echo "ring.mib.$level $peak"
	done | tee -a $RESULTS
}

# The product of matrices of 32-bit numbers on one core, and the step of a decoder beside PyTorch's CPU backend. The latter needs the environment of
# make test-torch.
operators() {
	echo "== operators: a product of matrices, and a training step"
	for _ in $(seq "$ROUNDS"); do
		go test -run '^$' -bench Matmul -cpu 1 ./sim/opapi/compute | benchmarks
	done
	[ -x build/torch/bin/python ] || { echo "the step is left out: make test-torch makes build/torch" && return 0; }
	ACLTRACE_LIB=$PWD/lib bin/acltrace sim -- build/torch/bin/python internal/torchtest/programs/pace.py "$ROUNDS" 2>/dev/null | grep '^operators\.' | tee -a $RESULTS
}

# The marks of an eager operator, in a library whose functions return immediately: the program's time, all processor time with that of the
# recorder, and bytes of the trace.
marks() {
	programs
	# shellcheck disable=SC2086 # a list of flags
	flags="-std=c11 -O2 -Wall -Wextra -Werror -Iapi/acl/include"
	cc $flags -DBASE -fPIC -shared -Wl,-soname,libnnopbase.so -o $B/null/libnnopbase.so probe/shim/bench/operators.c
	cc $flags -o $B/operators probe/shim/bench/operators.c -L$B/null -lnnopbase -lascendcl
	echo "== the marks of an operator: bare, not recorded, with names; the calls of all and shapes, not recorded and recorded; $ROUNDS rounds"
	for _ in $(seq "$ROUNDS"); do
		LD_LIBRARY_PATH=$B/null $B/operators bare 400
		for what in names all shapes; do
			for level in none $what; do
				name=$level
				[ $what = names ] || [ $level != none ] || name=$what.none
				LD_LIBRARY_PATH=$B/null bash -c "TIMEFORMAT='processor.$name %U %S'
time bin/acltrace record -f -q --payload none --operators $level -o $B/marks.aclt -- $B/operators $name 400 $what" 2>&1
				echo "bytes.$name $(stat -c %s $B/marks.aclt)"
			done
		done
	done | awk '
		$1 ~ /^processor/ { print "marks." $1, ($2 + $3) * 1e9 / 400000; next }
		$1 ~ /^bytes/ { print "marks." $1, $2 / 400000; next }
		{ print "marks." $1, $2 }' >>$RESULTS
	rm -f $B/marks.aclt
}

go_benchmarks() {
	echo "== Go benchmarks, one core"
	scripts/servers.sh
	for package in ./record/rows ./sim/acl ./sim/virtual ./sim/libascendcl/test ./timeline ./replay ./otelexport ./otelexport/live ./export/pprof ./export/perfetto ./export/chrome ./export/parquet ./probe/ring ./probe/uprobe; do
		timeout 300 go test -run '^$' -bench . -benchtime 0.5s -cpu 1 $package >"$SCRATCH/go" 2>&1 && grep -q '^Benchmark' "$SCRATCH/go" || broken="$broken $package"
		grep -E '^(Benchmark|pkg:|panic|FAIL|---)' "$SCRATCH/go" || true
	done
}

for part; do
	case $part in
	go) go_benchmarks ;;
	capture | payloads | step | cuda | decoder | apart | pace | whatif | plan | file | ring | operators | marks) $part ;;
	*) echo "bench.sh: no part '$part': there are capture, payloads, step, cuda, decoder, apart, pace, whatif, plan, file, ring, operators, marks and go" >&2 && exit 2 ;;
	esac
done
awk -f scripts/bench.awk $RESULTS
[ -z "$broken" ] || { echo "bench.sh: these benchmarks did not run to their end:$broken" >&2 && exit 1; }
