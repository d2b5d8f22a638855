package otelexport

import (
	"testing"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/timeline"
)

// Spans are equal as JSON and as protobuf.
func TestSpansAsJSON(t *testing.T) {
	tl := testtrace.Rich(t)
	for _, o := range []*Options{
		nil,
		{Layout: Lanes, Select: &timeline.Selection{Steps: &human.Numbers{First: 1, Last: 1}}},
		{Brackets: BracketsNone, DeviceAs: DeviceAsAttribute, NoSteps: true, Select: &timeline.Selection{From: 4_000, To: 16_000}},
	} {
		spans, _ := written(t, tl, o)
		if json, wire := oteltest.Text(spans), oteltest.Text(sent(t, encoder(t, tl, o), nil)); json != wire {
			t.Errorf("%+v: as JSON\n%s\nas protobuf\n%s", o, json, wire)
		}
	}
}
