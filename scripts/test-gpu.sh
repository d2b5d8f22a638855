#!/bin/bash
# Runs the tests that need an NVIDIA GPU, in less than eight minutes, and prints a table as it goes. Programs are run, recorded,
# replayed on the machine's own driver, and compared. The most informative tests come first:
#   1. all cases of examples/cuda/driver in one process; PyTorch, CuPy and Triton programs if python3 has the libraries; recorded
#      calls compared with CUPTI's count
#   2. each case by itself, memory at the recorded addresses, device times
#   3. the cost of recording, and the duration of replays compared with the original
# A failure does not stop the rest. Exits with 1 if anything differs. Exits without a test if there is no GPU. A figure that
# misses its aim is reported and is not a failure.
#
# Needs no toolkit, make or network. From `make build` it needs only bin/acltrace, bin/examples/cuda and lib/cupti-count.so, so
# they can be copied to a machine without a compiler.
#
#	FAKE=1        use the fake driver, to test this script; another value is a folder with a libcuda.so.1
#	CASES="a b"   the cases to run; STEPS, RUNS: length of the measured program, and how often it runs
#	LIMIT, TOTAL  seconds for one step and for everything
#	OUT           folder for the table and kept.tar.gz, with facts about the machine, and trace and output of failed tests
#	CUPTI         path of the CUPTI library, if it is not found
set -u
cd "$(dirname "$0")/.." || exit 1

skip() {
	echo "skipped: $1"
	exit 0
}

driver_example=bin/examples/cuda/driver
for part in bin/acltrace $driver_example lib/cupti-count.so; do
	[ -e "$part" ] || { echo "$part is not there: make build makes it"; exit 1; }
done
limit=${LIMIT:-60} total=${TOTAL:-450} steps=${STEPS:-500} runs=${RUNS:-5}
python=python3
if [ -n "${FAKE:-}" ]; then
	[ "$FAKE" != 1 ] || FAKE=$PWD/lib/fakecuda
	export LD_LIBRARY_PATH=$FAKE FAKECUDA_KERNELS=${FAKECUDA_KERNELS-$PWD/bin/examples/cuda/kernels.so}
	python=${PYTHON:-}
