package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
)

// traceOf returns a trace of n calls of functions 1 and 2, which have one argument word.
func traceOf(t *testing.T, n int, call func(i int) *Call) *Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.aclt")
	w, err := Create(path, &Meta{}, &Schema{API: "acl", Functions: []Function{{ID: 1, Name: "a", Words: 1}, {ID: 2, Name: "b", Words: 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := w.Process(Process{PID: 1})
	_, err2 := w.Thread(Thread{TID: 1})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		c := call(i)
		c.Start, c.End = int64(10*i), int64(10*i+5)
		if _, err := w.Call(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

// Calls with unwanted data lack only the data, with and without other calls in the chunk.
func TestDataOf(t *testing.T) {
	for name, calls := range map[string]int{"together": 50, "apart": 30_000} {
		t.Run(name, func(t *testing.T) {
			r := traceOf(t, calls, func(i int) *Call {
				return &Call{Func: uint16(1 + i*2/calls), Args: []uint64{uint64(i)}, Data: []Data{{Param: 0, Len: 3, Bytes: []byte("abc")}}}
			})
			n := 0
			for c, err := range r.CallsByStart(&Filter{DataOf: []uint16{2}}) {
				if err != nil {
					t.Fatal(err)
				}
				if c.Args[0] != uint64(n) || len(c.Data) != int(c.Func)-1 || c.Func == 2 && string(c.Data[0].Bytes) != "abc" {
					t.Fatalf("call %d is %+v", n, c)
				}
				n++
			}
			if n != calls {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// The rows of a call are complete if they come from one table, even if its ring turns between them or holds fewer rows.
func TestRowsOfOneTable(t *testing.T) {
	for _, rows := range []int{2, 3, 5, 700} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			want := func(call, row int) uint64 { return uint64(call*rows+row) * 0x9e3779b97f4a7c15 }
			const calls = 100 // a full chunk would put data into the next one
			r := traceOf(t, calls, func(i int) *Call {
				c := &Call{Func: 1, Args: []uint64{0}}
				for k := range rows {
					c.Data = append(c.Data, Data{Len: 8, Item: uint32(k), Bytes: binary.LittleEndian.AppendUint64(nil, want(i, k))})
				}
				return c
			})
			n := 0
			for c, err := range r.Calls(nil) {
				if err != nil {
					t.Fatal(err)
				}
				if len(c.Data) != rows {
					t.Fatalf("call %d has %d rows", n, len(c.Data))
				}
				for k, d := range c.Data {
					if len(d.Bytes) != 8 || binary.LittleEndian.Uint64(d.Bytes) != want(n, k) || d.Item != uint32(k) {
						t.Fatalf("call %d, row %d: %+v", n, k, d)
					}
				}
				n++
			}
			if n != calls {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// Regression: each turn of a ring copied all earlier rows of the call again, so 8 MB of content took 2.8 GB.
func TestRowsOfOneCallAreCopiedOnce(t *testing.T) {
	const rows, size = 16_000, 64
	c := &Call{Func: 1, Args: []uint64{0}}
	for k := range rows {
		b := make([]byte, size)
		for i := 0; i < size; i += 8 {
			binary.LittleEndian.PutUint64(b[i:], uint64(k*size+i)*0x9e3779b97f4a7c15)
		}
		c.Data = append(c.Data, Data{Len: size, Item: uint32(k), Bytes: b})
	}
	r := traceOf(t, 1, func(int) *Call { return c })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for got, err := range r.Calls(nil) {
		if err != nil || len(got.Data) != rows {
			t.Fatalf("%d rows, want %d: %v", len(got.Data), rows, err)
		}
		for k := range got.Data {
			if !bytes.Equal(got.Data[k].Bytes, c.Data[k].Bytes) {
				t.Fatalf("row %d has other content", k)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 32*rows*size {
		t.Errorf("%d bytes were allocated for %d bytes of content", n, rows*size)
	}
}
