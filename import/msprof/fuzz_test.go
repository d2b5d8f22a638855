package msprof

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
)

// Every file is refused or becomes rows that a trace can hold.
func fuzz(f *testing.F, path string, read func(*importer, io.Reader) error) {
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add(b[len(b)/2:])
	f.Fuzz(func(t *testing.T, b []byte) {
		im := newImporter(acl.Model)
		if read(im, bytes.NewReader(b)) != nil {
			return
		}
		for _, r := range im.rows {
			if r.start < 0 || r.dur < 0 || r.start+r.dur < 0 || int(r.name) >= len(im.names) || int(r.lane) > len(im.lanes) || r.direction > deviceToDevice {
				t.Errorf("%+v", r)
			}
		}
		if r := &im.rep; r.Calls+r.Tasks+r.Steps+r.Operators+r.Marks != len(im.rows) || r.Kernels+r.Copies > r.Tasks {
			t.Errorf("%+v of %d rows", *r, len(im.rows))
		}
	})
}

func FuzzTrace(f *testing.F) {
	fuzz(f, "testdata/trace_view.json", func(im *importer, r io.Reader) error { return im.trace("", r) })
}

func FuzzKernels(f *testing.F) {
	fuzz(f, "testdata/kernel_details.csv", func(im *importer, r io.Reader) error { return im.kernels("", r, false) })
}
