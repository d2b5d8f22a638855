#!/bin/bash
# What can be proved on a machine with an NVIDIA GPU alone: each case of examples/cuda/driver runs, is recorded, and is replayed and
# compared, on the machine's own driver. Prints a table; ends with 1 where anything differs, and skips where there is no GPU.
# DRIVER names another driver: the fake one, to try the script itself.
set -u
cd "$(dirname "$0")/.."

skip() {
	echo "skipped: $1"
	exit 0
}

driver=${DRIVER:-}
if [ -n "$driver" ]; then
	driver=$(realpath "$driver")
	LD_LIBRARY_PATH=$(dirname "$driver")
	export LD_LIBRARY_PATH
else
	driver=$(ldconfig -p 2>/dev/null | awk '$1 == "libcuda.so.1" { print $NF; exit }')
	[ -n "$driver" ] || skip "no libcuda.so.1 is installed: there is no NVIDIA driver here"
	[ -e /dev/nvidiactl ] || skip "there is no /dev/nvidiactl: no NVIDIA GPU can be reached from here"
fi

program=bin/examples/cuda/driver
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
printf '%-46s %-20s %8s %8s  %s\n' case program calls results replay
for name in $($program --list); do
	said=$($program "$name" 2>&1) || said="FAILED: $said"
	case $said in
	*"not on this device"*)
		printf '%-46s %s\n' "$name" "not on this device"
		continue
		;;
	*": ok"*) said=ok ;;
	*) bad=1 ;;
	esac
	trace=$dir/$name.aclt calls=- results=- verdict="NOT RECORDED"
	if bin/acltrace record -q --api cuda --replayable -o "$trace" -- $program "$name" >"$dir/out" 2>&1; then
		calls=$(bin/acltrace info --json "$trace" | sed -n 's/.*"total": *\([0-9]*\).*/\1/p' | head -1)
		bin/acltrace replay --json --verify --backend "$driver" "$trace" >"$dir/replay" 2>"$dir/err"
		case $? in
		0) verdict=identical ;;
		3) verdict=DIFFERS bad=1 ;;
		*) verdict="FAILED: $(tail -1 "$dir/err")" bad=1 ;;
		esac
		results=$(sed -n 's/.*"results": *\([0-9]*\).*/\1/p' "$dir/replay" | head -1)
	else
		bad=1
	fi
	printf '%-46s %-20s %8s %8s  %s\n' "$name" "${said:0:20}" "${calls:--}" "${results:--}" "$verdict"
done
exit $bad
