package report_test

import (
	"io"
	"testing"

	"github.com/acltrace/acltrace/analyze/memory"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/report"
)

// Memory by site names the site that grows, cuts long lists, and says so if there is no memory.
func TestMemoryBySite(t *testing.T) {
	grows := memory.Site{Process: 7, Thread: "thread 8 train", TID: 8, Func: "aclrtMalloc", SizeClass: "<=4KiB", Stack: []string{"keep+0x19 (app)", "main+0x20 (app)"}, Allocations: 20, Bytes: 20 << 10,
		AtPeakBytes: 20 << 10, AtPeakCount: 20, MostBytes: 20 << 10, KeptBytes: 20 << 10, KeptCount: 20, Growth: &stats.Growth{Steps: 14, FromBytes: 5 << 10, ToBytes: 19 << 10, PerStep: 1024}}
	cache := memory.Site{Process: 7, Thread: "thread 8 train", TID: 8, Func: "aclrtMallocPhysical", SizeClass: "<=16MiB", Allocations: 1, Bytes: 4 << 20, AtPeakBytes: 4 << 20, AtPeakCount: 1, MostBytes: 4 << 20,
		LateBytes: 4 << 20, LateCount: 1}
	m := &memory.Memory{PeakBytes: 4<<20 + 20<<10, Peak: &stats.Peak{Call: 99, Func: "aclrtMalloc", Time: 5_000_000, Bytes: 1024}, KeptBytes: 20 << 10, KeptCount: 20, LateBytes: 4 << 20, LateCount: 1, Steps: 20,
		Growth: grows.Growth, Sites: []memory.Site{cache, grows, {Process: 7, Allocations: 3, Bytes: 12}}}
	many := &memory.Memory{PeakBytes: 40, Peak: m.Peak, Sites: make([]memory.Site, 40)}
	for name, x := range map[string]*memory.Memory{"grows": m, "many": many, "none": {}} {
		testenv.Golden(t, "memory.txtar", name, written(func(w io.Writer) error { return report.MemoryText(w, "run.aclt", x, wide) }))
	}
}
