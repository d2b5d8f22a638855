package compile

import (
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/access"
)

// facts are properties that all calls to a function need, collected once.
type facts struct {
	makes      bool  // it stores handles or addresses that later calls need
	places     bool  // it allocates device memory or addresses
	exceptions bool  // it sets the exception handler, or reads an exception
	contexts   bool  // it makes, finds, ends or selects a device or a context
	retBits    uint8 // compared bits in the returned value, unless the function makes an object and returned none
	others     []int // parameters whose words are not passed as recorded
	repeats    bool  // its launches may repeat each other: see repeat.go
	blocks     []int // of such a function: parameters that are argument blocks
	absent     []int // of such a function: parameters that must be 0
	polled     int   // poll parameter that stores whether the object is complete, -1 if there is none
	complete   int64 // value that a poll stores for a complete object
}

// factsOf returns a function's facts, nil for a function outside the model.
func (p *compiler) factsOf(f *api.Func) *facts {
	if f == nil {
		return nil
	}
	known := p.known.facts[f.ID]
	if known == nil {
		known = newFacts(p.Model, f)
		p.known.facts[f.ID] = known
	}
	return known
}

func newFacts(m *api.Model, f *api.Func) *facts {
	known := &facts{makes: Makes(f), contexts: f.Selects >= 0 || f.Stack != api.Replace, retBits: comparedBits(f), polled: -1}
	for i := range f.Params {
		q := &f.Params[i]
		known.places = known.places || q.Role == api.New && access.Placed(q.Object)
		known.exceptions = known.exceptions || q.Object == api.Exception
		known.contexts = known.contexts || q.Object == api.Context
		if q.Role != api.Value || q.OmitOnReplay || q.Object == api.Thread || f.Shares == api.Import {
			known.others = append(known.others, i)
		}
	}
	if out := slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Role == api.Out }); out >= 0 {
		if v, ok := m.Complete(strings.TrimRight(f.Params[out].Type, "*")); ok {
			known.polled, known.complete = out, v
		}
	}
	known.repeatFacts(f)
	return known
}

// repeatFacts finds whether launches by a function can repeat each other.
func (known *facts) repeatFacts(f *api.Func) {
	known.repeats = f.Task == api.Kernel && f.Shares == api.NoShare && f.Sync == api.NoSync && f.Pending == 0 && !f.RetVolatile && !f.Ret.Makes() && !known.makes
	for _, i := range known.others {
		switch q := &f.Params[i]; {
		case q.Role == api.Use:
		case q.Role == api.Args, q.Role == api.In && q.Token == 0 && q.Object == "":
			known.blocks = append(known.blocks, i)
		case q.Role == api.Value:
			known.repeats = false
		default:
			known.absent = append(known.absent, i)
		}
	}
}

// Makes reports whether a function stores handles or addresses that later calls need.
func Makes(f *api.Func) bool {
	return slices.ContainsFunc(f.Params, func(q api.Param) bool {
		return q.Role == api.New || q.Role == api.Place || q.Role == api.Buffer || q.Inside()
	})
}

// retBits returns how many bits of the returned value are compared.
func retBits(f *api.Func, c *format.Call, facts *facts) uint8 {
	if f.Ret.Makes() && c.Ret == 0 {
		return 64
	}
	return facts.retBits
}

func comparedBits(f *api.Func) uint8 {
	switch {
	case f.RetVoid, f.RetVolatile, f.Ret == api.Text, f.Ret == api.Address, f.Ret.Makes():
		return 0
	}
	return uint8(8 * f.RetWidth)
}
