package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// limit is the memory limit for any command and trace length.
const limit = 256 << 20

// flat checks the memory that commands need for a trace.
func flat(t *testing.T, path string, commands []string) {
	for _, c := range commands {
		args := strings.Fields(strings.ReplaceAll(c, "FILE", path))
		for i := range args {
			if args[i] == "DIR" {
				args[i] = t.TempDir()
			}
		}
		if n := testenv.Peak(t, testenv.Built(t, "bin/acltrace"), args...); n > limit {
			t.Errorf("%s of %s takes %d MiB", c, path, n>>20)
		} else {
			t.Logf("%d MiB: %s", n>>20, c)
		}
	}
}

// TestLargeTracesStayWithinMemory uses a trace that exceeds the limit if held: a gigabyte as calls and tasks.
func TestLargeTracesStayWithinMemory(t *testing.T) {
	flat(t, testtrace.Decoding(t, 2_000_000, true).Path(), []string{"stats FILE", "stats --by step --json FILE", "stats --critical-path FILE", "stats --kernel * --by step --json FILE",
		"stats --step 4000:4010 FILE"})
	flat(t, testtrace.Decoding(t, 2_000_000, false).Path(), []string{"stats FILE", "stats --critical-path --json FILE", "export pprof -o /dev/null FILE"})
}

// TestSoakMemory runs all commands that read traces on 10^7 calls, and the exports on 10^5 and 10^8.
func TestSoakMemory(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("ACLTRACE_SOAK is not set: `make soak` does")
	}
	var files []string // exports to files
	for i := range exportFormats {
		f := &exportFormats[i]
		to := "/dev/null"
		if f.folder() {
			to = "DIR"
		}
		files = append(files, "export "+f.name+" -o "+to+" FILE")
	}
	files = append(files, "export perfetto --zstd -o /dev/null FILE", "export chrome --mindstudio -o /dev/null FILE")
	all := append(slices.Clone(files), "stats FILE", "stats --by step FILE", "stats --critical-path FILE", "stats --by stream --csv FILE", "diff FILE FILE",
		"export perfetto --zstd --gpu -o /dev/null FILE", "export perfetto --from 1s --to 2s -o /dev/null FILE", "cat --call 1000000:1000010 FILE", "stats --kernel * FILE",
		"export otlp --func aclrtSync* -o /dev/null FILE", "export perfetto --failed -o /dev/null FILE")
	flat(t, testtrace.Decoding(t, 10_000_000, true).Path(), all)
	flat(t, testtrace.Decoding(t, 10_000_000, false).Path(), all)
	for _, calls := range []int{100_000, 100_000_000} {
		flat(t, testtrace.Decoding(t, calls, true).Path(), files)
	}
}
