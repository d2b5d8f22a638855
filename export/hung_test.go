package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/export/chrome"
	"github.com/acltrace/acltrace/export/html"
	"github.com/acltrace/acltrace/export/internal/viewertest"
	"github.com/acltrace/acltrace/export/parquet"
	"github.com/acltrace/acltrace/export/perfetto"
	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport"
)

// A hang of 21 s was drawn as long as the recorder had last seen it. A call that never returned lasts until the recording ends, as an error, in every view.
func TestCallThatNeverReturnedInEveryView(t *testing.T) {
	const began, seen, ended = 3000, 9000, 21_000_000_000 // of the wait
	a := testtrace.A
	b := testtrace.New(t)
	b.Call(0, 1000, 1100, "aclrtCreateStream", a(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 2000, 2100, "aclrtMemsetAsync", a(testtrace.DeviceA, 4096, 0, 4096, testtrace.StreamA))
	b.Call(0, began, seen, "aclrtSynchronizeStream", a(testtrace.StreamA), testtrace.Hangs)
	b.Call(1, 9500, 9600, "aclrtSetDevice", a(0)) // another thread goes on
	b.Call(1, ended-100, ended, "aclrtSetDevice", a(0))
	r := b.Load().Reader
	dir := t.TempDir()
	for view, shows := range map[string]func(t *testing.T) string{
		"perfetto": func(t *testing.T) string {
			var out bytes.Buffer
			_, err := perfetto.Write(&out, r, acl.Model, nil)
			path := filepath.Join(dir, "x.pftrace")
			if err := errors.Join(err, os.WriteFile(path, out.Bytes(), 0o600)); err != nil {
				t.Fatal(err)
			}
			rows := viewertest.SQL(t, path, "select dur, extract_arg(arg_set_id, 'debug.acl_error') from slice where name = 'aclrtSynchronizeStream'")
			return strings.Join(rows[0][0], " ")
		},
		"chrome": func(t *testing.T) (got string) {
			var out bytes.Buffer
			if _, err := chrome.Write(&out, r, acl.Model, nil); err != nil {
				t.Fatal(err)
			}
			var doc struct {
				TraceEvents []struct {
					Name, Cat string
					Dur       float64
					Args      map[string]any
				}
			}
			if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
				t.Fatal(err)
			}
			for _, e := range doc.TraceEvents {
				if e.Name == "aclrtSynchronizeStream" && e.Cat == "call" {
					got = fmt.Sprintf("%.0f %v", e.Dur*1000, e.Args["acl.error"])
				}
			}
			return got
		},
		"parquet": func(t *testing.T) (got string) {
			_, err := parquet.Write(func(table string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, table)) }, r, acl.Model, nil)
			if err != nil {
				t.Fatal(err)
			}
			rows(t, filepath.Join(dir, "calls"), func(c *parquet.Call) {
				if c.Function == "aclrtSynchronizeStream" && c.Unfinished && c.Error != nil {
					got = fmt.Sprint(c.DurationNS, " ", *c.Error)
				}
			})
			return got
		},
		"otlp": func(t *testing.T) (got string) {
			var out bytes.Buffer
			if _, err := otelexport.Write(&out, r, acl.Model, nil); err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(out.Bytes()) {
				td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
				if err != nil {
					t.Fatal(err)
				}
				for _, rs := range td.ResourceSpans().All() {
					for _, s := range rs.ScopeSpans().At(0).Spans().All() {
						if name, _ := s.Attributes().Get("code.function.name"); name.Str() == "aclrtSynchronizeStream" && s.Status().Code() == ptrace.StatusCodeError {
							got = fmt.Sprint(int64(s.EndTimestamp()-s.StartTimestamp()), " ", s.Status().Message())
						}
					}
				}
			}
			return got
		},
		"pprof": func(t *testing.T) (got string) {
			var out bytes.Buffer
			if _, err := pprof.Write(&out, r, acl.Model, nil); err != nil {
				t.Fatal(err)
			}
			p, err := profile.Parse(&out)
			if err != nil {
				t.Fatal(err)
			}
			host := 0
			for i, k := range p.SampleType {
				if k.Type == "host_time" {
					host = i
				}
			}
			for _, s := range p.Sample {
				if s.Location[0].Line[0].Function.Name == "aclrtSynchronizeStream" {
					got = fmt.Sprint(s.Value[host])
				}
			}
			if strings.Contains(strings.Join(p.Comments, "\n"), "calls that never returned: 1") {
				got += " never returned"
			}
			return got
		},
		"html": func(t *testing.T) (got string) {
			var out bytes.Buffer
			if _, err := html.Write(&out, &html.Trace{Path: "x.aclt", Reader: r}, acl.Model, nil); err != nil {
				t.Fatal(err)
			}
			_, text, _ := bytes.Cut(out.Bytes(), []byte(`id="data">`))
			text, _, _ = bytes.Cut(text, []byte("</script>"))
			var page struct {
				Tables struct {
					Troubles struct {
						Rows []struct {
							Took int64 `json:"took_ns"`
							What string
						}
					}
				}
			}
			if err := json.Unmarshal(text, &page); err != nil || len(page.Tables.Troubles.Rows) != 1 {
				t.Fatal(err, page)
			}
			x := page.Tables.Troubles.Rows[0]
			return fmt.Sprint(x.Took, " ", x.What)
		},
	} {
		t.Run(view, func(t *testing.T) {
			if got, want := shows(t), fmt.Sprint(ended-began, " never returned"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
