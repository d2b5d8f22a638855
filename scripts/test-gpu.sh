#!/bin/bash
# What can be proved on a machine with an NVIDIA GPU alone, in less than eight minutes, with a table as it goes: each case of
# examples/cuda/driver runs, is recorded, and is replayed and compared, on the machine's own driver; one with its memory where it was; times
# of the device; the calls that were recorded beside those that CUPTI counts; a PyTorch model's steps; then what recording costs, and how
# long replays take beside the original. Ends with 1 where anything differs, and skips where there is no GPU. A figure that misses its aim says so, and fails nothing.
# Needs no toolkit and no network, and of what `make build` leaves bin/acltrace, bin/examples/cuda and lib/cupti-count.so alone: the
# machine with the GPU needs no compiler where those are brought along.
#
#	FAKE=1        tries the script itself on the fake driver; another value is the folder of a libcuda.so.1 to try it on
#	CASES="a b"   the cases to run; STEPS, RUNS: how long the measured program is, and how often it runs
#	LIMIT, TOTAL  the seconds that one step and all of it may take
#	OUT           a folder that keeps the table, and of what failed or differed the trace and what was said
#	CUPTI         the CUPTI to count calls with, where it is not found by itself
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
if [ -n "${FAKE:-}" ]; then
	[ "$FAKE" != 1 ] || FAKE=$PWD/lib/fakecuda
	export LD_LIBRARY_PATH=$FAKE FAKECUDA_KERNELS=${FAKECUDA_KERNELS-$PWD/bin/examples/cuda/kernels.so}
else
	# Containers have the driver where the loader does not look by itself, and a cache that does not know it.
	for folder in /usr/local/nvidia/lib64 /usr/lib/wsl/lib; do
		[ ! -e $folder/libcuda.so.1 ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
	done
	driver=$(LD_TRACE_LOADED_OBJECTS=1 $driver_example 2>/dev/null | awk '$1 == "libcuda.so.1" && $3 ~ /^\// { print $3; exit }')
	[ -n "$driver" ] || skip "no libcuda.so.1 is installed: there is no NVIDIA driver here"
	[ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || skip "there is no /dev/nvidiactl: no NVIDIA GPU can be reached from here"
	nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "${OUT:=$dir/kept}"
bad=0 ran=0
row() { printf '%-44s %-20s %8s %8s %9s  %s\n' "$@" | tee -a "$OUT/table.txt"; }
number() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$2" | head -1; }
milliseconds() { echo "$((($2 - $1) / 1000000)) ms"; }
said_ms() { sed -n 's/^work: \([0-9.]*\) ms: ok$/\1/p' "$1"; }
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
failed() { bad=1; } # in this shell, not in one of a pipe

# in_time COMMAND…: runs it for as long as a step may take, and no longer than is left for all.
in_time() {
	local left=$((total - SECONDS))
	[ "$left" -gt 0 ] || { echo "no time was left" >&2; return 124; }
	timeout -k 5 "$((left < limit ? left : limit))" "$@"
}

# keep NAME: what there is of a case that failed, without the trace where that is large.
keep() {
	local to=$OUT/${1//[^A-Za-z0-9]/-}
	mkdir -p "$to"
	cp "$dir/out" "$dir/replay" "$dir/err" "$to" 2>/dev/null
	[ "$(stat -c %s "$dir/trace.aclt" 2>/dev/null || echo 99999999)" -gt 4000000 ] || cp "$dir/trace.aclt" "$to"
}

# replay PACE OPTION…: replays the trace; sets verdict and results.
replay() {
	local code
	in_time bin/acltrace replay --json --verify --backend cuda --trust --pace "$@" "$dir/trace.aclt" >"$dir/replay" 2>"$dir/err"
	code=$?
	case $code in
	0) verdict=identical ;;
	3) verdict=DIFFERS ;;
	124 | 137) verdict="no end in its time" ;;
	*) verdict="FAILED: $(sed -n 's/.*"reason": *//p' "$dir/replay" | head -1)$(tail -1 "$dir/err")" ;;
	esac
	results=$(number results "$dir/replay")
	return $code
}

