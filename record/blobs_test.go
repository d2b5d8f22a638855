package record_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record"
)

// pieces counts data, and how much of it has content among the calls.
type pieces struct{ all, short int }

// contents counts the copied contents of a trace and other data.
func contents(t *testing.T, path string) (copies, others pieces) {
	t.Helper()
	r := open(t, path)
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		f := acl.Model.Func(api.ID(c.Func))
		for _, d := range c.Data {
			n := &others
			if d.Param == probe.MemoryParam || int(d.Param) < len(f.Params) && f.Params[d.Param].Role == api.File && d.Item > 0 || f.Task == api.GraphRun || int(d.Param) < len(f.Params) && (f.Params[d.Param].Role == api.Reads || f.Params[d.Param].Role == api.Writes) {
				n = &copies
			}
			if n.all++; len(d.Bytes) > 0 {
				n.short++
			} else if d.Status == format.Missing && d.Reason != format.NoBlobFile {
				t.Errorf("call %d %s: %+v", c.Index, f.Name, d)
			}
		}
	}
	return copies, others
}

// With --blobs, copied contents up to 4 KiB stayed in the trace: only larger ones were in the second file.
func TestTraceBesideBlobsHasNoContents(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "run.aclt")
	into(t, out, record.Options{BlobFile: filepath.Join(dir, "run.blobs"), Sim: true, Capture: record.Capture{Payload: record.Full, Replayable: true}},
		testenv.Built(t, "bin/examples/tiny_decoder"))
	copies, others := contents(t, out)
	if copies.short == 0 || others.short == 0 {
		t.Fatalf("%+v contents of copies, %+v others", copies, others)
	}
	if err := os.Remove(filepath.Join(dir, "run.blobs")); err != nil {
		t.Fatal(err)
	}
	left, same := contents(t, out)
	if left.short != 0 || left.all != copies.all || same != others {
		t.Errorf("without the blob file %+v contents of copies and %+v others, with it %+v and %+v", left, same, copies, others)
	}
}
