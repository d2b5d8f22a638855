package replay

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/timeline"
)

// A difference comes with the calls that wrote the byte: the last copy to the device, and later calls that named the allocation, in
// arguments or in a table that these point to.
func TestDifferencesNameTheirWriters(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.load()
	a, n := pattern(64, 3), uint64(64)
	tw.malloc(dev, n)
	tw.malloc(dev+512, n)
	tw.malloc(dev+1024, n)
	tw.toDevice(dev, a)
	tw.toDevice(dev+512, a) // forgotten after the next
	in := tw.toDevice(dev+512, a)
	tw.toDevice(dev+1024, words(dev, 0, 0, 0, 0, 0, 0, 0))
	kernel := tw.launch(dev+512, dev, n)
	other := tw.launch(dev+1024+8, dev+1024+8, 8) // reaches dev through the table
	tw.sync()
	half := tw.toDevice(dev+512, a[:32])
	first := tw.toHost(dev+512, append(bytes.Clone(a[:32]), plusOne(a)[32:]...))
	second := tw.toHost(dev, a)
	path := tw.close()
	by := func(call uint64, name string) lab.Writer {
		return lab.Writer{Call: call, Name: name, Early: timeline.NoCall}
	}
	for offset, want := range map[string][]lab.Writer{
		"5":  {by(half, "aclrtMemcpy")},
		"40": {by(in, "aclrtMemcpy"), by(kernel, "add_one")},
	} {
		r := run(t, path, &Options{Backend: l, Verify: true, Env: []string{"FAKE_WRONG=" + offset}})
		if r.DifferingTotal != 2 || r.Differences[0].Call != first || !reflect.DeepEqual(r.Differences[0].Chain, want) || r.Differences[0].ChainTotal != len(want) {
			t.Errorf("byte %s: %+v, want %+v", offset, r.Differences, want)
		}
		want := []lab.Writer{by(in-2, "aclrtMemcpy"), by(kernel, "add_one"), by(other, "add_one")}
		if d := r.Differences[1]; d.Call != second || !reflect.DeepEqual(d.Chain, want) {
			t.Errorf("byte %s: %+v, want %+v", offset, d, want)
		}
	}
}

// Unwritten bytes may have any value: they are reported apart from written ones.
func TestUnwrittenBytesAreReportedApart(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	a := pattern(64, 3)
	tw.malloc(dev, 64)
	tw.malloc(dev+512, 64)
	tw.toDevice(dev+16, a[:16])
	tw.toDevice(dev+48, a[:8])
	content := bytes.Repeat([]byte{0x5a}, 64)
	copy(content[16:], a[:16])
	copy(content[48:], a[:8])
	call := tw.toHost(dev, content)
	whole := tw.toHost(dev+512, content)
	path := tw.close()
	r := run(t, path, &Options{Backend: l, Verify: true})
	want := []Uninitialised{{call, "aclrtMemcpy", "dst", 0, 16}, {call, "aclrtMemcpy", "dst", 32, 16}, {call, "aclrtMemcpy", "dst", 56, 8}, {whole, "aclrtMemcpy", "dst", 0, 64}}
	if r.Identical || r.DifferingTotal != 0 || !reflect.DeepEqual(r.Uninitialised, want) || r.Verified.Bytes != 24 {
		t.Errorf("%+v %+v, %d bytes verified", r.Uninitialised, r.Differences, r.Verified.Bytes)
	}
	// Written and wrong bytes are still a difference, at their place in the result.
	r = run(t, path, &Options{Backend: l, Verify: true, Env: []string{"FAKE_WRONG=20"}})
	if len(r.Differences) != 1 || r.Differences[0].Offset != 20 || len(r.Uninitialised) != 4 {
		t.Errorf("%+v %+v", r.Uninitialised, r.Differences)
	}
}
