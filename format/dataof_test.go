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

// Calls with unwanted data lack only the data, with and without other calls in the chunk.
func TestDataOf(t *testing.T) {
	for name, calls := range map[string]int{"together": 50, "apart": 30_000} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.aclt")
			w, err := Create(path, &Meta{}, &Schema{API: "acl", Functions: []Function{{ID: 1, Name: "a", Words: 1}, {ID: 2, Name: "b", Words: 1}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err1 := w.Process(Process{PID: 1})
			_, err2 := w.Thread(Thread{TID: 1})
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			for i := range calls {
				f := uint16(1 + i*2/calls)
				c := &Call{Func: f, Start: int64(10 * i), End: int64(10*i + 5), Args: []uint64{uint64(i)}, Data: []Data{{Param: 0, Len: 3, Bytes: []byte("abc")}}}
				if _, err := w.Call(c); err != nil {
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
			path := filepath.Join(t.TempDir(), "run.aclt")
			w, err := Create(path, &Meta{}, &Schema{API: "acl", Functions: []Function{{ID: 1, Name: "a", Words: 1}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err1 := w.Process(Process{PID: 1})
			_, err2 := w.Thread(Thread{TID: 1})
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			want := func(call, row int) uint64 { return uint64(call*rows+row) * 0x9e3779b97f4a7c15 }
			const calls = 100 // a full chunk would put data into the next one
			for i := range calls {
				c := &Call{Func: 1, Start: int64(10 * i), End: int64(10*i + 5), Args: []uint64{0}}
				for k := range rows {
					c.Data = append(c.Data, Data{Len: 8, Item: uint32(k), Bytes: binary.LittleEndian.AppendUint64(nil, want(i, k))})
				}
				if _, err := w.Call(c); err != nil {
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
	path := filepath.Join(t.TempDir(), "run.aclt")
	w, err := Create(path, &Meta{}, &Schema{API: "acl", Functions: []Function{{ID: 1, Name: "a", Words: 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := w.Process(Process{PID: 1})
	_, err2 := w.Thread(Thread{TID: 1})
	c := &Call{Func: 1, End: 5, Args: []uint64{0}}
	for k := range rows {
		b := make([]byte, size)
		for i := 0; i < size; i += 8 {
			binary.LittleEndian.PutUint64(b[i:], uint64(k*size+i)*0x9e3779b97f4a7c15)
		}
		c.Data = append(c.Data, Data{Len: size, Item: uint32(k), Bytes: b})
	}
	_, err3 := w.Call(c)
	if err := errors.Join(err1, err2, err3, w.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
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
