package record_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/timeline"
)

// With the level all, the calls that make and end arguments of operators are recorded with their contents, and a replay leaves them out. Other levels have
// none of them.
func TestOperandsAreRecorded(t *testing.T) {
	nn, math := testenv.Built(t, "lib/libnnopbase.so"), testenv.Built(t, "lib/libopapi_math.so")
	linked := testenv.CompileC(t, "operands", []string{source("operands.c")}, "-Wl,--no-as-needed", math, nn, "-Wl,-rpath,"+filepath.Dir(nn))
	loaded := testenv.CompileC(t, "operands-loaded", []string{source("operands.c")}, "-ldl")
	tensor := "aclCreateTensor viewDims={2, 3} stride={3, 1} storageDims={2, 3}"
	want := []string{tensor, tensor, tensor, "aclCreateScalar value={2.5}", "aclCreateIntArray value={2, 3}", "aclGetIntArraySize", "aclGetDataType", "aclGetDataType fails",
		"aclDestroyTensor", "aclDestroyTensor", "aclDestroyTensor", "aclDestroyScalar", "aclDestroyIntArray"}
	for _, c := range []struct {
		level   record.Operators
		command []string
		want    []string
	}{
		{record.OperatorsAll, []string{linked}, want},
		{record.OperatorsAll, []string{loaded, math}, want},
		{record.OperatorNames, []string{linked}, nil},
		{record.OperatorShapes, []string{loaded, math}, nil},
		{record.NoOperators, []string{linked}, nil},
	} {
		r, res, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{Operators: c.level}, Replayable: true}}, c.command...)
		if res.ExitCode != 0 || res.Lost != 0 {
			t.Errorf("level %d: %+v", c.level, res)
		}
		var got []string
		s := timeline.NewState(acl.Model).Read(r)
		for x, err := range r.CallsByStart(nil) {
			if err != nil {
				t.Fatal(err)
			}
			e := s.Apply(r.ProcessOf(x.Thread), x)
			if e.Fn == nil || e.Fn.Operand == api.NoOperand {
				continue
			}
			text := e.Fn.Name
			for _, a := range e.Args(nil, acl.Model) {
				if a.Text()[0] == '{' {
					text += fmt.Sprintf(" %s=%s", e.Fn.Params[a.Param].Name, a.Text())
				}
			}
			if e.Fn.RetError && x.Ret != 0 {
				text += " fails"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("level %d, %s: recorded %q, want %q", c.level, c.command, got, c.want)
		}
		if rep, err := replay.Run(t.Context(), r.Path(), acl.Model, &replay.Options{Verify: true}); err != nil || len(rep.Differences) > 0 {
			t.Errorf("level %d: replay: %v %+v", c.level, err, rep)
		}
	}
}
