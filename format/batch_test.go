package format_test

import (
	"testing"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/stream"
)

// Batches have the calls' values, for any requested columns.
func TestBatchesHaveRequestedColumns(t *testing.T) {
	for name, opts := range compressions {
		path := t.TempDir() + "/run.aclt"
		w, err := format.Create(path, &format.Meta{API: "acl"}, stream.Schema(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Process(format.Process{PID: 42}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if _, err := w.Thread(format.Thread{TID: 42}); err != nil {
				t.Fatal(err)
			}
		}
		l := stream.New(stream.Schema())
		var c format.Call
		for i := range 3*format.BatchCalls + 77 {
			l.Next(&c)
			c.Thread, c.Ret = uint32(i/700), uint64(i%3)<<(i%64)
			if i%1000 == 5 {
				c.Flags = format.Unfinished
			}
			if _, err := w.Call(&c); err != nil {
				t.Fatal(err)
			}
			if i == 2*format.BatchCalls-1 { // a chunk of whole batches
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r := openBench(t, path)
		var calls []format.Call
		for c, err := range r.Calls(nil) {
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, *c)
		}
		for _, columns := range []format.Columns{format.FuncColumn | format.DurColumn, format.StartColumn, format.StartColumn | format.ThreadColumn, format.AllColumns, 0} {
			n := 0
			for b, err := range r.Batches(nil, columns) {
				if err != nil {
					t.Fatal(err)
				}
				if b.First != uint64(n) || b.N < 1 || b.N > format.BatchCalls {
					t.Fatalf("%s: %d calls from %d on", name, b.N, b.First)
				}
				for i, c := range calls[n : n+b.N] {
					for column, same := range map[format.Columns]func() bool{
						format.FuncColumn:   func() bool { return b.Func[i] == c.Func },
						format.StartColumn:  func() bool { return b.Start[i] == c.Start },
						format.DurColumn:    func() bool { return b.Dur[i] == c.End-c.Start },
						format.ThreadColumn: func() bool { return b.Thread[i] == c.Thread },
						format.FlagsColumn:  func() bool { return b.Flags[i] == c.Flags },
						format.RetColumn:    func() bool { return b.Ret[i] == c.Ret },
					} {
						if columns&column != 0 && !same() {
							t.Fatalf("%s: column %#x of call %d differs", name, column, n+i)
						}
					}
				}
				for column, length := range map[format.Columns]int{
					format.FuncColumn: len(b.Func), format.StartColumn: len(b.Start), format.DurColumn: len(b.Dur),
					format.ThreadColumn: len(b.Thread), format.FlagsColumn: len(b.Flags), format.RetColumn: len(b.Ret),
				} {
					if columns&column != 0 && length != b.N || columns&column == 0 && length != 0 {
						t.Fatalf("%s: %d rows of column %#x, %d calls", name, length, column, b.N)
					}
				}
				n += b.N
			}
			if n != len(calls) {
				t.Fatalf("%s: %d calls of %d", name, n, len(calls))
			}
		}
	}
}
