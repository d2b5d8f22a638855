package report_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/analyze/stats"
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
	statsKinds = []stats.FindingKind{stats.Killed, stats.FailedCalls, stats.Unfinished, stats.NoEnd, stats.LostCalls, stats.Relaunched, stats.Grows, stats.PilesUp, stats.SlowSteps, stats.OddSteps,
		stats.EagerSteps, stats.Waits, stats.Launches, stats.Copies, stats.OtherCalls, stats.Blocked, stats.OwnTime, stats.SyncReads, stats.PageableCopies, stats.Synchronizes, stats.EmptiesCache,
		stats.Allocates, stats.Recaptures, stats.IdleDevice, stats.ShortTasks, stats.HiddenWaits, stats.Stalls, stats.Recorder, stats.OddRank, stats.LateRank}
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
	testenv.Golden(t, "finding.txtar", "kinds", testenv.Vary(func(x *finding) { x.Finding.Graph = nil }, func(x *finding) (all string) {
		s := &stats.Stats{Calls: 1000, SpanNS: 1e9, Steps: x.Steps, Answer: x.Answer, Peak: x.Peak, Missing: x.Missing}
		for _, kind := range statsKinds {
			all += sentence(s, x.Finding, kind)
		}
		return all
	}))
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
