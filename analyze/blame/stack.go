package blame

import (
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// stacks resolves call stacks, if the recording kept them.
type stacks struct {
	r     *format.Reader
	known *timeline.Stacks
	any   bool
}

// maxStacks limits the different stacks that are kept.
const maxStacks = 1 << 16

func newStacks(r *format.Reader) *stacks { return &stacks{r: r, known: timeline.NewStacks(r)} }

// see must be called for every call: only the first call with a stack carries its frames.
func (s *stacks) see(process uint32, c *format.Call) {
	if _, ok := s.known.Learn(process, c, maxStacks); ok {
		s.any = true
	}
}

// of sets the stacks of some calls. Calls may be nil.
func (s *stacks) of(calls []*Call) error {
	for _, to := range calls {
		if to == nil || !s.any {
			continue
		}
		c, err := s.r.Call(to.Index)
		if err != nil {
			return err
		}
		to.Stack = nil
		for _, f := range s.known.Of(s.r.ProcessOf(c.Thread), c) {
			to.Stack = append(to.Stack, f.String())
		}
	}
	return nil
}