# try NAME PROGRAM…: runs it, records it, replays it and compares.
try() {
	local name=$1 said began calls=- results=- took=- verdict="NOT RECORDED"
	shift
	began=$(date +%s%N)
	said=$(in_time "$@" 2>&1) || said="FAILED: $(tail -1 <<<"$said")"
	took=$(milliseconds "$began" "$(date +%s%N)")
	case $said in
	*"not on this device"*)
		row "$name" "not on this device" - - - -
		return 1
		;;
	*": ok"*) said=ok ;;
	*) failed ;;
	esac
	ran=$((ran + 1))
	rm -f "$dir"/{trace.aclt,out,replay,err}
	if in_time bin/acltrace record -q --api cuda --replayable -o "$dir/trace.aclt" -- "$@" >"$dir/out" 2>&1; then
		bin/acltrace info --json "$dir/trace.aclt" >"$dir/info"
		calls=$(number total "$dir/info")
		replay asap || failed
	else
		failed
	fi
	row "$name" "${said:0:20}" "${calls:--}" "${results:--}" "$took" "$verdict"
	[ "$verdict" = identical ] && [ "$said" = ok ] && return 0
	keep "$name"
	return 1
}

# figure NAME WHAT A B: how far B is from A, and whether that is within 2 %.
figure() {
	row "$1" "$2" - - "$(awk -v a="${3:-0}" 'BEGIN { printf "%.0f ms", a }')" "$(awk -v a="${3:-0}" -v b="${4:-0}" 'BEGIN {
		if (a <= 0 || b <= 0) { print "NOT MEASURED"; exit }
		p = 100 * (b - a) / a
		printf "%.1f ms, %+.1f %%: %s", b, p, (p <= 2 && p >= -2 ? "within 2 %" : "missed: aim 2 %") }')"
}

# paces NAME PROGRAM…: the trace of try once more at the pace of the recording; how long both took beside the original.
paces() {
	local name=$1 pace verdict results
	for pace in asap recorded; do
		replay "$pace" || failed
		figure "$name" "replay, $pace" "$(awk -v n="$(number recorded_ns "$dir/replay")" 'BEGIN { print n / 1e6 }')" "$(awk -v n="$(number replayed_ns "$dir/replay")" 'BEGIN { print n / 1e6 }')"
	done
}

# cost NAME PROGRAM…: what recording costs a program that says how long its work took, in turn with it bare.
cost() {
	local name=$1 way i
	shift
	rm -f "$dir/bare" "$dir/recorded"
	for ((i = 0; i < runs; i++)); do
		in_time "$@" >"$dir/out" 2>&1 && said_ms "$dir/out" >>"$dir/bare"
		in_time bin/acltrace record -q --api cuda -o "$dir/cost.aclt" -- "$@" >"$dir/out" 2>&1 && said_ms "$dir/out" >>"$dir/recorded"
		rm -f "$dir/cost.aclt"
	done
	touch "$dir/bare" "$dir/recorded"
	figure "$name" "recorded, $(wc -l <"$dir/recorded") runs" "$(median <"$dir/bare")" "$(median <"$dir/recorded")"
}

