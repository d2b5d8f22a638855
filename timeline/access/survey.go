package access

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Memory describes the recorded addresses of a trace.
type Memory struct {
	Placed api.Window // all device allocations and reservations; its From is greater than its To if there are none
	Low    uint64     // the lowest of them, without managed memory in a range of its own; NoAddress if there is none
}

// NoAddress means that there is no device memory.
const NoAddress = math.MaxUint64

func widen(w *api.Window, at, size uint64) { w.From, w.To = min(w.From, at), max(w.To, at+size) }

// Placed reports whether the objects of a kind are ranges of device addresses.
func Placed(kind api.Object) bool { return kind == api.Device || kind == api.Reservation }

// addressed reports whether words of payloads may be addresses in objects of a kind.
func addressed(kind api.Object) bool {
	return Placed(kind) || kind == api.Mapped || kind == api.Owned
}

// survey finds the ranges of device memory and pinned memory, and whether calls make objects in api.Model.Numbers. It reads only calls that make
// or map memory.
func (x *Calls) survey() error {
	x.Placed, x.Low = api.Window{From: NoAddress}, NoAddress
	var funcs []uint16
	for i := range x.m.Funcs {
		if f := &x.m.Funcs[i]; !f.Composite && !f.Annotation && slices.ContainsFunc(f.Params, x.gives) {
			funcs = append(funcs, uint16(f.ID))
		}
	}
	if len(funcs) == 0 {
		return nil
	}
	for c, err := range x.r.Calls(&format.Filter{NoData: true, Funcs: funcs}) {
		if err != nil {
			return err
		}
		f := x.m.Func(api.ID(c.Func))
		whole := len(c.Args) == int(f.Words)
		for i := range f.Params {
			if q := &f.Params[i]; q.Object == api.Registered && q.Role == api.Map && whole {
				n, _ := q.Size.Bytes(f, c.Args)
				widen(&x.Words.Pinned, c.Args[q.Word], n)
			}
		}
		for _, o := range c.Outs {
			if int(o.Param) < len(f.Params) {
				x.surveyOut(f, &f.Params[o.Param], c, o.Value, whole)
			}
		}
	}
	return nil
}

// gives reports whether survey reads the functions with a parameter.
func (x *Calls) gives(q api.Param) bool {
	return q.Object == api.Registered && q.Role == api.Map || slices.Contains(x.m.Numbers, q.Object) ||
		q.Role == api.New && q.Object == api.Host || q.Role.Makes() && addressed(q.Object)
}

// surveyOut takes in a stored value; whole is set if the call has all arguments.
func (x *Calls) surveyOut(f *api.Func, q *api.Param, c *format.Call, v uint64, whole bool) {
	x.numbers.used = x.numbers.used || slices.Contains(x.m.Numbers, q.Object)
	if !whole {
		return
	}
	n, _ := q.Size.Bytes(f, c.Args)
	if q.Role == api.New && q.Object == api.Host {
		widen(&x.Words.Pinned, v, n)
	}
	if !q.Role.Makes() || !addressed(q.Object) {
		return
	}
	widen(&x.Words.Device, v, n)
	if Placed(q.Object) {
		widen(&x.Placed, v, n)
		// The simulator keeps managed memory in a separate range.
		if d := x.m.Device; d.To == 0 || v >= d.From && v < d.To {
			x.Low = min(x.Low, v)
		}
	}
}
