package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/verify"
)

// The next command after a strict replay without findings did not look for unwritten memory, which the strict simulator does not check.
func TestStrictWithoutFindingsLeadsToPoison(t *testing.T) {
	rep := &replay.Report{Findings: []replay.Finding{}}
	rep.Calls, rep.Verdict = 3, verify.NotCompared
	var w bytes.Buffer
	ReplayNext(&w, "t.aclt", rep)
	if !strings.Contains(w.String(), "acltrace replay --verify --poison t.aclt\n") {
		t.Error(w.String())
	}
}

// The next command shows the call that crashed, that wrote the first difference, or whose result is unproved. Else it asks for a stronger proof.
func TestNextAfterReplay(t *testing.T) {
	for want, change := range map[string]func(*replay.Report){
		"": func(r *replay.Report) {
			r.Verdict, r.Calls = verify.Identical, 3
			r.Unsupported = make([]compile.Unsupported, 1)
		},
		"acltrace fsck t.aclt": func(r *replay.Report) { r.Calls = 0 },
		"acltrace cat t.aclt --call 7": func(r *replay.Report) {
			r.Verdict = verify.Unproved
			r.Unverified = make([]compile.Unverified, 2)
			r.Unverified[0].Call = 7
		},
		"acltrace cat t.aclt --call 8": func(r *replay.Report) {
			r.Verdict = verify.Different
			r.Differences = make([]replay.Difference, 2)
			r.Differences[0].Call = 8
		},
		"acltrace replay --verify t.aclt":              func(r *replay.Report) { r.Verdict = verify.NotCompared },
		"acltrace replay --verify --place move t.aclt": func(r *replay.Report) { r.Verdict, r.Placement = verify.Identical, "same" },
		"acltrace stats t.aclt":                        func(r *replay.Report) { r.Verdict = verify.Identical },
	} {
		rep := &replay.Report{}
		rep.Calls = 3
		change(rep)
		var w bytes.Buffer
		ReplayNext(&w, "t.aclt", rep)
		if want != "" && !strings.HasSuffix(w.String(), "next: "+want+"\n") || want == "" && w.Len() > 0 {
			t.Errorf("%q, want %q", &w, want)
		}
	}
}

// Graphs that hold streams name up to four streams that joined them.
func TestHoldersOfStreams(t *testing.T) {
	f := &graphs.Finding{Holders: []graphs.Holder{{Graphs: 1, First: "graph#1", Streams: 3, Joined: []string{"a", "b", "c", "d"}}, {Graphs: 2, First: "graph#2", Last: "graph#9", Streams: 6, Joined: []string{"a", "b", "c", "d", "e", "f"}}, {Graphs: 1, First: "graph#3", Streams: 1}}}
	if got, want := streamsText(f, "call 5"), "; graph#1: 3, joined by a, b, c, d; 2 graphs from graph#2 to graph#9: 6, joined by a, b, c, d and 2 more; graph#3: 1"; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}
