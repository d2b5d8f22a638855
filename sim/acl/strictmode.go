package acl

import (
	"reflect"
	"runtime"
	"strings"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/strict"
)

// Strict configures strict mode.
type Strict struct {
	// Report is called with each new finding on the thread that caused it. It must not call the simulator. May be
	// nil.
	Report func(*strict.Finding)
	// Unchecked is called once for each kind of access that strict mode does not check and that the program may make. It may be nil.
	Unchecked func(accesses string)
}

// importsMemory records that the process has imported memory of another process.
func (s *Sim) importsMemory() {
	if o := s.opts.Strict; o != nil && o.Unchecked != nil {
		s.sharing.Do(func() { o.Unchecked("accesses of different processes to memory that they share") })
	}
}

func (s *Sim) newChecker(report func(*strict.Finding)) *strict.Checker {
	race := memory.Mark{Why: device.RaceMark}
	return strict.New(strict.Options{Report: report, Function: calledFunction, Live: s.live, Locate: s.placeOf,
		Race: func(written []space.Span) {
			for _, w := range written {
				s.Taint(w, &race)
			}
			s.Unknowns.Any.Store(true)
		}})
}

// live reports whether an object that can leak is live. The binary of an operator library is not the program's, and the library keeps it.
func (s *Sim) live(h uint64) bool {
	if b := s.binaries.Get(h); b != nil && b.Names.Operators {
		return false
	}
	for _, table := range []interface{ Has(h uint64) bool }{&s.contexts, &s.streams, &s.events, &s.images, &s.binaries, &s.Graphs, &s.notifies,
		&s.counters, &s.physicals, &s.pools} {
		if table.Has(h) {
			return true
		}
	}
	return false
}

// placeOf returns the location of an address.
func (s *Sim) placeOf(addr uint64) strict.Place {
	l := s.Locate(addr)
	p := strict.Place{Device: -1, Pinned: l.Kind == device.Pinned, Managed: l.Kind == device.InManaged}
	if l.Device != nil {
		p.Device = l.Device.ID
	}
	return p
}

// Findings returns the findings so far, in order.
func (s *Sim) Findings() []strict.Finding { return s.Strict.Findings() }

// EndStrict checks for leaks at process exit and returns all findings.
func (s *Sim) EndStrict() []strict.Finding {
	s.Strict.End(s.life.inits.Load() > 0)
	return s.Strict.Findings()
}

var threadMethods = reflect.TypeFor[Thread]().PkgPath() + ".(*Thread)."

// calledFunction finds the runtime function that the program called on the stack.
func calledFunction() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	name := ""
	for {
		f, more := frames.Next()
		if m, ok := strings.CutPrefix(f.Function, threadMethods); ok && m[0] >= 'A' && m[0] <= 'Z' {
			name = m
		} else if name != "" || !more {
			break
		}
	}
	return functionOf(name)
}

// functionOf returns the runtime function of a Thread method.
func functionOf(method string) string {
	for _, name := range []string{"aclrt" + method, "acl" + method, "acl" + strings.ToLower(method[:min(1, len(method))]) + method[min(1, len(method)):]} {
		if acl.Model.Lookup(name) != nil {
			return name
		}
	}
	return method
}
