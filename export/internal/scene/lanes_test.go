package scene_test

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/internal/testtrace"
)

type slices struct{ all []scene.Slice }

func (v *slices) Slice(s *scene.Slice) error {
	v.all = append(v.all, *s)
	return nil
}
func (*slices) Point(*scene.Counter, int64, float64) error { return nil }

// A stream's bracketed tasks share one row, one after the other. Regression: tasks that end at one wait were on up to 16 rows, one each.
func TestBracketsOfAStreamShareARow(t *testing.T) {
	const launches = 40
	b := testtrace.New(t)
	b.Call(0, 100, 200, "aclrtCreateStream", testtrace.A(1<<20), testtrace.Outs("stream", testtrace.StreamA))
	for i := range int64(launches) {
		b.Call(0, 1000+20*i, 1010+20*i, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
	}
	b.Call(0, 5000, 9000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	s, err := scene.New(b.Load().Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var v slices
	if err := s.Walk(&v); err != nil {
		t.Fatal(err)
	}
	var row *scene.Row
	n := 0
	for i := range v.all {
		l := &v.all[i]
		if l.Task == nil {
			continue
		}
		from := 1000 + 20*int64(n)
		to := from + 20
		if n++; n == launches {
			to = 9000
		}
		if row == nil {
			row = l.Row
		}
		if l.Row != row || row.Name != "stream 1 (bracketed)" || l.From != from || l.To != to || l.Moment {
			t.Errorf("task %d: %d to %d on row %d %q, want %d to %d", n-1, l.From, l.To, l.Row.ID, l.Row.Name, from, to)
		}
	}
	if n != launches || s.Drawn.Tasks != launches || s.Drawn.Moments != 0 {
		t.Errorf("%d tasks, %+v", n, s.Drawn)
	}
}
