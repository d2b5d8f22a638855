package replay

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/replay/verify"
)

// Results that vary in every run are reported apart from results that are wrong in the same way every time.
func TestVaryingResultsAreReportedApart(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.load()
	tw.malloc(dev, 64)
	in := tw.toDevice(dev, pattern(64, 1))
	kernel := tw.launch(dev, dev, 64)
	tw.sync()
	call := tw.toHost(dev, plusOne(pattern(64, 1)))
	path := tw.close()
	r := run(t, path, &Options{Backend: l, Verify: true, Repeat: 3})
	if !r.Identical || r.Repeat == nil || r.Repeat.Runs != 3 || len(r.Repeat.ReplayedNS) != 3 || len(r.Repeat.NotDeterministic) != 0 {
		t.Errorf("identical %v, %+v", r.Identical, r.Repeat)
	}
	r = run(t, path, &Options{Backend: l, Verify: true, Repeat: 3, Env: []string{"FAKE_WRONG=8"}})
	if r.Identical || len(r.Differences) != 1 || len(r.Repeat.NotDeterministic) != 0 {
		t.Errorf("wrong every time: %+v, %+v", r.Differences, r.Repeat)
	}
	r = run(t, path, &Options{Backend: l, Verify: true, Repeat: 3, Env: []string{"FAKE_RACE=8"}})
	if n := r.Repeat.NotDeterministic; r.Identical || len(n) != 1 || n[0].Call != call || n[0].Param != "dst" || n[0].Offset < 8 || n[0].Offset > 11 ||
		len(n[0].Chain) != 2 || n[0].Chain[0].Call != in || n[0].Chain[1].Call != kernel {
		t.Errorf("a race: %+v", r.Repeat)
	}
}

// A wrapper gets the player and its arguments; calls that the player makes under it count.
func TestWrapperRunsThePlayer(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	path := tw.close()
	script := filepath.Join(t.TempDir(), "wrapper")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$1\" >\"$0.seen\"\nshift\nexport FAKE_FAIL=aclrtSetDevice\nexec \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := run(t, path, &Options{Backend: l, Verify: true, Wrapper: []string{script, "word"}})
	if b, err := os.ReadFile(script + ".seen"); err != nil || string(b) != "word\n" {
		t.Errorf("the wrapper was given %q, %v", b, err)
	}
	if len(r.Differences) != 1 || r.Differences[0].Func != "aclrtSetDevice" {
		t.Errorf("%+v", r.Differences)
	}
	if _, err := Run(context.Background(), path, acl.Model, &Options{Backend: l, Trust: true, Wrapper: []string{filepath.Join(t.TempDir(), "no")}}); err == nil {
		t.Error("no error without the wrapper")
	}
	// A wrapper that ends by itself, like a debugger that its user leaves, is no failure of the library.
	if _, err := Run(context.Background(), path, acl.Model, &Options{Backend: l, Trust: true, Wrapper: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "true ended (exit status 0) before the player") {
		t.Errorf("a wrapper that does nothing: %v", err)
	}
}

// Numbers may differ within the tolerance.
func TestNumbersWithinTheTolerance(t *testing.T) {
	l := library(t)
	f32 := func(v ...float32) (b []byte) {
		for _, f := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		}
		return b
	}
	f16 := func(v ...uint16) (b []byte) {
		for _, h := range v {
			b = binary.LittleEndian.AppendUint16(b, h)
		}
		return b
	}
	f64 := func(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) }
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		tolerance    string
		device, want []byte
		same         bool
	}{
		{"f32:1e-3", f32(1, 1000.5, -5), f32(1, 1000, -5.0001), true},
		{"f32:1e-3", f32(1, 1002, -5), f32(1, 1000, -5), false},
		{"f32:0,0.1", f32(0.05), f32(0), true},
		{"f32:1e-3", f32(0.05), f32(0), false},
		{"f32:1", f32(nan), f32(1), false},
		{"f32:1", f32(1), f32(nan), false},
		{"f32:1", f32(inf), f32(1), false},
		{"f32:1", f32(1), f32(inf), false},
		{"f32:1", f32(inf), f32(-inf), false},
		{"f32:1e-3", append(f32(1), 1), append(f32(1), 2), false}, // not a whole number
		{"f16:0.002", f16(0x3c01, 0x0001), f16(0x3c00, 0x0001), true},
		{"f16:0.0005", f16(0x3c01), f16(0x3c00), false},
		{"f16:0,6e-8", f16(0x0001), f16(0x8000), true}, // the smallest number, and -0
		{"f16:0,5e-8", f16(0x0001), f16(0x8000), false},
		{"bf16:0.01", f16(0x3f81), f16(0x3f80), true},
		{"bf16:0.001", f16(0x3f81), f16(0x3f80), false},
		{"f64:1e-12", f64(1), f64(1 + 1e-13), true},
		{"f64:1e-14", f64(1), f64(1 + 1e-13), false},
	} {
		tw := newTrace(t)
		tw.begin()
		tw.malloc(dev, 64)
		tw.toDevice(dev, c.device)
		tw.toHost(dev, c.want)
		tolerance, err := verify.ParseTolerance(c.tolerance)
		if err != nil {
			t.Fatal(err)
		}
		path := tw.close()
		r := run(t, path, &Options{Backend: l, Verify: true, Tolerance: tolerance})
		if r.Identical != c.same || (r.Verified.Tolerated == 1) != c.same {
			t.Errorf("%s: %x for %x: %v, %+v", c.tolerance, c.device, c.want, r.Identical, r.Differences)
		}
		if r := run(t, path, &Options{Backend: l, Verify: true}); r.Identical {
			t.Errorf("%x for %x is identical", c.device, c.want)
		}
	}
	for _, s := range []string{"", "f32", "f32:", ":1", "f8:1", "f32:-1", "f32:NaN", "f32:1,", "f32:1,Inf", "f32:1,2,3"} {
		if _, err := verify.ParseTolerance(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

// Each part of the work is counted up to its total, the steps once in each run.
func TestRunReportsProgress(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	complete := map[string]int{}
	run(t, tw.close(), &Options{Backend: l, Repeat: 3, Progress: func(parts string, done, total int) {
		if done > total {
			t.Errorf("%d of %d %s", done, total, parts)
		}
		if done == total && total > 0 {
			complete[parts]++
		}
	}})
	if complete["calls compiled"] != 1 || complete["steps played"] < 3 {
		t.Errorf("%v", complete)
	}
}
