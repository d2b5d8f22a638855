package stats_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// The thread with most time in calls was described: one that waits in aclrtProcessReport, for another stream, or in another process. The longest
// step was explained by "call 0, , took 0 ns".
func TestSharesAreOfTheThreadThatMakesTheSteps(t *testing.T) {
	for _, test := range []struct {
		name   string
		helper func(b *testtrace.Builder, thread uint32)
	}{
		{"report", func(b *testtrace.Builder, thread uint32) {
			for at := int64(5_000); at < 45_000_000; at += 10_000_000 {
				b.Call(thread, at, at+9_999_000, "aclrtProcessReport", testtrace.A(100))
			}
		}},
		{"other stream", func(b *testtrace.Builder, thread uint32) {
			b.Call(thread, 4_600, 4_700, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamB))
			for at := int64(5_000); at < 45_000_000; at += 10_000_000 {
				b.Call(thread, at, at+100, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamB))
				b.Call(thread, at+200, at+9_999_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
			}
		}},
	} {
		for _, thread := range []uint32{1, 2} { // of the same process, and of another one
			t.Run(fmt.Sprint(test.name, thread), func(t *testing.T) {
				first := true
				s := training(t, func(b *testtrace.Builder, i int, _ int64) int64 {
					if first {
						test.helper(b, thread)
						first = false
					}
					if i == 13 {
						return 6_000_000
					}
					return 0
				})
				sh, l := s.Shares, s.Steps.Longest
				if sh.Thread != "thread 4001 train" || sh.WaitingNS != 1_000_000 || sh.CopyingNS != 100_000 || s.Steps.Threads[0].Thread != sh.Thread {
					t.Errorf("%+v, %+v", sh, s.Steps.Threads)
				}
				if l == nil || l.Call.Func != "aclrtSynchronizeStream" || l.Call.NS != 1_000_000 || l.WaitingNS != 1_000_000 {
					t.Errorf("%+v", l)
				}
				var text bytes.Buffer
				if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(text.String(), "call 0, ,") || !regexp.MustCompile(`6.01 ms without a call between calls \d+ \(aclrtMemcpy\) and`).MatchString(text.String()) || !strings.Contains(text.String(), ": thread 4001 train\n") {
					t.Error(text.String())
				}
			})
		}
	}
}

