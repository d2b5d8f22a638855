package ring

import (
	"os"
	"runtime"
	"strings"
)

// readCounter reads the processor's time stamp counter, as the shim does.
func readCounter() uint64

// counterFit reports whether the counter runs at one rate on all cores. On arm64 it always does. On x86 the processor's flags
// and the kernel's choice of clock source decide.
func counterFit() bool {
	if runtime.GOARCH == "arm64" {
		return true
	}
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !strings.Contains(string(b), "constant_tsc") || !strings.Contains(string(b), "nonstop_tsc") {
		return false
	}
	src, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && (strings.HasPrefix(string(src), "tsc") || strings.HasPrefix(string(src), "kvm-clock"))
}

// Clock describes the clock that the shim reads on this machine.
func Clock() string {
	if counterFit() {
		return "the processor's counter"
	}
	return "clock_gettime as a system call, since the processor's counter does not tick evenly"
}
