package ranks

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
)

// Two ranks make five collectives, and a third one only three.
func TestBehindNamesTheRankWithFewerCollectives(t *testing.T) {
	j := newJob(3, 5)
	j.slow = 1
	less := *j
	less.starts, less.steps = j.starts[:3], 3
	dir := t.TempDir()
	out := filepath.Join(dir, "job.aclt")
	_, err := Merge(out, []*format.Reader{j.write(t, dir, 0, true), j.write(t, dir, 1, true), less.write(t, dir, 2, true)}, acl.Model, nil)
	check(t, err)
	r, err := format.Open(out, nil)
	check(t, err)
	defer r.Close()
	got, err := FindBehind(r, acl.Model)
	check(t, err)
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	next, err := r.Call(got[0].Call)
	check(t, err)
	earlier := 0
	for c, err := range r.Calls(&format.Filter{Funcs: []uint16{next.Func}}) {
		check(t, err)
		if c.Thread == next.Thread && c.Start < next.Start {
			earlier++
		}
	}
	got[0].Call = 0
	if want := []Behind{{Comm: "#1", Rank: 2, Called: 3, Other: 0, Of: 5, Func: "HcclAllReduce"}}; !reflect.DeepEqual(got, want) || earlier != 3 {
		t.Errorf("%+v after %d calls, want %+v", got, earlier, want)
	}
}
