package record_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
)

// With shapes, operators hear that the runtime wants a description of each task. It gets those that it wants itself, and the trace has all, with the runtime's own
// answers.
func TestDescriptionsOfEagerTasks(t *testing.T) {
	program := testenv.CompileC(t, "describes", []string{source("describes.c")}, "-lpthread")
	const rest = "thread: 1 1\nrefused: 1, 0\nrefused: 1 1\ncaptured: 0, 1\ncaptured: 0 0\n"
	for _, c := range []struct {
		level   record.Operators
		prints  string
		results []string // of descriptions
	}{
		{record.OperatorShapes, "eager: 0, 1\neager: 0 0\nother attribute: 0, 0\nagain: 0 0\n" + rest, []string{"kept", "kept", "failed", "failed", "taken"}},
		{record.OperatorNames, "eager: 0, 0\neager: 1 1\nother attribute: 0, 0\nagain: 1 1\n" + rest, []string{"failed", "failed", "failed", "failed", "taken"}},
	} {
		r, _, out := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{Operators: c.level}, Replayable: true}}, program)
		if out != c.prints {
			t.Errorf("level %d: the program prints %q, want %q", c.level, out, c.prints)
		}
		var answers, results []string
		for x, err := range r.CallsByStart(nil) {
			if err != nil {
				t.Fatal(err)
			}
			switch r.Schema().FuncName(x.Func) {
			case "aclrtGetStreamAttribute":
				for _, d := range x.Data {
					if d.Dir == format.DirOut && len(d.Bytes) >= 4 {
						answers = append(answers, fmt.Sprint(binary.LittleEndian.Uint32(d.Bytes)))
					}
				}
			case "aclrtCacheLastTaskOpInfo":
				result := "taken"
				if x.Flags&format.Kept != 0 {
					result = "kept"
				} else if x.Ret != 0 {
					result = "failed"
				}
				if len(x.Data) != 1 || len(x.Data[0].Bytes) != 32 {
					result += " without its content"
				}
				results = append(results, result)
			}
		}
		if strings.Join(answers, " ") != "0 0 1" || !slices.Equal(results, c.results) {
			t.Errorf("level %d: the runtime answers %v, descriptions are %v, want %v", c.level, answers, results, c.results)
		}
		if rep, err := replay.Run(t.Context(), r.Path(), acl.Model, &replay.Options{Verify: true}); err != nil || len(rep.Differences) > 0 {
			t.Errorf("level %d: replay: %v %+v", c.level, err, rep)
		}
	}
}
