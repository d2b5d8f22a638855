package acl

import (
	"reflect"
	"runtime"
	"strings"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/strict"
)

// Strict turns strict mode on.
type Strict struct {
	// Report is called with each new finding, on the thread that has met it, which waits. It calls nothing of the simulator. Nil for
	// none.
	Report func(*strict.Finding)
}

func (s *Sim) newChecker(report func(*strict.Finding)) *strict.Checker {
	name := device.RaceMark
	return strict.New(strict.Options{Report: report, Function: calledFunction, Live: s.objects.live, Locate: s.placeOf,
		Race: func(written []space.Span) {
			for _, w := range written {
				s.Taint(w, &name)
			}
			s.Unknowns.Any.Store(true)
		}})
}

// placeOf returns where an address lies.
func (s *Sim) placeOf(addr uint64) strict.Place {
	l := s.Locate(addr)
	p := strict.Place{Device: -1, Pinned: l.Kind == device.Pinned, Managed: l.Kind == device.InManaged}
	if l.Device != nil {
		p.Device = l.Device.ID
	}
	return p
}

// Findings returns the findings of strict mode so far, in the order of finding.
func (s *Sim) Findings() []strict.Finding { return s.Strict.Findings() }

// EndStrict looks for leaks at the end of the process, and returns all findings.
func (s *Sim) EndStrict() []strict.Finding {
	s.Strict.End(s.life.inits.Load() > 0)
	return s.Strict.Findings()
}

var threadMethods = reflect.TypeFor[Thread]().PkgPath() + ".(*Thread)."

// calledFunction finds on the stack the function of the runtime that the program has called by a method of Thread.
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

// functionOf is the function of the runtime that a method of Thread is.
func functionOf(method string) string {
	for _, name := range []string{"aclrt" + method, "acl" + method, "acl" + strings.ToLower(method[:min(1, len(method))]) + method[min(1, len(method)):]} {
		if acl.Model.Lookup(name) != nil {
			return name
		}
	}
	return method
}