else
	# In containers, the loader's default folders and cache may lack the driver.
	for folder in /usr/local/nvidia/lib64 /usr/lib/wsl/lib; do
		[ ! -e $folder/libcuda.so.1 ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
	done
	driver=$(LD_TRACE_LOADED_OBJECTS=1 $driver_example 2>/dev/null | awk '$1 == "libcuda.so.1" && $3 ~ /^\// { print $3; exit }')
	[ -n "$driver" ] || skip "no libcuda.so.1 is installed: there is no NVIDIA driver here"
	[ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || skip "there is no /dev/nvidiactl: no NVIDIA GPU can be reached from here"
fi

dir=$(mktemp -d)
mkdir -p "${OUT:=$dir/out}" "$dir/kept"
children=
# shellcheck disable=SC2086 # a list
trap 'kill $children 2>/dev/null; rm -rf "$dir"' EXIT
ulimit -c 0
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 CUBLAS_WORKSPACE_CONFIG=:4096:8
bad=0 ran=0
row() { printf '%-44s %-20s %8s %8s %9s  %s\n' "$@" | tee -a "$OUT/table.txt"; }
number() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$2" | head -1; }
milliseconds() { echo "$((($2 - $1) / 1000000)) ms"; }
said_ms() { sed -n 's/^work: \([0-9.]*\) ms: ok$/\1/p' "$1"; }
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
failed() { bad=1; } # in this shell, not in one of a pipe

# in_time COMMAND…: runs a command, limited to the time for a step and to the remaining total time.
in_time() {
	local left=$((total - SECONDS))
	[ "$left" -gt 0 ] || { echo "no time was left" >&2; return 124; }
	timeout -k 5 "$((left < limit ? left : limit))" "$@"
}

# Crashed programs stay recordable. Containers have little shared memory, and PyTorch has many threads.
[ -d /dev/shm ] || mkdir -p /dev/shm
rings=
[ "$(df -Pm /dev/shm | awk 'NR == 2 { print $4 }')" -ge 512 ] || rings="--ring-size 1M"
# shellcheck disable=SC2086 # none, or two words
recorded() { in_time bin/acltrace record -q --api cuda $rings "$@"; }

# pack: packs the kept files into one archive, which is complete at any moment.
pack() { tar -C "$dir" -czf "$dir/kept.tar.gz" kept 2>/dev/null && mv "$dir/kept.tar.gz" "$OUT/kept.tar.gz" || cp -r "$dir/kept" "$OUT"; }

# keep NAME: keeps the output of a failed case, and its trace if that is small.
keep() {
	local name=${1//[^A-Za-z0-9]/-} size to
	to=$dir/kept/$name
	mkdir -p "$to"
	for part in bare out err cupti; do
		[ ! -e "$dir/$part" ] || tail -c 50000 "$dir/$part" >"$to/$part"
	done
	[ ! -e "$dir/replay" ] || head -c 200000 "$dir/replay" >"$to/replay"
	if [ -e "$dir/trace.aclt" ]; then
		size=$(stat -c %s "$dir/trace.aclt")
		in_time bin/acltrace info "$dir/trace.aclt" >"$to/info" 2>&1
		if [ "$size" -le 1000000 ]; then
			cp "$dir/trace.aclt" "$to"
		else
			in_time bin/acltrace cat "$dir/trace.aclt" 2>&1 | (head -n 4000; tail -n 400) | cut -c1-400 >"$to/calls"
			[ "$size" -gt 14000000 ] || [ -n "$(ls "$OUT"/*.aclt 2>/dev/null)" ] || cp "$dir/trace.aclt" "$OUT/$name.aclt"
		fi
	fi
	pack
}

# replay PACE OPTION…: replays the trace; sets verdict and results.
replay() {
	local code
	in_time bin/acltrace replay --json --verify --backend cuda --trust --pace "$@" "$dir/trace.aclt" >"$dir/replay" 2>"$dir/err"
	code=$?
	case $code in
	0) verdict=identical ;;
	4) verdict=unproved code=0 ;; # nothing differs; host functions are stubs
	3) verdict=DIFFERS ;;
	124 | 137) verdict="no end in its time" ;;
	*) verdict="FAILED: $(sed -n 's/.*"reason": *//p' "$dir/replay" | head -1)$(tail -1 "$dir/err")" ;;
	esac
	results=$(number proved "$dir/replay")
	return $code
}

# try NAME PROGRAM…: runs it, records it, replays it and compares.
try() {
	local name=$1 said began calls=- results=- took=- verdict="NOT RECORDED"
	shift
	rm -f "$dir"/{trace.aclt,bare,out,replay,err,cupti}
	began=$(date +%s%N)
	in_time "$@" >"$dir/bare" 2>&1 && said=$(tail -c 20000 "$dir/bare") || said="FAILED: $(tail -1 "$dir/bare")"
	took=$(milliseconds "$began" "$(date +%s%N)")
	case $said in
	FAILED:*) failed ;;
	*": ok"*) said=ok ;;
	*"not on this device"* | *"not here"*)
		row "$name" "$(tail -1 "$dir/bare" | cut -c1-20)" - - - -
		return 1
		;;
	*) failed ;;
	esac
	ran=$((ran + 1))
	if recorded --replayable -o "$dir/trace.aclt" -- "$@" >"$dir/out" 2>&1; then
		in_time bin/acltrace info --json "$dir/trace.aclt" >"$dir/info"
		calls=$(number total "$dir/info")
		replay asap || failed
	else
		verdict="NOT RECORDED: $(tail -1 "$dir/out")"
		failed
	fi
	row "$name" "${said:0:20}" "${calls:--}" "${results:--}" "$took" "${verdict:0:300}"
	case $verdict in identical | unproved) [ "$said" = ok ] && return 0 ;; esac
	keep "$name"
	return 1
}

# figure NAME LABEL A B: prints the difference between A and B, and whether it is within 2 %.
figure() {
	row "$1" "$2" - - "$(awk -v a="${3:-0}" 'BEGIN { printf "%.0f ms", a }')" "$(awk -v a="${3:-0}" -v b="${4:-0}" 'BEGIN {
		if (a <= 0 || b <= 0) { print "NOT MEASURED"; exit }
		p = 100 * (b - a) / a
		printf "%.1f ms, %+.1f %%: %s", b, p, (p <= 2 && p >= -2 ? "within 2 %" : "missed: aim 2 %") }')"
}

