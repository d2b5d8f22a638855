package rows

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// rules hold facts about one function. They are derived from the model once, not for each call.
type rules struct {
	fn          *api.Func
	kernel      bool // argument blocks are grouped by the first word, the kernel
	namesDevice bool // the function returns the device name
	needsData   bool // the call's meaning depends on its data
	gives       bool // the function allocates or frees memory
	facts       []deviceFact
	selects     int   // parameter with the device that the thread uses from now on, -1 for none
	visible     []int // parameters that make memory accessible to both the program and the device
	apart       []int // parameters whose payloads may arrive after the call
}

// newRules returns the rules by function id.
func newRules(m *api.Model) []rules {
	all := make([]rules, m.Funcs[len(m.Funcs)-1].ID+1)
	for i := range m.Funcs {
		f := &m.Funcs[i]
		r := rules{fn: f, kernel: f.Task == api.Kernel, namesDevice: f.Name == m.DeviceName, needsData: f.NeedsData(), facts: deviceFacts(m, f), selects: selectsDevice(f),
			gives: slices.ContainsFunc(f.Params, func(p api.Param) bool { return allocation(&p) })}
		for n := range f.Params {
			p := &f.Params[n]
			if p.Role == api.New && p.HostVisible || p.Role == api.Map && p.Object == api.Registered {
				r.visible = append(r.visible, n)
			}
			if mayBeApart(f, p) {
				r.apart = append(r.apart, n)
			}
		}
		all[f.ID] = r
	}
	return all
}

// mayBeApart reports whether the parameter's payload may arrive after the call.
func mayBeApart(f *api.Func, p *api.Param) bool {
	switch p.Role {
	case api.Struct:
		return f.Task != api.Kernel
	case api.Reads, api.Writes, api.File, api.Image:
		return true
	case api.In, api.Uses:
		return p.Size.Stored || len(p.Size.Mul) > 0 || p.Size.Unit > format.InlineLimit // smaller ones are in the call
	}
	return false
}

// visibleBytes returns how many bytes a call makes accessible to both the program and the device.
func (r *rules) visibleBytes(words []uint64) (bytes uint64) {
	for _, i := range r.visible {
		n, _ := r.fn.Params[i].Size.Bytes(r.fn, words)
		bytes += n
	}
	return bytes
}

// group returns a key that one kernel's argument blocks share.
func (r *rules) group(words []uint64) uint64 {
	if r.kernel {
		return words[0]
	}
	return 0
}
