package rows

import (
	"fmt"

	"github.com/acltrace/acltrace/format"
)

// A Segment is a file that calls are written to. A recording has one. A flight recorder begins others and drops the oldest.
type Segment struct {
	W     *format.Writer
	Gone  bool   // nothing is written to it any more
	First uint64 // number of calls in earlier segments
}

// place is a call's position.
type place struct {
	*Segment
	index uint64
}

// data adds data to the call, unless its segment is gone.
func (p place) data(d *format.Data) error {
	if p.Gone {
		return nil
	}
	d.Call = p.index
	return p.W.Data(d)
}

// Writer returns the current segment's writer.
func (b *Builder) Writer() *format.Writer { return b.seg.W }

// Turn writes to another segment from now on. The new segment gets all processes and threads.
func (b *Builder) Turn(s *Segment) error {
	for _, p := range b.Processes.rows {
		if _, err := s.W.Process(p); err != nil {
			return err
		}
	}
	for _, t := range b.threads.rows {
		if _, err := s.W.Thread(t); err != nil {
			return err
		}
	}
	b.seg = s
	return nil
}

// Leave ends the writing to a segment. Payloads that its calls still wait for are recorded as missing. It
// writes out no buffers, since the programs fill their rings meanwhile.
func (b *Builder) Leave(s *Segment) error {
	if s.Gone {
		return nil
	}
	for k, p := range b.Payloads.parts {
		if p.at.Segment == s {
			if err := b.abandon(k, p, format.Dropped); err != nil {
				return err
			}
		}
	}
	if err := b.unsynchronized(s); err != nil {
		return err
	}
	s.Gone = true
	return nil
}

// unsynchronized records asynchronous results that the program has not waited for: those of calls in s, or all if s is nil.
func (b *Builder) unsynchronized(s *Segment) error {
	why := format.NeverSynchronized
	if b.Lacks != format.NoReason {
		why = b.Lacks
	}
	for _, t := range b.threads.byKey {
		for _, oc := range t.open {
			if oc.result < 0 || s != nil && oc.Segment != s {
				continue
			}
			d := format.Data{Param: uint8(oc.result), Dir: format.DirOut, Status: format.Missing, Reason: why,
				Addr: oc.addr, Len: oc.len, Time: b.Last}
			if err := oc.data(&d); err != nil {
				return fmt.Errorf("result of call %d: %w", oc.index, err)
			}
		}
	}
	return nil
}
