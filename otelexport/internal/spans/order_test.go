package spans

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/acltrace/acltrace/internal/ordertest"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
)

// The span of a wait names the work that it waits for: the latest on the stream of the record, up to it.
func TestSpansNameTheWorkBeforeARecord(t *testing.T) {
	ordertest.Each(t, func(t *testing.T, p *ordertest.Program, tr *ordertest.Trace) {
		x, err := New(tr.Reader, tr.Model, &Options{MaxSpans: -1})
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{} // by call
		if err := x.Run(func(b *otlp.Batch) (*otlp.Batch, error) {
			td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b.Request(nil))
			for _, s := range oteltest.Flatten(td) {
				named[fmt.Sprint(s.Attrs["acl.waited_for_call"])] = true
			}
			b.Reset()
			return b, err
		}); err != nil {
			t.Fatal(err)
		}
		_, edges := p.Wants()
		for _, e := range edges {
			if !e.Is("event", "notify") {
				continue
			}
			work, stream := "", tr.Call(e.Before()).Stream
			for _, c := range p.Calls() {
				if c.Op == "run" && c.Stream == stream && tr.Calls[c.Name] < tr.Calls[e.Before()] {
					work = c.Name
				}
			}
			if want := fmt.Sprint(tr.Calls[work]); work != "" && !named[want] {
				t.Errorf("%s does not name %s: want %q of %v", e.After, work, want, named)
			}
		}
	})
}
