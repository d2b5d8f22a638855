package report_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// cat reads the chunks of a range of calls or of a time, and few others. Most others are damaged, which only their readers
// find.
func TestRangeReadsLittle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.aclt")
	w, err := format.Create(path, &format.Meta{API: acl.Model.Name}, schema.Of(acl.Model), nil)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	_, err = w.Process(format.Process{PID: 7})
	check(err)
	_, err = w.Thread(format.Thread{TID: 70})
	check(err)
	f := acl.Model.Lookup("aclrtSynchronizeStream")
	random := rand.NewChaCha8([32]byte{})
	const block, blocks = 1000, 50
	for i := range int64(block * blocks) {
		if i%block == 0 {
			check(w.Flush())
		}
		data := make([]byte, 64) // makes the chunks larger than the rest of the file
		_, _ = random.Read(data)
		_, err := w.Call(&format.Call{Func: uint16(f.ID), Start: 100 * i, End: 100*i + 10, Args: make([]uint64, f.Words), Data: []format.Data{{Len: 64, Bytes: data}}})
		check(err)
	}
	check(w.Close())
	file, err := os.ReadFile(path)
	check(err)
	for _, part := range [][2]int{{6, 16}, {30, 75}} { // percent
		for at := len(file) * part[0] / 100; at < len(file)*part[1]/100; at += 16 {
			file[at] ^= 0xff
		}
	}
	check(os.WriteFile(path, file, 0o600))
	for _, c := range []struct {
		s     timeline.Selection
		lines int
	}{
		{timeline.Selection{Calls: &human.Numbers{First: 10_005, Last: 10_014}}, 10},
		{timeline.Selection{From: 1_000_020, To: 1_000_250}, 2},
		{timeline.Selection{From: 1_000_020, Most: 7}, 7},
		{timeline.Selection{}, 0},
	} {
		r, err := format.Open(path, nil)
		check(err)
		var b bytes.Buffer
		err = report.Lines(&b, r, acl.Model, &report.LineOptions{Selection: c.s})
		if n := strings.Count(b.String(), "\n"); err != nil || c.lines != 0 && (n != c.lines || len(r.Damage()) > 0) || c.lines == 0 && len(r.Damage()) < 3 {
			t.Errorf("%s: %v, %d lines, %d damaged chunks read", &c.s, err, n, len(r.Damage()))
		}
		r.Close()
	}
}

// Sums of a selection say so. They have no times that other calls are part of, unless the selection is a whole period.
func TestStatsOfSelection(t *testing.T) {
	tl := testtrace.Steps(t, 6, 12, func(step, launch int) int64 { return 2_000 + int64(100*step+launch*7%50) })
	sum := func(s timeline.Selection, by string) *stats.Stats {
		t.Helper()
		x, err := stats.New(tl.Reader, acl.Model, &stats.Options{Select: &s, By: by})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	text := func(s *stats.Stats) string {
		var b bytes.Buffer
		if err := report.StatsText(&b, "t.aclt", s, nil); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	all := sum(timeline.Selection{}, "step")
	if s := text(all); strings.Contains(s, "selected") || all.Selection != "" || all.CallsOf != 0 {
		t.Error(s)
	}
	two := sum(timeline.Selection{Steps: &human.Numbers{First: 2, Last: 3}}, "")
	span := all.Groups[3].StartNS + all.Groups[3].SpanNS - all.Groups[2].StartNS
	if s := text(two); !strings.HasPrefix(s, "selected: 30 of 100 calls: --step 2:3\n") || !strings.Contains(s, "t.aclt: 30 calls in ") || two.Steps.Count != 2 || len(two.Steps.Threads) != 1 || len(two.Streams) != 1 ||
		two.Streams[0].Tasks != 28 || two.Streams[0].IdleAtLeastNS <= 0 || two.Streams[0].WaitedNS != 500 || two.SpanNS > span || two.SpanNS < span-300 || two.PeakDeviceBytes != all.PeakDeviceBytes ||
		two.Steps.Threads[0].WaitingNS != all.Steps.Threads[0].WaitingNS {
		t.Errorf("%s%+v", s, two)
	}
	var device int64
	for _, g := range all.Groups[2:4] {
		device += g.DeviceNS
	}
	var of int64
	for _, k := range two.Kernels {
		of += k.DeviceNS
	}
	if of != device {
		t.Errorf("kernels took %d in the steps, want %d", of, device)
	}
	kernels := sum(timeline.Selection{Kernels: []string{"ma*"}, Most: 10}, "step")
	if s := text(kernels); !strings.HasPrefix(s, "selected: 10 of 100 calls: --kernel 'ma*' -n 10\n") || !strings.Contains(s, "t.aclt: 10 calls in ") || len(kernels.Streams)+len(kernels.Idle)+len(kernels.Steps.Threads)+len(kernels.Ranges) > 0 ||
		len(kernels.Kernels) != 1 || kernels.Kernels[0].Count != 10 || kernels.Kernels[0].Measured != 10 {
		t.Errorf("%s%+v", s, kernels)
	}
	if g := kernels.Groups; len(g) != 3 || g[0].Calls != 4 || g[2].Calls != 2 || g[2].StartNS != all.Groups[2].StartNS || g[2].SpanNS != all.Groups[2].SpanNS {
		t.Errorf("%+v", g)
	}
	var b bytes.Buffer
	if err := report.Groups(&b, "step", kernels, nil); err != nil || !strings.HasPrefix(b.String(), "selected: 10 of 100 calls: --kernel 'ma*' -n 10\n") {
		t.Errorf("%v %s", err, &b)
	}
}
