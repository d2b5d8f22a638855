package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Skipper tells which chunks of calls leave a State as it is, so that whoever wants a few calls of a long trace need
// not read all before them: neither does a call in such a chunk make, end or name anything, nor is one the first to use
// a handle. It is asked in the order of the file, chunk by chunk, while the State is applied to the calls of those that
// are read.
type Skipper struct {
	s       *State
	kinds   []api.Object // of the schema's handles
	threads []format.Thread
	changes []bool // by function
	until   int64  // latest end of a chunk with calls that change the state
	never   bool
}

// Skipper returns what tells it for a trace.
func (s *State) Skipper(r *format.Reader) *Skipper {
	k := &Skipper{s: s, threads: r.Threads()}
	for _, name := range r.Schema().Handles {
		k.kinds = append(k.kinds, api.Object(name))
	}
	for _, p := range r.Processes() {
		k.never = k.never || len(p.Maps) > 0 // a stack is told once and then named by others
	}
	for i := range s.model.Funcs {
		f := &s.model.Funcs[i]
		for int(f.ID) >= len(k.changes) {
			k.changes = append(k.changes, true)
		}
		k.changes[f.ID] = changes(f) || !indexed(f, r.Schema().Func(uint16(f.ID)))
	}
	return k
}

// changes reports whether a call of the function may change the state, but for the handles that it uses.
func changes(f *api.Func) bool {
	for i := range f.Params {
		if r := f.Params[i].Role; r == api.End || r.Makes() {
			return true
		}
		if f.Params[i].Handles() {
			return true // by handles that no index knows
		}
	}
	return f.Ret == api.New || f.Ret == api.Find || f.Names >= 0 && f.Task != api.Kernel || f.Capture != api.NoCapture || f.Selects >= 0 || f.Stack != api.Replace
}

// indexed reports whether the chunks of a trace are indexed by all handles that calls of the function use.
func indexed(f *api.Func, in *format.Function) bool {
	if in == nil {
		return true // never called
	}
	if len(in.Params) != len(f.Params) {
		return false
	}
	for i := range f.Params {
		if f.Params[i].Names() && in.Params[i].Handle == 0 {
			return false
		}
	}
	return true
}

// Skip reports whether the State can do without the chunk.
func (k *Skipper) Skip(c *format.ChunkInfo) bool {
	if k.never {
		return false
	}
	overlaps := c.TMin <= k.until // with a chunk of calls that change the state, and that are not all applied yet
	if k.shapes(c) {
		k.until = max(k.until, c.TMax)
		return false
	}
	if overlaps || k.s.captures.Active() {
		return false
	}
	for _, h := range c.Handles {
		if h.Any || !k.known(c, h) {
			return false
		}
	}
	return true
}

// shapes reports whether calls in the chunk may change the state, but for the handles that they use.
func (k *Skipper) shapes(c *format.ChunkInfo) bool {
	for _, id := range c.Funcs {
		if int(id) >= len(k.changes) || k.changes[id] {
			return true
		}
	}
	return !c.Known
}

// known reports whether all processes with calls in the chunk have an object of the handle.
func (k *Skipper) known(c *format.ChunkInfo, h format.Handle) bool {
	if h.Kind < 1 || h.Kind > len(k.kinds) {
		return false
	}
	for _, t := range c.Threads {
		var process uint32
		if int(t) < len(k.threads) {
			process = k.threads[t].Process
		}
		if k.s.live[key{process, k.kinds[h.Kind-1], h.Value}] == nil {
			return false
		}
	}
	return true
}

// Handle returns the handle of a live object by its kind and number.
func (k *Skipper) Handle(kind api.Object, id int) (h format.Handle, ok bool) {
	for at, name := range k.kinds {
		if name != kind {
			continue
		}
		for key, o := range k.s.live {
			if key.kind == kind && o.ID == id {
				return format.Handle{Kind: at + 1, Value: key.handle}, true
			}
		}
	}
	return format.Handle{}, false
}
