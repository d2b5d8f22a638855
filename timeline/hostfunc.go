package timeline

import (
	"slices"

	"github.com/acltrace/acltrace/api"
)

// A HostFunction is a function of the program's that a stream calls, with what it is given. Runs of one that several streams were to call
// come in the order in which that was asked: nothing else tells them apart.
type HostFunction struct {
	Process  uint32
	Fn, Data uint64
}

// HostFunctionOf returns the function that a call has a stream call, or whose run the call is (api.Func.Called); false for any other call.
func HostFunctionOf(process uint32, f *api.Func, args []uint64) (HostFunction, bool) {
	if f == nil || f.Task != api.HostFunc && !f.HostCallback || len(args) != int(f.Words) {
		return HostFunction{}, false
	}
	fn := slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Role == api.Callback })
	data := slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Role == api.Opaque })
	if fn < 0 || data < 0 {
		return HostFunction{}, false
	}
	return HostFunction{process, args[f.Params[fn].Word], args[f.Params[data].Word]}, true
}
