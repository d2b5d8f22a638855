package acl

import (
	"sync"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/device"
)

// summary is what Summarize has logged.
type summary struct {
	mu     sync.Mutex
	logged [3]int64
}

// notExecuted reports the first launch of a kernel that is not executed. Those that declare what they write are logged at the end, since a framework
// launches hundreds.
func (s *Sim) notExecuted(f *kernel.Function) {
	if f.Declares() {
		if s.opts.NotComputed != nil {
			s.opts.NotComputed(f.Name)
		}
		return
	}
	why := "is in no kernel library"
	if f.Kernel != nil {
		why = "has neither code nor extents in its kernel library"
	}
	s.Log("kernel %q %s: it takes modelled time and writes nothing; name its library in ACLSIM_KERNELS", f.Name, why)
	if s.opts.Missing != nil {
		s.opts.Missing(f.Name)
	}
}

// Summarize logs kernels and results that could not be simulated, and have not been logged before.
func (s *Sim) Summarize() {
	x := &s.summary
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, l := range []struct {
		launches     *device.Launches
		noun, reason string
	}{{&s.Unknowns.Launches, "kernel", "without a kernel library"}, {&s.Unknowns.Declared, "operator", "that no kernel library computes"}} {
		all, n := l.launches.All(), int64(0)
		for _, c := range all {
			n += c
		}
		if n > x.logged[i] {
			s.Log("%s of %s %s took modelled time and wrote nothing", human.Plural(n, "launch"), human.Plural(len(all), l.noun), l.reason)
			x.logged[i] = n
		}
	}
	if copies, bytes := s.UnknownResults(); copies > x.logged[2] {
		s.Log("%s to the host read %s that depend on their output: these may differ from the results of a device", human.Plural(copies, "copy"), human.Bytes(bytes))
		x.logged[2] = copies
	}
}
