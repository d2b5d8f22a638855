package format

import (
	"path/filepath"
	"testing"
)

// Each segment of a flight recorder kept its Writer's buffers. A Writer that passes them to the next one writes all its data,
// and takes data of its calls afterwards.
func TestTakeOver(t *testing.T) {
	r := newRandom(7)
	dir := t.TempDir()
	var writers []*Writer
	calls := make([][]*Call, 2)
	for i, name := range []string{"old.aclt", "new.aclt"} {
		w, err := Create(filepath.Join(dir, name), testMeta(), testSchema(), nil)
		if err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
		if _, err := w.Process(Process{PID: 1}); err != nil {
			t.Fatal(err)
		}
		for tid := range len(r.now) {
			if _, err := w.Thread(Thread{TID: tid}); err != nil {
				t.Fatal(err)
			}
		}
		if i == 1 {
			was := writers[0].block
			if err := w.TakeOver(writers[0]); err != nil || w.block != was {
				t.Fatalf("the working memory stays where it was: %v", err)
			}
		}
		for range 100 {
			c := r.call()
			if _, err := w.Call(c); err != nil {
				t.Fatal(err)
			}
			calls[i] = append(calls[i], c)
		}
	}
	late := Data{Call: 5, Param: 1, Dir: DirOut, Bytes: []byte("late"), Len: 4, Time: calls[0][5].End}
	if err := writers[0].Data(&late); err != nil {
		t.Fatal(err)
	}
	for i, w := range writers {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f := open(t, filepath.Join(dir, []string{"old.aclt", "new.aclt"}[i]))
		data := allData(t, f)
		for n, c := range calls[i] {
			want := len(c.Data)
			c.Data = nil
			if i == 0 && n == 5 {
				want++
			}
			if got := data[uint64(n)]; len(got) != want {
				t.Errorf("trace %d, call %d: %d rows of data, want %d", i, n, len(got), want)
			}
		}
		equal(t, collect(t, f, &Filter{NoData: true}), calls[i])
	}
}
