package blame

import (
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// stacks name the frames of the stacks that calls were made from, where the recording kept them.
type stacks struct {
	r     *format.Reader
	known *timeline.Stacks
	any   bool
}

// maxStacks bounds the different stacks that are remembered.
const maxStacks = 1 << 16

func newStacks(r *format.Reader) *stacks { return &stacks{r: r, known: timeline.NewStacks(r)} }

// see takes note of a call's stack: only one of the calls that share it has its frames.
func (s *stacks) see(process uint32, c *format.Call) {
	if _, ok := s.known.Learn(process, c, maxStacks); ok {
		s.any = true
	}
}

// of adds the stacks to some calls, of which any may be nil.
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
		for _, f := range s.known.Of(process(s.r, c), c) {
			to.Stack = append(to.Stack, f.String())
		}
	}
	return nil
}
