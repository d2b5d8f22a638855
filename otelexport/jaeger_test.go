package otelexport

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/timeline"
	"github.com/google/go-cmp/cmp"
)

// A real Jaeger stores the same spans that Write writes, to the nanosecond.
func TestJaegerStoresTheSameSpans(t *testing.T) {
	j := oteltest.StartJaeger(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*testenv.Patience)
	defer cancel()
	for name, tl := range withProfiles(t, map[string]*timeline.Timeline{"small": testtrace.Small(t), "long": testtrace.Long(t, 6_000)}) {
		for _, o := range []Options{
			{Layout: Lanes, Protocol: GRPC, Endpoint: j.GRPC},
			{Layout: Nested, Protocol: HTTP, Endpoint: j.HTTP},
			{Layout: Lanes, Protocol: HTTP, Endpoint: j.HTTP, MaxSpans: -1}, // another limit gives other traces
		} {
			t.Run(fmt.Sprintf("%s %s %s", name, o.Layout, o.Protocol[:4]), func(t *testing.T) {
				want, _ := written(t, tl, &Options{Layout: o.Layout, MaxSpans: o.MaxSpans})
				res, err := send(ctx, tl, &o)
				if err != nil {
					t.Fatal(err)
				}
				if res.Spans != len(want) || res.FirstTraceID != want[0].Trace || res.Rejected != 0 {
					t.Errorf("%+v, want %d spans in %s", res, len(want), want[0].Trace)
				}
				traces := map[string]bool{}
				for _, s := range want {
					traces[s.Trace] = true
				}
				var got []oteltest.Span
				for id := range traces {
					got = append(got, j.Spans(t, id)...)
				}
				if len(traces) != res.Traces || name == "long" && res.Traces != 1 {
					t.Errorf("%d traces", len(traces))
				}
				for i := range want {
					want[i].Schema = "" // Jaeger drops it
				}
				for i := range got {
					if strings.HasPrefix(name, "profile ") {
						delete(got[i].Attrs, "@jaeger@warnings") // about tasks that begin before their calls by the device clock
					}
				}
				if sent, stored := oteltest.ByID(t, want), oteltest.ByID(t, got); !reflect.DeepEqual(sent, stored) {
					t.Errorf("Jaeger has other spans (-sent +stored):\n%.3000s", cmp.Diff(sent, stored))
				}
			})
		}
	}

	var services struct{ Data []string }
	if err := json.Unmarshal(oteltest.Get(t, j.Query+"/api/services"), &services); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"train", "loader", "train/npu:3"} {
		found := false
		for _, have := range services.Data {
			found = found || have == s
		}
		if !found {
			t.Errorf("Jaeger lists the services %v, without %s", services.Data, s)
		}
	}
}
