package format

import (
	"path/filepath"
	"testing"
)

// A trace whose tasks are on more streams than a reader takes in one table counted as damaged: a summary had them in one table.
func TestManyStreams(t *testing.T) {
	const streams = 2 * maxCalls
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "many.aclt"), filepath.Join(dir, "copied.aclt")
	w := create(t, path, nil)
	for i := range uint64(streams) {
		c := Call{Func: 3, Start: int64(i), End: int64(i), Outs: []Out{{Param: TaskParam, Value: i<<32 | 1}}}
		if _, err := w.Call(&c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := Copy(r, copied, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, copied} {
		if rep, err := Check(path, nil); err != nil || len(rep.Problems) != 0 || rep.Calls != streams {
			t.Errorf("%v: %+v", err, rep)
		}
	}
}
