package export_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	pq "github.com/parquet-go/parquet-go"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/export/chrome"
	"github.com/acltrace/acltrace/export/parquet"
	"github.com/acltrace/acltrace/export/perfetto"
	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport"
	"github.com/acltrace/acltrace/timeline"
)

// Every format has the selected calls and their tasks, and those that can say so.
func TestExportersKeepTheSelection(t *testing.T) {
	tl := testtrace.Steps(t, 12, 6, func(step, launch int) int64 { return 2_000 + int64(100*step+launch*7%50) })
	r := tl.Reader
	ids := map[string]bool{}
	for _, c := range []struct {
		s                      timeline.Selection
		calls, tasks, launches int
		traces                 int
	}{
		{timeline.Selection{Steps: &human.Numbers{First: 3, Last: 4}}, 18, 16, 12, 2},
		{timeline.Selection{Steps: &human.Numbers{First: 3, Last: 4}, Kernels: []string{"ma*"}}, 4, 4, 4, 2},
		{timeline.Selection{Funcs: []string{"aclrtSync*"}, Most: 5}, 5, 0, 0, 5},
		{timeline.Selection{Failed: true}, 0, 0, 0, 0},
	} {
		t.Run(c.s.String(), func(t *testing.T) {
			selection := c.s.String()
			var b bytes.Buffer
			ch, err := chrome.Write(&b, r, acl.Model, &chrome.Options{Select: &c.s})
			if err != nil || ch.Calls != c.calls || ch.Tasks != c.tasks || !strings.Contains(b.String(), fmt.Sprintf(`"selection": %q`, selection)) {
				t.Errorf("chrome: %v, %+v, %.300s", err, ch, b.String())
			}
			pf, err := perfetto.Write(io.Discard, r, acl.Model, &perfetto.Options{Select: &c.s})
			if err != nil || pf.Calls != c.calls || pf.Tasks != c.tasks {
				t.Errorf("perfetto: %v, %+v", err, pf)
			}
			b.Reset()
			pp, err := pprof.Write(&b, r, acl.Model, &pprof.Options{Select: &c.s})
			if err != nil || pp.Calls != c.calls {
				t.Fatalf("pprof: %v, %+v", err, pp)
			}
			p, err := profile.Parse(&b)
			if err != nil {
				t.Fatal(err)
			}
			launches := int64(0)
			for _, s := range p.Sample {
				launches += s.Value[0]
			}
			if want := fmt.Sprintf("only %d of %d calls are in the profile: %s", c.calls, len(tl.Calls), selection); launches != int64(c.launches) || !strings.Contains(strings.Join(p.Comments, "\n"), want) {
				t.Errorf("pprof: %d launches, comments %q", launches, p.Comments)
			}
			dir := t.TempDir()
			pa, err := parquet.Write(func(table string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, table)) }, r, acl.Model, &parquet.Options{Select: &c.s})
			if err != nil || pa.Calls != c.calls || pa.Tasks != c.tasks || pa.Kernels != c.launches {
				t.Errorf("parquet: %v, %+v", err, pa)
			}
			table, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil {
				t.Fatal(err)
			}
			f, err := pq.OpenFile(bytes.NewReader(table), int64(len(table)))
			if err != nil {
				t.Fatal(err)
			}
			if s, _ := f.Lookup("acltrace.selection"); s != selection {
				t.Errorf("parquet: selection %q", s)
			}
			b.Reset()
			ot, err := otelexport.Write(&b, r, acl.Model, &otelexport.Options{Select: &c.s})
			if err != nil || ot.Calls != c.calls || ot.Traces != c.traces || ids[ot.FirstTraceID] {
				t.Errorf("otlp: %v, %+v", err, ot)
			}
			ids[ot.FirstTraceID] = true
			calls, said := 0, 0
			for line := range strings.Lines(b.String()) {
				var v any
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Fatal(err)
				}
				calls += strings.Count(line, `"acl.call"`)
				said += strings.Count(line, `{"key":"acl.selection","value":{"stringValue":`+fmt.Sprintf("%q", selection)+`}}`)
			}
			if calls != c.calls || said != c.traces {
				t.Errorf("otlp: %d calls, %d roots with the selection in %s", calls, said, &b)
			}
		})
	}
}

// Calls and tasks of selected steps are on the critical path as in an export of the whole trace, and waits name the same work.
func TestSelectionKeepsCriticalPath(t *testing.T) {
	tl := testtrace.Steps(t, 12, 6, func(step, launch int) int64 { return 2_000 + int64(100*step+launch*7%50) })
	spans := func(s *timeline.Selection) map[string]string {
		var b bytes.Buffer
		if _, err := otelexport.Write(&b, tl.Reader, acl.Model, &otelexport.Options{Select: s}); err != nil {
			t.Fatal(err)
		}
		of := map[string]string{} // by name and start: attributes
		for line := range strings.Lines(b.String()) {
			var v struct {
				ResourceSpans []struct {
					ScopeSpans []struct {
						Spans []struct {
							Name              string
							StartTimeUnixNano string
							Attributes        []struct {
								Key   string
								Value json.RawMessage
							}
						}
					}
				}
			}
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			for _, r := range v.ResourceSpans {
				for _, s := range r.ScopeSpans {
					for _, span := range s.Spans {
						for _, a := range span.Attributes {
							switch a.Key {
							case "acl.critical_ns", "acl.critical_path", "acl.waited_for_call":
								of[span.Name+" "+span.StartTimeUnixNano] += fmt.Sprintf(" %s %s", a.Key, a.Value)
							}
						}
					}
				}
			}
		}
		return of
	}
	all := spans(nil)
	for least, s := range map[int]timeline.Selection{10: {Steps: &human.Numbers{First: 3, Last: 4}}, 4: {Steps: &human.Numbers{First: 3, Last: 4}, Funcs: []string{"aclrtSync*"}}} {
		some := spans(&s)
		if len(some) < least || len(some) > len(all)/4 {
			t.Errorf("%s: %d of %d spans", &s, len(some), len(all))
		}
		for span, attributes := range some {
			if attributes != all[span] {
				t.Errorf("%s: %s: %s, want %s", &s, span, attributes, all[span])
			}
		}
	}
}
