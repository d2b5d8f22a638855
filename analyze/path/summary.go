package path

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// A Summary sums up the critical paths of typical steps, or of all steps if none is typical.
type Summary struct {
	format.Scope
	Process int     `json:"process"`            // process id
	Source  string  `json:"source"`             // marked, found or none: where the steps are from
	Why     string  `json:"why,omitempty"`      // why there are no steps
	Paths   int     `json:"summed"`             // number of paths in the following sums
	NS      int64   `json:"ns"`                 // summed duration of these paths
	Entries []Entry `json:"entries"`            // sums over these paths, the longest first
	TooLong int     `json:"too_long,omitempty"` // number of steps with too many calls for a path
	Steps   int     `json:"-"`                  // whole steps
	Longest *Path   `json:"-"`                  // the path in NS that took longest, nil for none
}

// Options are the options for New; nil means the defaults.
type Options struct {
	// Each receives the path of each step as the step ends, or the path of a whole trace without steps. The path is valid until Each returns.
	Each     func(*Path) error
	Steps    *human.Numbers        // only the paths of these steps, nil for all
	Progress func(done, total int) // called now and then with the calls read and the total
}

// New finds the critical paths in a trace. Its memory does not grow with the number of steps.
func New(r *format.Reader, m *api.Model, o *Options) (*Summary, error) {
	if o == nil {
		o = &Options{}
	}
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Progress: o.Progress})
	if err := w.FindSteps(); err != nil {
		return nil, err
	}
	x := &summer{f: NewFinder(w), each: o.Each, s: &Summary{}}
	x.f.saves = true
	err := w.Run(&timeline.Visitor{
		Marks: true,
		Call:  func(h *timeline.HostCall, k *timeline.Task) error { x.f.Call(h, k, w.Links(), 0); return nil },
		Step: func(s *step.Step) error {
			if s.Open {
				return nil
			}
			p := x.f.Step(s)
			switch n := uint64(s.Index); {
			case o.Steps != nil && n > o.Steps.Last:
				return timeline.ErrEnough
			case o.Steps != nil && !o.Steps.Holds(n):
				return nil // the Finder forgets its calls
			}
			x.s.Steps++
			return x.add(p)
		},
	})
	if err != nil {
		return nil, err
	}
	if p := x.f.Rest(); p != nil && o.Steps == nil {
		if err := x.add(p); err != nil {
			return nil, err
		}
	}
	x.s.Scope = r.Completeness().Scope()
	x.s.Source, x.s.Why = string(w.StepRule().Source), w.StepRule().Why
	x.s.Entries = x.sums.longest(x.f, 0)
	x.s.Process = w.PID(x.f.process)
	return x.s, nil
}

// summer collects a Summary.
type summer struct {
	f    *Finder
	s    *Summary
	each func(*Path) error
	sums sums
	some bool // a typical step was summed up
}

func (x *summer) add(p *Path) error {
	if p.TooLong {
		x.s.TooLong++
	} else if typical := p.Step.Typical || p.Whole; typical || !x.some {
		if typical && !x.some {
			x.some, x.sums, x.s.Paths, x.s.NS, x.s.Longest = true, sums{}, 0, 0, nil
		}
		ns := p.Step.To - p.Step.From
		x.s.Paths++
		x.s.NS += ns
		x.sums.path(p)
		if l := x.s.Longest; l == nil || ns > l.Step.To-l.Step.From {
			x.s.Longest = p.Clone()
		}
	}
	if x.each == nil {
		return nil
	}
	return x.each(p)
}
