package rows

import (
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/probe"
)

// BenchmarkBuilder measures the path from a ring's record to the rows in the file, for one launch.
func BenchmarkBuilder(b *testing.B) {
	w, err := format.Create(filepath.Join(b.TempDir(), "x.aclt"), &format.Meta{API: "acl"}, schema.Of(acl.Model), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	bl := New(&Options{Model: acl.Model, Meta: &format.Meta{}}, w)
	f := acl.Model.Lookup("aclrtLaunchKernelWithHostArgs")
	args := make([]byte, 64)
	c := probe.Call{PID: 1, TID: 1, Func: f.ID, Words: make([]uint64, f.Words), Pieces: []probe.Piece{{Param: 4, Len: 64, Bytes: args}}}
	if err := bl.Process(&probe.Process{PID: 1}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Seq, c.Start, c.End = uint64(i), int64(i*100), int64(i*100+50)
		c.Words[0] = uint64(0x1000 + i%8*16)
		args[0] = byte(i)
		if err := bl.Call(&c); err != nil {
			b.Fatal(err)
		}
	}
}
