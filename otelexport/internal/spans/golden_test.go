package spans

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// Spans show each kind of call, task, range and gap. Options lay them out differently, and fold those that a trace has no room for.
func TestEachKindOfCallIsShown(t *testing.T) {
	rich := testtrace.Rich(t)
	for _, c := range []struct {
		name string
		tl   *timeline.Timeline
		o    *Options
	}{
		{"otlp", rich, nil},
		{"otlp --layout lanes --step 1", rich, &Options{Layout: Lanes, Select: &timeline.Selection{Steps: &human.Numbers{First: 1, Last: 1}}}},
		{"otlp --brackets none --device-as attribute --from 4us --to 16us", rich, &Options{Brackets: BracketsNone, DeviceAs: otlp.DeviceAsAttribute, NoSteps: true, Select: &timeline.Selection{From: 4_000, To: 16_000}}},
		{"lanes", rich, &Options{Layout: Lanes}},
		{"ranks", testtrace.Ranks(t), nil},
		{"folded", testtrace.Long(t, 400), &Options{MaxSpans: MinSpans, NoSteps: true}},
		{"folded busy", busy(t), &Options{MaxSpans: MinSpans, NoSteps: true}},
		{"folded busy lanes", busy(t), &Options{MaxSpans: MinSpans, Layout: Lanes, NoSteps: true}},
		{"folded steps", testtrace.Steps(t, 1, 80, func(_, launch int) int64 { return int64(500 + 13*launch%400) }), &Options{MaxSpans: MinSpans}},
		{"folded lanes", testtrace.Long(t, 400), &Options{MaxSpans: MinSpans, Layout: Lanes, NoSteps: true}},
	} {
		x, err := New(c.tl.Reader, c.tl.Model, c.o)
		if err != nil {
			t.Fatal(err)
		}
		var all []oteltest.Span
		if err := x.Run(func(b *otlp.Batch) (*otlp.Batch, error) {
			td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b.Request(nil))
			all = append(all, oteltest.Flatten(td)...)
			b.Reset()
			return b, err
		}); err != nil {
			t.Fatal(err)
		}
		res := x.Result()
		testenv.Golden(t, "spans.txtar", c.name, fmt.Sprintf("%d calls in %d traces\n%s", res.Calls, res.Traces, oteltest.Text(all)))
	}
}