// A range on a thread that only marks the steps says nothing about the thread that launches in them.
func TestSharesAreOfTheThreadThatLaunchesInMarkedSteps(t *testing.T) {
	b := testtrace.New(t)
	for i := range int64(5) {
		at := 10_000 + 1200*i
		b.Call(1, at, at+10, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprintf("step %d", i)), handle(uint64(i+1)))
		b.Call(0, at+20, at+120, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
		b.Call(0, at+200, at+500, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		b.Call(1, at+990, at+1000, "mstxRangeEnd", testtrace.A(uint64(i+1)))
	}
	if s := sums(t, b.Load(), ""); s.Steps.Source != "marked" || s.Shares.Thread != "thread 4001 train" || s.Shares.WaitingNS != 300 || s.Steps.Longest.WaitingNS != 300 {
		t.Errorf("%+v, %+v", s.Steps, s.Shares)
	}
}

// Without steps, the thread with most time in calls was described, though another one launches.
func TestSharesWithoutStepsAreOfTheThreadThatLaunches(t *testing.T) {
	b := testtrace.New(t)
	b.Call(1, 1_000, 900_000, "aclrtProcessReport", testtrace.A(100))
	b.Call(0, 2_000, 2_100, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
	b.Call(0, 3_000, 4_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	if s := sums(t, b.Load(), ""); s.Steps.Source != "none" || s.Shares.Thread != "thread 4001 train" || s.Shares.WaitingNS != 1_000 {
		t.Errorf("%+v, %+v", s.Steps, s.Shares)
	}
}

// Ranks that do not meet in collectives were not compared, and findings did not say of which rank they are.
func TestRankThatDeviatesIsAFinding(t *testing.T) {
	ranks := func(own, kernel, copied, wait int64, measured bool) *stats.Stats {
		b := testtrace.New(t)
		b.Meta(func(m *format.Meta) { m.Merged = []format.Merged{{}, {}} })
		b.Process(0, format.Process{PID: 4001, Rank: 4})
		b.Process(1, format.Process{PID: 4002, Rank: 5})
		for rank, thread := range []uint32{0, 2} {
			o, k, c, w := int64(100), int64(500), int64(50), int64(300)
			if rank == 1 {
				o, k, c, w = o+own, k+kernel, c+copied, w+wait
			}
			b.Call(thread, 1_000, 1_500, "aclrtSetDevice", testtrace.A(0))
			b.Call(thread, 2_000, 2_500, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<20, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
			b.Call(thread, 3_000, 3_500, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
			b.Call(thread, 4_000, 4_500, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", "train"), testtrace.Outs("funcHandle", testtrace.Function))
			at := int64(10_000)
			for range 20 {
				var mods []testtrace.Mod
				if measured {
					mods = append(mods, task(at, at+k))
				}
				b.Call(thread, at, at+100, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA), mods...)
				at += 100 + o
				b.Call(thread, at, at+w, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
				at += w
				b.Call(thread, at, at+c, "aclrtMemcpy", testtrace.A(testtrace.HostA, 64, testtrace.DeviceA, 64, 2))
				at += c
			}
		}
		return sums(t, b.Load(), "")
	}
	for _, test := range []struct {
		name                       string
		own, kernel, copied, extra int64
		measured                   bool
		want                       string
	}{
		{"alike", 10, 10, 5, 10, true, ""},
		{"own time", 400, 0, 0, 0, true, "rank 5 spends more on own time than the median rank: "},
		{"kernels", 0, 400, 0, 400, true, "rank 5 spends more on kernels than the median rank: 900 ns a launch, not 500 ns"},
		{"copies", 0, 0, 300, 0, true, "rank 5 spends more on copying than the median rank: 350 ns a launch, not 50 ns"},
		{"kernels without times", 0, 0, 0, 400, false, "rank 5 spends more on waiting than the median rank: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := ranks(test.own, test.kernel, test.copied, test.extra, test.measured)
			var text bytes.Buffer
			if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
				t.Fatal(err)
			}
			n := strings.Count(text.String(), "than the median rank")
			if n != min(len(test.want), 1) || !strings.Contains(text.String(), test.want) || s.Shares.Rank == nil || !strings.Contains(text.String(), fmt.Sprintf("of step time of rank %d", *s.Shares.Rank)) {
				t.Error(text.String())
			}
		})
	}
}

// A process of one recording that takes longer than its like had no finding. A process with another task is not compared.
func TestProcessThatDeviatesIsAFinding(t *testing.T) {
	for name, c := range map[string]struct {
		own      int64
		launches int
		want     string
	}{
		"alike":        {100, 30, ""},
		"late":         {2_000, 30, "process 4002 spends more on own time than the median process"},
		"another task": {2_000, 15, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := testtrace.New(t)
			for process, thread := range []uint32{0, 2} {
				at, own, n := int64(10_000), int64(100), 30
				if process == 1 {
					own, n = c.own, c.launches
				}
				for range n {
					b.Call(thread, at, at+100, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
					at += 100 + own
					b.Call(thread, at, at+300, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
					at += 300
				}
			}
			var text bytes.Buffer
			if err := report.StatsText(&text, "t.aclt", sums(t, b.Load(), ""), nil); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(text.String(), "than the median process"); n != min(len(c.want), 1) || !strings.Contains(text.String(), c.want) {
				t.Error(text.String())
			}
		})
	}
}

// Ranks were compared in the steps of one of them. One that ran later was in none of these and was not compared, and one that had ended early was the slow one.
func TestRanksThatRunAtOtherTimesAreCompared(t *testing.T) {
	const pace, slow = 400, 2_000
	for name, c := range map[string]struct {
		start  int64 // of the second rank
		own    [2]int64
		asleep bool // the slow rank does not run
		want   string
	}{
		"one after the other":         {100_000, [2]int64{pace, slow}, false, "rank 1 spends more on own time than the median rank: 2\\.\\d+ us a launch, not 4\\d\\d ns"},
		"one after the other, alike":  {100_000, [2]int64{pace, pace}, false, ""},
		"the slow one first":          {500_000, [2]int64{slow, pace}, false, "rank 0 spends more on own time than the median rank: 2\\.\\d+ us a launch, not 4\\d\\d ns"},
		"at one time":                 {10_000, [2]int64{pace, slow}, false, "rank 1 spends more on own time than the median rank: 2\\.\\d+ us a launch, not 4\\d\\d ns"},
		"at one time, the other slow": {10_000, [2]int64{slow, pace}, false, "rank 0 spends more on own time than the median rank: 2\\.\\d+ us a launch, not 4\\d\\d ns"},
		"one asleep":                  {10_000, [2]int64{pace, slow}, true, "rank 1 is blocked outside calls for longer than the median rank: 1\\.\\d+ us a launch, not 0 ns"},
	} {
		t.Run(name, func(t *testing.T) {
			b := testtrace.New(t)
			b.Meta(func(m *format.Meta) {
				m.Merged = []format.Merged{{}, {}}
				if c.asleep {
					m.Tracer.GapNS = 500
				}
			})
			b.Process(0, format.Process{PID: 1, Rank: 0})
			b.Process(1, format.Process{PID: 1, Rank: 1})
			for rank, thread := range []uint32{0, 2} {
				at := int64(10_000)
				if rank == 1 {
					at = c.start
				}
				b.Call(thread, at-8_000, at-5_000, "aclInit", testtrace.A(0))
				b.Call(thread, at-4_000, at-3_900, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<20, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
				for range 30 {
					b.Call(thread, at, at+100, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
					at += 100 + c.own[rank]
					var mods []testtrace.Mod
					if c.asleep && c.own[rank] == slow {
						mods = append(mods, blocked(slow-pace))
					}
					b.Call(thread, at, at+100, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), mods...)
					at += 200
				}
			}
			var text bytes.Buffer
			s := sums(t, b.Load(), "")
			if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(text.String(), "than the median rank"); n != min(len(c.want), 1) || !regexp.MustCompile(c.want).MatchString(text.String()) {
				t.Error(text.String())
			}
			// Process ids of two hosts or containers may be alike: the rank tells them apart.
			for _, want := range []string{`steps +\d+ found by waits in process 1 of rank [01]: `, `memory +at most 1 MiB on .* by process 1 of rank 0, `, `memory +at most 1 MiB on .* by process 1 of rank 1, `} {
				if !regexp.MustCompile(want).MatchString(text.String()) {
					t.Errorf("%s: %s", want, text.String())
				}
			}
		})
	}
}

// Idle times of a rank had steps of another one, also a step after the last. Sums by step counted calls of all ranks, and did not say whose steps they are.
func TestOtherRanksHaveNoSteps(t *testing.T) {
	tl := testtrace.Job(t)
	s := sums(t, tl, "")
	if s.Steps.Count != testtrace.JobSteps || s.Steps.Rank == nil || *s.Steps.Rank != 0 || len(s.Idle) < 10 {
		t.Fatalf("%+v, %+v", s.Steps, s.Idle)
	}
	some := false
	for _, d := range s.Idle {
		if d.Rank == nil || *d.Rank == 1 && d.Step != -1 || *d.Rank == 0 && (d.Step < -1 || d.Step >= testtrace.JobSteps) {
			t.Errorf("%+v", d)
		}
		some = some || d.Rank != nil && *d.Rank == 1
	}
	if !some {
		t.Errorf("%+v", s.Idle)
	}
	if slices.ContainsFunc(s.Findings, func(f stats.Finding) bool { return f.Kind == stats.Grows }) {
		t.Errorf("memory of rank 1 grows in steps of rank 0: %+v", s.Findings)
	}
	for _, d := range s.Steps.Threads {
		if d.Process != 4001 {
			t.Errorf("%+v in the mean of steps", d)
		}
	}
	groups := sums(t, tl, "step").Groups
	if len(groups) != testtrace.JobSteps+1 {
		t.Fatalf("%+v", groups)
	}
	for _, g := range groups[:testtrace.JobSteps] {
		if g.Calls != 4 || g.Process != 4001 || g.Rank == nil || *g.Rank != 0 {
			t.Errorf("%+v", g)
		}
	}
}

// The recorder's time was summed up over the ranks, and then more than a hundredth of the time from the first rank's beginning to the last one's end.
func TestRecordingIsOfItsProcess(t *testing.T) {
	s := sums(t, testtrace.Job(t), "")
	const own, other = 20 * testtrace.JobSteps, 50 * (testtrace.JobSteps + 1)
	list := s.Recording.Processes
	if s.Recording.NS != own+other || len(list) != 2 || list[0].NS != own || list[1].NS != other || list[0].Process != 4001 || list[1].Process != 5001 || *list[1].Rank != 1 {
		t.Fatalf("%+v", s.Recording)
	}
	if list[0].SpanNS != 28_900 || list[1].SpanNS != 65_200 || s.Much() {
		t.Errorf("%+v", list)
	}
	var text bytes.Buffer
	want := "recording  550 ns of the time of process 5001 of rank 1, 200 ns of the time of process 4001 of rank 0, 9.1% of the time of 10 recorded copies of 64 KiB each in all processes\n"
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil || !strings.Contains(text.String(), want) {
		t.Errorf("%v, %s", err, &text)
	}
	for _, p := range []struct {
		list []stats.ProcessRecording
		span int64
		want bool
	}{{nil, 10_000, true}, {nil, 10_001, false}, {[]stats.ProcessRecording{{NS: 100, SpanNS: 10_000}, {NS: 1, SpanNS: 99}}, 10_000, true}, {[]stats.ProcessRecording{{NS: 100, SpanNS: 10_000}}, 10_000, false}} {
		s.Recording.NS, s.SpanNS, s.Recording.Processes = 100, p.span-1, p.list
		if s.Much() != p.want {
			t.Errorf("%+v: %t", p, s.Much())
		}
	}
}
