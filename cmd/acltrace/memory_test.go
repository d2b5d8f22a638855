package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/stream"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// limit is what a command may hold at a time, whatever the length of a trace.
const limit = 256 << 20

// synthetic writes a trace of so many calls. Where nothing waits, no task is ever known to have ended.
func synthetic(t *testing.T, calls int, waits bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.aclt")
	schema := record.Schema(acl.Model)
	w, err := format.Create(path, &format.Meta{API: acl.Model.Name}, schema, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := w.Process(format.Process{PID: 1})
	_, err2 := w.Thread(format.Thread{TID: 1})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	sync := schema.FuncByName("aclrtSynchronizeStream").ID
	s := stream.New(schema)
	var c format.Call
	for n := 0; n < calls; n++ {
		if s.Next(&c); c.Func == sync && !waits {
			continue
		}
		if _, err := w.Call(&c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// peak runs a command and returns the most memory that it has had, as the kernel counts it.
func peak(t *testing.T, args ...string) int64 {
	t.Helper()
	cmd := exec.Command(testenv.Built(t, "bin/acltrace"), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// flat checks what commands hold for a trace.
func flat(t *testing.T, path string, commands []string) {
	for _, c := range commands {
		args := strings.Fields(strings.ReplaceAll(c, "FILE", path))
		for i := range args {
			if args[i] == "DIR" {
				args[i] = t.TempDir()
			}
		}
		if n := peak(t, args...); n > limit {
			t.Errorf("%s of %s takes %d MiB", c, path, n>>20)
		} else {
			t.Logf("%d MiB: %s", n>>20, c)
		}
	}
}

// TestMemory has a trace that would not fit if it were held: a gigabyte as calls and tasks.
func TestMemory(t *testing.T) {
	flat(t, synthetic(t, 2_000_000, true), []string{"stats FILE", "stats --by step --json FILE"})
	flat(t, synthetic(t, 2_000_000, false), []string{"stats FILE", "export pprof -o /dev/null FILE"})
}

// TestSoakMemory gives 10^7 calls to everything that looks at traces.
func TestSoakMemory(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("ACLTRACE_SOAK is not set: `make soak` does")
	}
	all := []string{
		"stats FILE", "stats --by step FILE", "stats --by stream --csv FILE", "diff FILE FILE", "export pprof -o /dev/null FILE", "export perfetto -o /dev/null FILE",
		"export perfetto --zstd --gpu -o /dev/null FILE", "export perfetto --from 1s --to 2s -o /dev/null FILE", "export chrome -o /dev/null FILE", "export chrome --mindstudio -o /dev/null FILE",
		"export parquet -o DIR FILE", "export otlp -o /dev/null FILE",
	}
	flat(t, synthetic(t, 10_000_000, true), all)
	flat(t, synthetic(t, 10_000_000, false), all)
}
