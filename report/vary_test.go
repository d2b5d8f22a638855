package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/replay/whatif"
	"github.com/acltrace/acltrace/report"
)

// wide keeps each line whole.
var wide = &report.TextOptions{Width: 1000}

// written returns what a function writes.
func written(write func(io.Writer) error) string {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

// graphKinds and statsKinds are all kinds of findings.
var (
	graphKinds = []any{graphs.KeptArguments, graphs.MisfitUpdate, graphs.EarlyUpdate, graphs.LateUpdate, graphs.UnorderedInput, graphs.MissingRecord, graphs.ExtraRecord, graphs.FreedMemory,
		graphs.RefusedCall, graphs.UnjoinedStream, graphs.CapturedStreams}
	statsKinds = []stats.FindingKind{stats.Killed, stats.FailedCalls, stats.Outlived, stats.UnusedGraphs, stats.Unfinished, stats.NoEnd, stats.LostCalls, stats.Relaunched, stats.Grows, stats.PilesUp, stats.SlowSteps, stats.OddSteps,
		stats.EagerSteps, stats.Waits, stats.Launches, stats.Copies, stats.OtherCalls, stats.Blocked, stats.OwnTime, stats.SyncReads, stats.PageableCopies, stats.Synchronizes, stats.EmptiesCache,
		stats.Allocates, stats.Recaptures, stats.FrequentOperator, stats.IdleDevice, stats.ShortTasks, stats.HiddenWaits, stats.Stalls, stats.Recorder, stats.OddRank, stats.LateRank}
)

// The page about a failure has each fact, reason and hint.
func TestBlameOfEachFact(t *testing.T) {
	adapt := func(rep *blame.Report) {
		for i := range rep.Suspects {
			for k := range rep.Suspects[i].Reasons {
				rep.Suspects[i].Reasons[k].Argument = k
			}
		}
	}
	text := func(rep *blame.Report) string {
		return written(func(w io.Writer) error { return report.BlameText(w, rep, wide) })
	}
	testenv.Golden(t, "blame.txtar", "text", testenv.Vary(adapt, text, graphKinds...))
	// The first clue decides about the next command.
	var next strings.Builder
	rep := testenv.Filled[blame.Report](graphKinds...)
	adapt(rep)
	failure := rep.Failure
	for _, c := range []struct {
		name string
		drop func()
	}{{"nothing", func() {}}, {"odd launches", func() { rep.Odds = nil }}, {"cut calls", func() { rep.Cut = nil }}, {"races", func() { rep.Races = nil }}, {"bare reads", func() { rep.BareReads = nil }},
		{"faults", func() { rep.Faults = nil }}, {"unwaited copies", func() { rep.Unwaited = nil }}, {"earlier failures", func() { rep.Earlier = nil }}, {"suspects", func() { rep.Suspects, rep.More = nil, 0 }},
		{"killed processes", func() { rep.Died = nil }}} {
		c.drop()
		for _, rep.Failure = range []*blame.Call{failure, nil} {
			at := *rep
			if rep.Failure == nil {
				at.Capture = nil
			}
			all := text(&at)
			fmt.Fprintf(&next, "without %s, failed %v: %s", c.name, rep.Failure != nil, all[strings.LastIndex(all, "next:"):])
			if i := strings.Index(all, "no suspect: "); i >= 0 {
				next.WriteString(all[i:])
			}
		}
	}
	testenv.Golden(t, "blame.txtar", "next", next.String())
	testenv.Golden(t, "blame.txtar", "where", testenv.Vary(nil, func(x *blame.Whereabouts) string {
		return written(func(w io.Writer) error { return report.WhereText(w, "run.aclt", x, wide) })
	}))
	testenv.Golden(t, "blame.txtar", "where unknown", testenv.Vary(func(x *blame.Whereabouts) { x.Places = nil }, func(x *blame.Whereabouts) string {
		return written(func(w io.Writer) error { return report.WhereText(w, "run.aclt", x, wide) })
	}))
	testenv.Golden(t, "blame.txtar", "map", testenv.Vary(nil, func(x *blame.Map) string {
		return written(func(w io.Writer) error { return report.MapText(w, "run.aclt", x, wide) })
	}))
}

// A finding in statistics is a sentence and the command that shows it.
func TestEachFinding(t *testing.T) {
	type finding struct {
		Finding stats.Finding
		Steps   stats.Steps
		stats.Answer
		Peak *stats.Peak
		stats.Missing
	}
	sentence := func(s *stats.Stats, f stats.Finding, kind stats.FindingKind) (text string) {
		defer func() {
			if recover() != nil {
				text = string(kind) + " is not possible\n"
			}
		}()
		f.Kind = kind
		s.Findings = []stats.Finding{f}
		x := report.Sentences("run.aclt", s)[0]
		return fmt.Sprintf("%s: %s\n%s %s\n", kind, x.Text, kind, x.Command)
	}
	testenv.Golden(t, "finding.txtar", "kinds", testenv.Vary(func(x *finding) {
		x.Finding.Graph = nil
		if l := x.Steps.Longest; l != nil && l.More != nil { // it copies far more
			m := l.More
			m.Calls, m.Bytes, m.NS, m.UsualCalls, m.UsualBytes = 16, 32<<20, 1_200_000_000, m.UsualCalls%10, m.UsualBytes/100
		}
	}, func(x *finding) (all string) {
		s := &stats.Stats{Calls: 1000, SpanNS: 1e9, Steps: x.Steps, Answer: x.Answer, Peak: x.Peak, Missing: x.Missing}
		for _, kind := range statsKinds {
			all += sentence(s, x.Finding, kind)
		}
		return all
	}))
	var bound strings.Builder
	for _, by := range []string{stats.ByDevice, stats.ByLoader, stats.ByQueue, stats.ByHost, stats.ByWaits} {
		x := testenv.Filled[finding]()
		x.Finding.Graph, x.Bound.By = nil, by
		s := &stats.Stats{Calls: 1000, SpanNS: 1e9, Steps: x.Steps, Answer: x.Answer}
		fmt.Fprintf(&bound, "%s: %s", by, written(func(w io.Writer) error { return report.StatsText(w, "run.aclt", s, wide) }))
		for _, kind := range []stats.FindingKind{stats.Waits, stats.OwnTime, stats.Blocked} {
			bound.WriteString(sentence(s, x.Finding, kind))
		}
	}
	testenv.Golden(t, "finding.txtar", "bounds", bound.String())
	testenv.Golden(t, "finding.txtar", "graphs", testenv.Vary(nil, func(x *graphs.Finding) (all string) {
		for _, kind := range graphKinds {
			x.Kind = kind.(graphs.Kind)
			all += sentence(&stats.Stats{}, stats.Finding{Graph: x, Count: x.Count}, stats.FindingKind(x.Kind))
		}
		return all
	}))
}

// Statistics, a comparison and critical paths have each fact.
func TestStatsOfEachFact(t *testing.T) {
	testenv.Golden(t, "facts.txtar", "stats", testenv.Vary(func(s *stats.Stats) { s.Findings = s.Findings[:0] }, func(s *stats.Stats) string {
		return written(func(w io.Writer) error { return report.StatsText(w, "run.aclt", s, wide) })
	}))
	testenv.Golden(t, "facts.txtar", "diff", testenv.Vary(nil, func(d *diff.Diff) string {
		return written(func(w io.Writer) error { return report.DiffText(w, d, true, wide) })
	}))
	var verdicts strings.Builder
	for _, all := range []string{diff.Different, diff.Unclear, diff.Equal} {
		for _, change := range []string{diff.Slower, diff.Faster, diff.More, diff.Fewer, diff.Few, diff.Same} {
			for _, kind := range []string{"step", "kernel", "function", "graph"} {
				d := testenv.Filled[diff.Diff]()
				d.Verdict, d.Selection = all, ""
				for i := range d.Changes {
					d.Changes[i].Verdict, d.Changes[i].Kind, d.Changes[i].Often = change, kind, i == 0
				}
				text := written(func(w io.Writer) error { return report.DiffText(w, d, false, wide) })
				line, _, _ := strings.Cut(text, "\n")
				fmt.Fprintf(&verdicts, "%s, %s of %s: %s\n", all, change, kind, line)
			}
		}
	}
	testenv.Golden(t, "facts.txtar", "verdicts of a comparison", verdicts.String())
	testenv.Golden(t, "facts.txtar", "paths", testenv.Vary(nil, func(s *path.Summary) string {
		return written(func(w io.Writer) error { return report.PathsText(w, "run.aclt", s, nil, wide) })
	}))
	testenv.Golden(t, "facts.txtar", "path", testenv.Vary(nil, func(s *path.Summary) string {
		return written(func(w io.Writer) error { return report.PathsText(w, "run.aclt", s, s.Longest, wide) })
	}))
}

// The report of a replay and a prediction have each fact.
func TestReplayOfEachFact(t *testing.T) {
	verdicts := []any{verify.Identical, verify.Different, verify.Unproved, verify.NotCompared}
	testenv.Golden(t, "facts.txtar", "replay", testenv.Vary(nil, func(rep *replay.Report) string {
		return written(func(w io.Writer) error {
			err := report.ReplayText(w, "run.aclt", rep, wide)
			report.ReplayNext(w, "run.aclt", rep)
			return err
		})
	}, verdicts...))
	testenv.Golden(t, "facts.txtar", "what-if", testenv.Vary(nil, func(rep *whatif.Report) string {
		return written(func(w io.Writer) error { return report.WhatIfText(w, "run.aclt", rep, wide) })
	}))
	testenv.Golden(t, "facts.txtar", "info", testenv.Vary(nil, func(in *report.Info) string {
		return written(func(w io.Writer) error { return in.Text(w, wide) })
	}))
}

// Processes without the shim are named with the reason and the remedy, the first three of them.
func TestWithoutShim(t *testing.T) {
	var us []format.Unhooked
	for i, cause := range []format.UnhookedCause{format.LinkedIn, format.NoLoader, format.NoUprobe, format.Outlived, format.CrashGuard, ""} {
		u := format.Unhooked{PID: i, Exe: "p", Reason: "why", Cause: cause}
		us = append(us, u)
	}
	var got []string
	for i := range us {
		got = append(got, report.WithoutShim(us[i:i+1]))
	}
	want := []string{"why: use --probe ebpf --library p", "process 1 (p) ran without the shim: why; record it with --probe ebpf", "process 2 (p) ran without the shim: why: --probe shim records them",
		"process 3 (p) ran without the shim: why; use acltrace attach", "process 4 (p) ran without the shim: why, or use acltrace collect --no-guard", "process 5 (p) ran without the shim: why"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got, want := report.WithoutShim(us), strings.Join(want[:3], "; ")+"; 3 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// BlameJSON has the texts that a report lacks.
func TestBlameJSON(t *testing.T) {
	rep := testenv.Filled[blame.Report](graphKinds...)
	for i := range rep.Suspects {
		for k := range rep.Suspects[i].Reasons {
			rep.Suspects[i].Reasons[k].Argument = k
		}
	}
	b, err := json.Marshal(report.BlameJSON(rep))
	if err != nil {
		t.Fatal(err)
	}
	var texts struct {
		Hints, Unknown []string
		Cause          string
		Faults         []struct{ Reason string } `json:"graph_faults"`
		Odd            []struct{ Reason string }
		Suspects       []struct {
			Reasons   []string
			Arguments []struct{ Where, Note string }
		}
	}
	if err := json.Unmarshal(b, &texts); err != nil {
		t.Fatal(err)
	}
	if b, err = json.MarshalIndent(texts, "", " "); err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "blame.txtar", "json", string(b)+"\n")
}
