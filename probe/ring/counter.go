package ring

import (
	"os"
	"runtime"
	"strings"
)

// readCounter reads the processor's time stamp counter, as the shim does.
func readCounter() uint64

// counterFit reports whether the counter ticks at one rate on all cores, whatever they do: always so on arm64; on x86
// where the processor says so and the kernel itself trusts it.
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
