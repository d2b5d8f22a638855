package record_test

import (
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// A thread that sleeps or waits for another thread between two calls does not run, one that computes does: all three read as own time before.
func TestGapsAreDivided(t *testing.T) {
	program := testenv.CompileC(t, "gaps", []string{source("gaps.c")}, "-pthread")
	r, res, _ := run(t, record.Options{}, program)
	if res.ExitCode != 0 {
		t.Fatalf("%+v", res)
	}
	if r.Meta().Tracer.GapNS <= 0 {
		t.Errorf("the trace does not say from which length gaps are divided: %+v", r.Meta().Tracer)
	}
	var shares []float64 // of the gaps before aclrtGetDevice, blocked
	end := int64(0)
	for c, err := range r.CallsByStart(&format.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Schema().FuncName(c.Func) == "aclrtGetDevice" {
			share := 0.0
			for _, o := range c.Outs {
				if o.Param == api.BlockedParam {
					share = float64(o.Value) / float64(c.Start-end)
				}
			}
			shares = append(shares, share)
		}
		end = c.End
	}
	if len(shares) < 8 {
		t.Fatalf("%d queries", len(shares))
	}
	if shares = shares[len(shares)-4:]; shares[1] < 0.5 || shares[1] > 1 || shares[2] != 0 || shares[3] < 0.5 || shares[3] > 1 {
		t.Errorf("blocked parts of the gaps: %v; want the second and the fourth most, the third none", shares)
	}
}
