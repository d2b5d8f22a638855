package record_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// The time in which the shim hashed and copied payloads was taken for the program's own. Now the thread's next call has it, and
// the trace, info and stats have the sum.
func TestRecordingTime(t *testing.T) {
	program := testenv.CompileC(t, "copies", []string{source("copies.c")})
	for _, level := range []record.Payload{record.Small, record.Full, record.None} {
		t.Run(string(level), func(t *testing.T) {
			r, res, _ := run(t, record.Options{Capture: record.Capture{Payload: level}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program)
			if res.ExitCode != 0 {
				t.Fatalf("%+v", res)
			}
			var behind []string // functions that the recorder's time follows
			var sum, end int64
			last := ""
			for c, err := range r.CallsByStart(&format.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range c.Outs {
					if o.Param != api.RecordingParam {
						continue
					}
					behind = append(behind, last)
					sum += int64(o.Value)
					if int64(o.Value) > c.Start-end {
						t.Errorf("%d ns of recording in a gap of %d ns after %s", o.Value, c.Start-end, last)
					}
				}
				last, end = r.Schema().FuncName(c.Func), c.End
			}
			m := r.Meta().Tracer
			if level == record.None {
				if len(behind) != 0 || m.PayloadNS != 0 || m.Copies != nil {
					t.Errorf("recording after %v, %+v without payloads", behind, m)
				}
				return
			}
			if want := []string{"aclrtMemcpy", "aclrtMemcpy", "aclrtSynchronizeStream"}; !slices.Equal(behind, want) {
				t.Errorf("recording after %v, want %v", behind, want)
			}
			if c := m.Copies; c == nil || c.Count != 3 || c.Bytes != 3<<18 || c.RecordingNS != m.PayloadNS || c.CallsNS <= 0 || sum != m.PayloadNS {
				t.Errorf("%+v, %+v, the calls have %d ns", m, m.Copies, sum)
			}
			acltrace := testenv.Built(t, "bin/acltrace")
			if b, err := exec.Command(acltrace, "info", r.Path()).CombinedOutput(); err != nil || !strings.Contains(string(b), "of the time of 3 recorded copies of 256 KiB each") {
				t.Errorf("info does not say what recording took: %v\n%s", err, b)
			}
			b, err := exec.Command(acltrace, "stats", "--json", r.Path()).Output()
			if err != nil {
				t.Fatal(err)
			}
			var s stats.Stats
			if err := json.Unmarshal(b, &s); err != nil {
				t.Fatal(err)
			}
			took := map[string]bool{}
			for _, f := range s.Functions {
				took[f.Func] = f.RecordingNS > 0
			}
			if s.Recording.NS != sum || s.Recording.Copies.Count != 3 || !took["aclrtMemcpy"] || !took["aclrtSynchronizeStream"] || took["aclrtMemcpyAsync"] {
				t.Errorf("stats: %+v, %v", s.Recording, took)
			}
		})
	}
}

// stored returns a call's outputs, without the times that differ from run to run.
func stored(c *format.Call) []format.Out {
	return slices.DeleteFunc(slices.Clone(c.Outs), func(o format.Out) bool { return o.Param == api.RecordingParam || o.Param == api.BlockedParam })
}

// A copy that the runtime makes later may have a source that can't be read. The shim must not die of it, also if it reads pinned memory directly.
func TestCopiesOfUnmappedMemory(t *testing.T) {
	src := []string{source("unmapped.c")}
	lib := testenv.CompileC(t, "libascendcl.so", src, "-DRUNTIME", "-shared", "-fPIC", "-Wl,-soname,libascendcl.so")
	program := testenv.CompileC(t, "unmapped", append(src, lib), "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib))
	for how, hashed := range map[string]int{"child": 2, "guard": 1, "hole": 1, "freed": 1} {
		t.Run(how, func(t *testing.T) {
			r, res, _ := run(t, record.Options{}, program, how)
			if res.ExitCode != 5 || res.Lost != 0 {
				t.Fatalf("exit code %d, %d calls lost", res.ExitCode, res.Lost)
			}
			got := map[format.Status]int{}
			for d, err := range r.Data(nil) {
				if err != nil {
					t.Fatal(err)
				}
				if d.Len == 1<<20 {
					got[d.Status]++
					if d.Status == format.Missing && d.Reason != format.Unreadable {
						t.Errorf("missing because %v", d.Reason)
					}
				}
			}
			if got[format.Missing] != 1 || got[format.HashOnly] != hashed {
				t.Errorf("payloads by status: %v, want 1 missing and %d hashed", got, hashed)
			}
		})
	}
}