# count NAME PROGRAM…: the calls that were recorded beside those that CUPTI counts in the same run. CUPTI begins within cuInit, so what
# comes before and leads there is left out; what acltrace counts by name alone, it counts.
count() {
	local name=$1 both
	shift
	rm -f "$dir/cupti"
	CUDA_INJECTION64_PATH=$PWD/lib/cupti-count.so ACLTRACE_CUPTI=$cupti ACLTRACE_CUPTI_OUT=$dir/cupti \
		in_time bin/acltrace record -q --api cuda -o "$dir/trace.aclt" -- "$@" >"$dir/out" 2>&1
	if [ ! -s "$dir/cupti" ]; then
		row "$name" "CUPTI counted none" - - - "$(grep -m1 cupti_count "$dir/out")"
		return
	fi
	bin/acltrace info --json "$dir/trace.aclt" >"$dir/info"
	both=$(awk '
		BEGIN { split("cuInit cuGetProcAddress cuGetProcAddress_v2 cuDriverGetVersion cuGetExportTable", before); for (i in before) left_out[before[i]] = 1 }
		FNR == NR { if (!($1 in left_out)) { cupti[$1] = $2; all += $2 } next }
		{ line = $0; while (match(line, /"cu[A-Za-z0-9_:]*": *[0-9]+/)) { # a form of a function is the function to CUPTI
			split(substr(line, RSTART, RLENGTH), part, /": */); sub(/:.*/, "", part[1]); ours[substr(part[1], 2)] += part[2]; line = substr(line, RSTART + RLENGTH) } }
		END {
			for (f in cupti) if (cupti[f] != ours[f]) differing = differing sprintf(" %s %d/%d", f, ours[f], cupti[f])
			for (f in ours) if (!(f in cupti) && !(f in left_out)) differing = differing sprintf(" %s %d/0", f, ours[f])
			printf "%d %s\n", all, differing
		}' "$dir/cupti" "$dir/info")
	if [ -z "${both#* }" ]; then
		row "$name" "counted by CUPTI" "${both%% *}" - - "the same functions, as often each"
	else
		row "$name" "counted by CUPTI" "${both%% *}" - - "DIFFERS (acltrace/CUPTI): ${both#* }"
		failed
	fi
}

row case program calls results "took bare" outcome
for name in ${CASES:-$($driver_example --list)}; do
	try "$name" $driver_example "$name"
done

# Allocations where they were. What the driver does with the wish nobody has seen.
if in_time bin/acltrace record -q --api cuda --replayable -o "$dir/trace.aclt" -- $driver_example copies >"$dir/out" 2>&1; then
	replay asap --place same
	row "--place same" ok - "${results:--}" - "$verdict"
	[ "$verdict" != DIFFERS ] || failed
fi

# Device times are those of the device, and the program's results stay as they are.
if in_time bin/acltrace record -q --api cuda --device-time -o "$dir/timed.aclt" -- $driver_example order >"$dir/out" 2>&1; then
	row "--device-time" ok - - - "$(bin/acltrace info "$dir/timed.aclt" | sed -n 's/^device time *//p' | head -1)"
else
	row "--device-time" "FAILED" - - - "$(tail -1 "$dir/out")"
	failed
fi

# CUPTI lies with the toolkit, or with PyTorch.
cupti=${CUPTI:-}
[ -n "$cupti" ] || [ -n "${FAKE:-}" ] || cupti=$(find "${CUDA_HOME:-/usr/local/cuda}/" $(python3 -c 'import site; print(*site.getsitepackages())' 2>/dev/null) -name 'libcupti.so.1[0-9]' 2>/dev/null | head -1)
if [ -n "$cupti" ] || ldconfig -p 2>/dev/null | grep -q libcupti.so; then
	count "calls of the cases" $driver_example ${CASES:-}
else
	row "calls of the cases" "no CUPTI here" - - - -
fi

# A program that nobody here wrote.
torch=
if [ -z "${FAKE:-}" ] && in_time python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
	torch=1
	export CUBLAS_WORKSPACE_CONFIG=:4096:8
	try "PyTorch, training steps" python3 scripts/torch_step.py 20
	[ -z "$cupti" ] || count "calls of PyTorch" python3 scripts/torch_step.py 20
else
	row "PyTorch, training steps" "not here" - - - -
fi

# Figures last: what comes before counts more where time runs out.
if [ -n "$torch" ]; then
	try "PyTorch, $steps steps" python3 scripts/torch_step.py "$steps" && paces "PyTorch, $steps steps"
	cost "PyTorch, $steps steps" python3 scripts/torch_step.py "$steps"
fi
try "$steps steps of 100 launches" $driver_example --work "$steps" && paces "$steps steps of 100 launches"
cost "$steps steps of 100 launches" $driver_example --work "$steps"

echo "$SECONDS s"
[ "$ran" -gt 0 ] || bad=1
exit $bad