# paces NAME: replays the trace of try at the recorded pace too, and compares both durations with the original.
paces() {
	local name=$1 pace verdict results
	for pace in asap recorded; do
		replay "$pace" || failed
		figure "$name" "replay, $pace" "$(awk -v n="$(number recorded_ns "$dir/replay")" 'BEGIN { print n / 1e6 }')" "$(awk -v n="$(number replayed_ns "$dir/replay")" 'BEGIN { print n / 1e6 }')"
	done
}

# cost NAME PROGRAM…: measures the cost of recording a program that prints its duration, in turn with unrecorded runs.
cost() {
	local name=$1 i
	shift
	rm -f "$dir/cost.bare" "$dir/cost.recorded"
	for ((i = 0; i < runs; i++)); do
		in_time "$@" >"$dir/out" 2>&1 && said_ms "$dir/out" >>"$dir/cost.bare"
		recorded -o "$dir/cost.aclt" -- "$@" >"$dir/out" 2>&1 && said_ms "$dir/out" >>"$dir/cost.recorded"
		rm -f "$dir/cost.aclt"
	done
	touch "$dir/cost.bare" "$dir/cost.recorded"
	figure "$name" "recorded, $(wc -l <"$dir/cost.recorded") runs" "$(median <"$dir/cost.bare")" "$(median <"$dir/cost.recorded")"
}

# count NAME PROGRAM…: compares the recorded calls with CUPTI's count in the same run. Calls before CUPTI starts in cuInit are
# left out, and the recorder's own calls. Calls that acltrace only counts by name are included.
count() {
	local name=$1 both
	shift
	rm -f "$dir"/{trace.aclt,bare,out,replay,err,cupti}
	CUDA_INJECTION64_PATH=$PWD/lib/cupti-count.so ACLTRACE_CUPTI=$cupti ACLTRACE_CUPTI_OUT=$dir/cupti recorded --policy block -o "$dir/trace.aclt" -- "$@" >"$dir/out" 2>&1
	if [ ! -s "$dir/cupti" ]; then
		row "$name" "CUPTI counted none" - - - "$(grep -m1 cupti_count "$dir/out")"
		keep "$name"
		return
	fi
	in_time bin/acltrace info --json "$dir/trace.aclt" >"$dir/info"
	both=$(awk '
		BEGIN { split("cuInit cuGetProcAddress cuGetProcAddress_v2 cuDriverGetVersion cuGetExportTable cuFuncGetParamInfo cuKernelGetParamInfo", before); for (i in before) left_out[before[i]] = 1 }
		FNR == NR { if (!($1 in left_out)) { cupti[$1] = $2; all += $2 } next }
		/"passed_by"/ { passed = 1 } # looked up; only CUPTI knows whether they were called
		/}/ { passed = 0 }
		{ line = $0; while (match(line, /"cu[A-Za-z0-9_:]*": *[0-9]+/)) { # a form of a function is the function to CUPTI
			split(substr(line, RSTART, RLENGTH), part, /": */); sub(/:.*/, "", part[1]); f = substr(part[1], 2)
			if (passed) asked[f] += part[2]; else ours[f] += part[2]
			line = substr(line, RSTART + RLENGTH) } }
		END {
			for (f in cupti) if (cupti[f] != ours[f] && !(f in asked && cupti[f] <= ours[f] + asked[f])) differing = differing sprintf(" %s %d/%d", f, ours[f], cupti[f])
			for (f in ours) if (!(f in cupti) && !(f in left_out)) differing = differing sprintf(" %s %d/0", f, ours[f])
			printf "%d %s\n", all, differing
		}' "$dir/cupti" "$dir/info")
	if [ -z "${both#* }" ]; then
		row "$name" "counted by CUPTI" "${both%% *}" - - "the same functions, as often each"
	else
		row "$name" "counted by CUPTI" "${both%% *}" - - "DIFFERS (acltrace/CUPTI): $(cut -c1-300 <<<"${both#* }")"
		failed
		keep "$name"
	fi
}

# Facts about the machine. A process keeps the device in use, because an idle device may take seconds to start.
facts() {
	uname -a
	id
	cat /etc/os-release
	in_time nvidia-smi --query-gpu=name,driver_version,persistence_mode,compute_mode,mig.mode.current --format=csv,noheader
	echo "driver: ${driver:-the fake one}"
	nproc
	grep -i mem /proc/meminfo
	df -h /dev/shm /tmp .
	ldd --version 2>&1 | head -1
	for command in make go gcc nvcc gdb cuda-gdb perf python3 tar; do echo "$command: $(command -v $command)"; done
	[ -z "$python" ] || in_time $python -c 'import sys; print(sys.version)'
	in_time bin/acltrace doctor
}
facts >"$dir/kept/facts" 2>&1
[ -n "${FAKE:-}" ] || in_time nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | tee -a "$OUT/table.txt"
pack
mkfifo "$dir/held"
exec 9<>"$dir/held" # never readable, never at its end
timeout "$total" $driver_example --hold <"$dir/held" >"$dir/kept/hold" 2>&1 9>&- &
children+=" $!"
# Loads python3's libraries into the page cache in the background.
if [ -n "$python" ]; then
	timeout "$total" $python scripts/gpu_programs.py have >"$dir/have" 2>&1 &
	having=$!
	children+=" $having"
fi

row case program calls results "took bare" outcome
try "cases, all in one process" $driver_example ${CASES:-} # shellcheck disable=SC2086

# Third-party programs. They load large libraries.
have=
if [ -n "$python" ]; then
	wait "$having"
	have=" $(grep -s '^have ' "$dir/have" | cut -c6- | tr '\n' ' ') "
	cp "$dir/have" "$dir/kept/python"
fi
case $have in
*" torch "*)
	once=$limit
	[ -n "${LIMIT:-}" ] || limit=120
	try "PyTorch, an array" $python scripts/gpu_programs.py torch
	try "PyTorch, training steps" $python scripts/torch_step.py 20
	try "PyTorch, a captured graph" $python scripts/gpu_programs.py graph
	limit=$once
	;;
*) row "PyTorch, training steps" "not here" - - - - ;;
esac
for program in cupy triton; do
	case $have in *" $program "*) try "$program" $python scripts/gpu_programs.py $program ;; esac
