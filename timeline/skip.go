package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Skipper finds the chunks of a trace whose calls do not change a State, for readers that need only a few calls. No call in such a chunk makes,
// ends or names an object, or is the first to use a handle. Chunks must come in the order of the file, while the calls of all other chunks are
// applied to the State.
type Skipper struct {
	s       *State
	kinds   []api.Object // handles in the schema
	r       *format.Reader
	changes []bool // by function: it may change the state
	until   int64  // latest end of a chunk with such a call
	never   bool
}

// Skipper returns a Skipper for a trace.
func (s *State) Skipper(r *format.Reader) *Skipper {
	k := &Skipper{s: s, r: r}
	for _, name := range r.Schema().Handles {
		k.kinds = append(k.kinds, api.Object(name))
	}
	for _, p := range r.Processes() {
		k.never = k.never || len(p.Maps) > 0 // calls refer to stacks in earlier calls
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

// changes reports whether calls of a function may change the state in a way that the index does not show by handles.
func changes(f *api.Func) bool {
	for i := range f.Params {
		if r := f.Params[i].Role; r == api.End || r.Makes() {
			return true
		}
		if f.Params[i].Handles() || f.Params[i].ListsHandles() {
			return true // the index lacks these handles
		}
	}
	return f.Ret == api.New || f.Ret == api.Find || f.Names >= 0 && f.Task != api.Kernel || f.Capture != api.NoCapture || f.Selects >= 0 || f.Stack != api.Replace
}

// indexed reports whether the index covers all handles that calls of a function use.
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

// Skip reports whether the State does not need a chunk.
func (k *Skipper) Skip(c *format.ChunkInfo) bool {
	if k.never {
		return false
	}
	overlaps := c.TMin <= k.until // with a chunk whose calls change the state, and which may not be applied yet
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

// shapes reports whether calls in a chunk may change the state, apart from the handles that they use.
func (k *Skipper) shapes(c *format.ChunkInfo) bool {
	for _, id := range c.Funcs {
		if int(id) >= len(k.changes) || k.changes[id] {
			return true
		}
	}
	return !c.Known
}

// known reports whether all processes with calls in a chunk have an object for the handle.
func (k *Skipper) known(c *format.ChunkInfo, h format.Handle) bool {
	if h.Kind < 1 || h.Kind > len(k.kinds) {
		return false
	}
	for _, t := range c.Threads {
		if k.s.live[key{k.r.ProcessOf(t), k.kinds[h.Kind-1], h.Value}] == nil {
			return false
		}
	}
	return true
}

// Handle returns the handle for a live object by its kind and number.
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
