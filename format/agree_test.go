package format

import (
	"strings"
	"testing"
)

// Files had calls of unknown threads, with too few words or unknown parameters, and fsck called them sound. Commands that read such a call
// ended in a panic. The reader refuses the calls once, for all commands.
func TestCallsAgreeWithTables(t *testing.T) {
	for _, c := range []struct {
		name string
		call Call
		want string
	}{
		{"sound", Call{Func: 3, Args: []uint64{1}, Outs: []Out{{0, 7}}}, ""},
		{"parameter of the recorder's own", Call{Func: 3, Args: []uint64{1}, Data: []Data{{Param: 251, Bytes: []byte("x"), Len: 1}}}, ""},
		{"thread", Call{Func: 3, Thread: 9, Args: []uint64{1}}, "a call is of a thread that the trace does not describe"},
		{"words", Call{Func: 3, Args: []uint64{}}, "calls of f have 0 argument words, the schema says 1"},
		{"parameter", Call{Func: 3, Args: []uint64{1}, Outs: []Out{{5, 7}}}, "a call of f has an output of parameter 5, the schema has 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := tempFile(t)
			schema := &Schema{API: "acl", Functions: []Function{{ID: 3, Name: "f", Ret: "aclError", Words: 1, Params: []Param{{Name: "p", Type: "void*", Words: 1}}}}}
			w, err := Create(path, &Meta{API: "acl"}, schema, &WriterOptions{Compression: NoCompression})
			if err == nil {
				_, err = w.Process(Process{PID: 1})
			}
			if err == nil {
				_, err = w.Thread(Thread{TID: 1})
			}
			if err == nil {
				w.next++
				w.block.call(&c.call) // after the checks of Writer.Call
				if err = w.rest(&c.call, 0); err == nil {
					err = w.Close()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			n := 0
			for _, err := range r.Calls(nil) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			var said string
			for _, d := range r.Damage() {
				said += d.Error()
			}
			if (n == 1) != (c.want == "") || !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
				t.Errorf("%d calls, damage %q, want %q", n, said, c.want)
			}
		})
	}
}
