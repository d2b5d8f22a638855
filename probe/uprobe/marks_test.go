package uprobe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
)

// Marks are complete at the entry, with each set of features: the operator's name, and the executor that phase one has made. A mark that the library itself
// makes is none.
func TestUprobeMarks(t *testing.T) {
	for name, opts := range map[string]Options{"best": {}, "single": {OneByOne: true}, "no sleep": {noSleep: true}, "oldest": {OneByOne: true, noSleep: true, noCookie: true}, "left out": {NoOperators: true}} {
		t.Run(name, func(t *testing.T) {
			s, _ := watch(t, opts, func(c *target) { c.run(t) }, "marks")
			var got []string
			for i, c := range s.calls {
				f := acl.Model.Func(c.Func)
				line := fmt.Sprintf("%s %#x", f.Name, c.Words)
				if f.EntryMark() && (c.Unfinished() || c.End != c.Start || c.Ret != 0) || !f.EntryMark() && c.Unfinished() || c.Seq != uint64(i) {
					t.Errorf("%s: number %d from %d to %d returns %d", f.Name, c.Seq, c.Start, c.End, c.Ret)
				}
				if f.Names >= 0 && f.EntryMark() {
					line = f.Name
					wantBytes(t, c, f.Params[f.Names].Name, 0, "aclnnAdd")
				}
				got = append(got, line)
			}
			want := []string{"InitL2Phase1Context", "aclrtRecordEvent [0xee 0x57]", "OpDfxGuardEnd [0xe1]", "CommonOpExecutorRun [0x0 0x10 0xe1 0x57]"}
			if opts.NoOperators {
				want = want[1:2]
			}
			if !slices.Equal(got, want) {
				t.Errorf("recorded %q, want %q", got, want)
			}
		})
	}
}
