package otlp

import (
	"fmt"
	"testing"

	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
)

func TestTraceparentsInMessages(t *testing.T) {
	good := "00-" + oteltest.Upstream + "-" + oteltest.Caller + "-01"
	for name, want := range map[string]struct {
		rest        string
		ok, sampled bool
	}{
		"traceparent=" + good:                            {"", true, true},
		"generate traceparent=" + good + " batch 3":      {"generate batch 3", true, true},
		"traceparent=" + good[:len(good)-1] + "0; infer": {"infer", true, false},
		"traceparent=00-1-2-01":                          {"", false, false},
		"traceparent=":                                   {"", false, false},
		"traceparent=00-" + fmt.Sprintf("%032d", 0) + "-" + oteltest.Caller + "-01": {"", false, false},
		good: {"", false, false},
	} {
		p, rest, ok := ParentIn(name)
		if ok != want.ok || p.Sampled != want.sampled || ok && rest != want.rest {
			t.Errorf("%q: %+v, %q, %t", name, p, rest, ok)
		}
		if ok && (fmt.Sprintf("%x", p.Trace[:]) != oteltest.Upstream || fmt.Sprintf("%016x", uint64(p.Id)) != oteltest.Caller) {
			t.Errorf("%q: %x %x", name, p.Trace, p.Id)
		}
	}
}
