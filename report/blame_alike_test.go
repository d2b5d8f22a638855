package report

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
)

// Five runs of a graph that may wait for the same event were five suspects of six lines.
func TestSuspectsAlikeAreOne(t *testing.T) {
	run := func(call uint64, stream, event string) blame.Suspect {
		return blame.Suspect{Call: blame.Call{Index: call, Func: "aclmdlRIExecuteAsync", Stream: stream}, Reasons: []blame.Reason{{Kind: blame.Waiting, Wait: &blame.Wait{Object: event}}}}
	}
	rep := &blame.Report{Trace: "run.aclt", Suspects: []blame.Suspect{run(58, "stream#2", "event#8"), run(61, "stream#2", "event#8"), run(64, "stream#2", "event#8"), run(67, "stream#2", "event#9"),
		run(70, "stream#3", "event#9")}}
	var b strings.Builder
	if err := BlameText(&b, rep, &TextOptions{Width: 1000}); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Count(s, "because its stream waits") != 3 || !strings.Contains(s, "the same is true of 2 later calls, 61, 64\n") || strings.Count(s, "the same is true") != 1 {
		t.Error(s)
	}
}
