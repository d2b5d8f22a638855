package otelexport

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/timeline"
)

// looked is what scripts/jaeger-page.mjs prints.
type looked struct {
	Title    string
	Spans    int
	Found    int
	Critical [][2]float64 // sections of the critical path in the root, as left and width in percent
	Errors   []string     // on the page's console
}

// look opens a page in Chromium.
func look(t *testing.T, args ...string) (l looked) {
	t.Helper()
	testenv.Browse(t, &l, "jaeger-page.mjs", args...)
	return l
}

// needsPages skips the test unless Jaeger's pages and what opens them are here.
func needsPages(t *testing.T) (pages string) {
	t.Helper()
	root := testenv.Root(t)
	pages = filepath.Join(root, "build/jaeger-ui")
	if _, err := os.Stat(filepath.Join(pages, "index.html")); err != nil {
		t.Skipf("the page was NOT opened: Jaeger UI v1.74.0 is not built here, scripts/jaeger-ui.sh builds it (%v)", err)
	}
	testenv.NeedsBrowser(t)
	return pages
}

// In Chromium, a real Jaeger's page shows every span of a step. Its critical path covers the root without holes and fails
// nowhere, and its find box marks the spans of ours. Links on roots made that path fail.
func TestJaegerPage(t *testing.T) {
	pages := needsPages(t)
	j := oteltest.StartJaegerWithPages(t, pages)
	waits := newProgram(t, "k1", "k2", "k3")
	waits.launch(100_000, "k1", testtrace.StreamA, 110_000, 500_000)
	waits.Call(0, 200_000, 210_000, "aclrtRecordEvent", testtrace.A(testtrace.Event, testtrace.StreamA))
	waits.Call(0, 300_000, 310_000, "aclrtStreamWaitEvent", testtrace.A(testtrace.StreamB, testtrace.Event))
	waits.launch(400_000, "k2", testtrace.StreamB, 600_000, 700_000)
	waits.launch(420_000, "k3", testtrace.StreamB)
	waits.Call(0, 500_000, 900_000, "aclrtSynchronizeDevice", nil)
	for name, tl := range map[string]*timeline.Timeline{
		"waits": waits.Load(),
		"steps": testtrace.Steps(t, 5, 20, func(s, l int) int64 { return 100_000 + 1_000*int64(s*l%7) }),
		"long":  testtrace.Long(t, 6_000), // folded, nearly as many spans as are allowed
	} {
		for _, layout := range []string{Nested, Lanes} {
			if layout == Lanes && name != "waits" {
				continue
			}
			t.Run(name+" "+layout, func(t *testing.T) {
				o := &Options{Layout: layout, Endpoint: j.GRPC, Protocol: GRPC}
				res, err := send(t.Context(), tl, o)
				if err != nil {
					t.Fatal(err)
				}
				id := res.FirstTraceID
				if res.StepTraceID != "" {
					id = res.StepTraceID
				}
				spans, critical, title := 0, 0, ""
				all, _ := written(t, tl, o)
				for _, s := range all {
					if s.Trace != id {
						continue
					}
					spans++
					if s.Attrs["acl.critical"] == true {
						critical++
					}
					if s.Attrs["acl.part"] != nil {
						title = "train: " + s.Name + " " + id[:7]
					}
				}
				actions := []string{j.Query + "/trace/" + id, "collapse"}
				if critical > 0 {
					actions = append(actions, "find=acl.critical=true")
				}
				got := look(t, actions...)
				if got.Title != title || got.Spans != spans || got.Found != critical || len(got.Errors) > 0 {
					t.Errorf("%+v, want %q with %d spans, %d of them critical", got, title, spans, critical)
				}
				// The page adds up microseconds.
				if len(got.Critical) != 1 || got.Critical[0][0] > 0.1 || got.Critical[0][1] < 99.5 {
					t.Errorf("Jaeger's critical path has holes: %v", got.Critical)
				}
				if name != "long" && critical == 0 {
					t.Error("no critical path")
				}
			})
		}
	}
}