done

# CUPTI comes with the toolkit or with PyTorch.
cupti=${CUPTI:-}
[ -n "$cupti" ] || [ -n "${FAKE:-}" ] || cupti=$(in_time find "${CUDA_HOME:-/usr/local/cuda}/" $($python -c 'import sys; print(*filter(None, sys.path))' 2>/dev/null) -maxdepth 6 -name 'libcupti.so.1[0-9]' 2>/dev/null | head -1)
if [ -n "$cupti" ] || ldconfig -p 2>/dev/null | grep -q libcupti.so; then
	count "calls of the cases" $driver_example ${CASES:-} # shellcheck disable=SC2086
	case $have in *" torch "*) count "calls of PyTorch" $python scripts/torch_step.py 20 ;; esac
else
	row "calls of the cases" "no CUPTI here" - - - -
fi

for name in ${CASES:-$($driver_example --list)}; do
	try "$name" $driver_example "$name"
done

# Allocations at the recorded addresses. This was never tried on a real driver.
rm -f "$dir"/{trace.aclt,bare,out,replay,err,cupti}
if recorded --replayable -o "$dir/trace.aclt" -- $driver_example copies >"$dir/out" 2>&1; then
	replay asap --place same
	row "--place same" ok - "${results:--}" - "${verdict:0:300}"
	case $verdict in identical | unproved) ;; *) keep "place same" ;; esac
	[ "$verdict" != DIFFERS ] || failed
fi

# Device times come from the device, and the program's results do not change.
if recorded --device-time all -o "$dir/timed.aclt" -- $driver_example order >"$dir/out" 2>&1; then
	row "--device-time" ok - - - "$(in_time bin/acltrace info "$dir/timed.aclt" | sed -n 's/^device time *//p' | head -1)"
else
	row "--device-time" "FAILED" - - - "$(tail -1 "$dir/out")"
	failed
fi

# Figures come last, because the tests matter more if time runs out.
case $have in
*" torch "*)
	try "PyTorch, $steps steps" $python scripts/torch_step.py "$steps" && paces "PyTorch, $steps steps"
	cost "PyTorch, $steps steps" $python scripts/torch_step.py "$steps"
	;;
esac
try "$steps steps of 100 launches" $driver_example --work "$steps" && paces "$steps steps of 100 launches"
cost "$steps steps of 100 launches" $driver_example --work "$steps"

pack
echo "$SECONDS s"
[ "$ran" -gt 0 ] || bad=1
exit $bad
