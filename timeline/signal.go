package timeline

import "github.com/acltrace/acltrace/api"

// A Signal is what tasks record and wait for: an event, a notify, or a word in memory.
type Signal struct {
	Object  *Object // nil for a word
	process uint32
	addr    uint64
}

// Signal returns the signal that a call records, awaits, resets or asks for; false for none.
func (e *Event) Signal() (s Signal, ok bool) {
	f := e.Fn
	if f.Event >= 0 {
		u, ok := e.Use(int(f.Event))
		if !ok {
			return s, false
		}
		return Signal{Object: u.Object.Exported()}, true
	}
	if addr, ok := e.signalWord(); ok {
		return Signal{process: e.Process, addr: addr}, true
	}
	return s, false
}

// signalWord returns the address of a word that the call's task writes or awaits.
func (e *Event) signalWord() (addr uint64, ok bool) {
	if e.Fn.Task != api.Wait && e.Fn.Task != api.Fill {
		return 0, false
	}
	for i := range e.Fn.Params {
		if p := &e.Fn.Params[i]; p.Role == api.DevArgs || p.Role == api.Fills && p.Size.Unit == 8 && len(p.Size.Mul) == 0 {
			return e.Call.Args[p.Word], true
		}
	}
	return 0, false
}

// Releases reports whether the call's task records its Signal: it records an event, or writes a word other than 0.
func (e *Event) Releases() bool {
	if e.Fn.Task != api.Fill {
		return e.Fn.Task == api.Record
	}
	i := e.Fn.Param("value")
	return i >= 0 && e.Call.Args[e.Fn.Params[i].Word] != 0
}
