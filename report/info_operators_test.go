package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// info says where the names of operators are from, and in one line why there are none.
func TestInfoNamesTheSourceOfOperators(t *testing.T) {
	for name, c := range map[string]struct {
		level  string
		loaded bool
		calls  []string
		want   string // "" for no line
	}{
		"no operators":    {level: format.OperatorNames},
		"marks":           {format.OperatorNames, true, []string{"InitL2Phase1Context", "InitL0Context", "OpDfxGuardEnd", "NnopbaseGetExecutor"}, "2 phases with names"},
		"descriptions":    {"", true, []string{"aclrtCacheLastTaskOpInfo"}, "no phases: the recorder did not record them; 1 description of captured operators"},
		"not recorded":    {format.NoOperators, true, nil, "no phases: it was recorded with --operators none"},
		"another toolkit": {format.OperatorNames, true, nil, "no phases: no operator called a mark of libnnopbase.so: none ran, or it is of CANN 8.3 or older, or was linked with -Bsymbolic"},
	} {
		t.Run(name, func(t *testing.T) {
			b := testtrace.New(t)
			thread := b.Thread(7)
			for i, f := range c.calls {
				at := int64(100 * (i + 1))
				b.Call(thread, at, at, f, make([]uint64, acl.Model.Lookup(f).Words))
			}
			b.Meta(func(m *format.Meta) {
				if m.Tracer.Operators = c.level; c.loaded {
					m.Libraries = []format.Library{{Path: "/opt/lib64/libopapi_nn.so.1"}}
				}
			})
			r := b.Load().Reader
			in, err := report.NewInfo(r.Path(), r, acl.Model)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := in.Text(&text, nil); err != nil {
				t.Fatal(err)
			}
			got := ""
			for line := range strings.Lines(text.String()) {
				if rest, ok := strings.CutPrefix(line, "operators"); ok {
					got = strings.TrimSpace(rest)
				}
			}
			if got != c.want || (in.Operators == nil) != (c.want == "") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// info says why a framework made no marks. It is silent if there are some, and without such a framework.
func TestInfoNamesMissingMarks(t *testing.T) {
	for name, c := range map[string]struct {
		library, marks, call, want string
	}{
		"the simulator": {"/x/libtorch_npu.so", "simulator", "", ""},
		"no framework":  {"/x/libopapi.so", "", "", ""},
		"no tool":       {"/x/libtorch_npu.so", "", "", "none: libtorch_npu.so makes marks only for a tool; record --framework-marks ranges stands in for one"},
		"operators":     {"/x/libtorch_npu.so", "", "OpDfxGuardEnd", "none: libtorch_npu.so makes marks only for a tool; record --framework-marks ranges stands in for one"},
		"a tool":        {"/x/libtorch_npu.so", "", "mstxMarkA", ""},
		"the flag":      {"/x/libtorch_npu.so", "memory", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := testtrace.New(t)
			if c.call != "" {
				b.Call(b.Thread(7), 100, 100, c.call, make([]uint64, acl.Model.Lookup(c.call).Words))
			}
			b.Meta(func(m *format.Meta) {
				m.Libraries = []format.Library{{Path: c.library}}
				if m.Simulated = c.marks == "simulator"; !m.Simulated {
					m.Tracer.Marks = c.marks
				}
			})
			r := b.Load().Reader
			in, err := report.NewInfo(r.Path(), r, acl.Model)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := in.Text(&text, nil); err != nil {
				t.Fatal(err)
			}
			got := ""
			for line := range strings.Lines(text.String()) {
				if rest, ok := strings.CutPrefix(line, "marks"); ok {
					got = strings.TrimSpace(rest)
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
