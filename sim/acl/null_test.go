package acl

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

// A function that succeeds refuses a null pointer for each of its results, and says so. Those that the documentation calls optional may be null.
// No null pointer ends the program.
func TestNullPointers(t *testing.T) {
	optional := map[string]bool{
		"aclFinalizeReference refCount": true, "aclrtDeviceGetStreamPriorityRange leastPriority": true, "aclrtDeviceGetStreamPriorityRange greatestPriority": true,
		"aclrtGetPrimaryCtxState flags": true, "aclrtGetPrimaryCtxState active": true, "aclrtFunctionGetParamInfo paramOffset": true,
		"aclrtFunctionGetParamInfo paramSize": true, "rtGetC2cCtrlAddr len": true,
	}
	refused := 0
	for i := range acl.Model.Funcs {
		f := &acl.Model.Funcs[i]
		if !f.Simulated {
			continue
		}
		for value := range uint64(2) {
			if e, _ := withNull(t, f, -1, value); e != 0 {
				continue // the function needs other arguments
			}
			for k := range f.Params {
				p := &f.Params[k]
				if !strings.HasSuffix(p.Type, "*") {
					continue
				}
				e, text := withNull(t, f, k, value)
				switch p.Role {
				case api.New, api.Find, api.Out, api.Answer, api.Text:
					if said := e != 0 && strings.Contains(text, "is null"); said == optional[f.Name+" "+p.Name] {
						t.Errorf("%s without %s returns %d: %q", f.Name, p.Name, e, text)
					} else if said {
						refused++
					}
				}
			}
		}
	}
	if refused < 150 {
		t.Errorf("only %d null pointers were tried", refused)
	}
}

// withNull calls a function with objects and empty memory for its parameters, value for its numbers, and null for one parameter. -1 is none.
func withNull(t *testing.T, f *api.Func, null int, value uint64) (acl.Error, string) {
	e := newEnv(t, Options{Kernels: testKernels()})
	defer e.sim.Close()
	bin := e.load(testBinary(11, "fill"))
	words := make([]uint64, f.Words)
	for k := range f.Params {
		p := &f.Params[k]
		known := p.Role == api.Use || p.Role == api.End
		switch {
		case k == null:
		case known && p.Object == api.Stream:
			words[p.Word] = uint64(e.stream())
		case known && p.Object == api.Event:
			words[p.Word] = uint64(e.event())
		case known && p.Object == api.Binary:
			words[p.Word] = uint64(bin)
		case known && p.Object == api.Function:
			words[p.Word] = uint64(e.function(bin, "fill"))
		case strings.HasSuffix(p.Type, "*"):
			words[p.Word] = e.pageable(4096)
		default:
			words[p.Word] = value
		}
	}
	r, _ := e.th.Call(f.ID, words)
	text := ""
	if a := e.th.GetRecentErrMsg(); a != 0 {
		text = space.GoString((*byte)(space.Pointer(a)))
	}
	return acl.Error(int32(r)), text
}
