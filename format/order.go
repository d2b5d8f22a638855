package format

import (
	"errors"
	"fmt"

	"github.com/acltrace/acltrace/format/container"
)

// orderCalls finds the events chunks whose calls do not follow those of earlier chunks: a chunk is in the file twice, or chunks have changed
// places. They count as damaged. So no index is read twice, whatever the filter.
func (r *Reader) orderCalls() error {
	b := r.block()
	defer release(b)
	next, found := uint64(0), false
	for i := range r.events {
		c := &r.events[i]
		if c.entry.Records == 0 {
			continue // only data
		}
		if !c.info.Known {
			ok, err := r.readFirst(b, c)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
		}
		if c.info.First >= next {
			next = c.info.First + uint64(c.entry.Records)
			continue
		}
		_ = r.file.Corrupt(c.entry, fmt.Sprintf("calls from %d on do not follow call %d of an earlier chunk: the chunk is repeated or misplaced", c.info.First, next-1)) // recorded
		c.misplaced, found = true, true
		c.first = c.info.First
		c.info = ChunkInfo{TMin: c.entry.TMin, TMax: c.entry.TMax, Known: true, seq: c.info.seq}
	}
	if found { // the summaries count these chunks too
		r.sums = sums{}
		for i := range r.events {
			r.events[i].counted = false
		}
	}
	return nil
}

// readFirst reads the index of a chunk's first call. It returns false without an error if the chunk is damaged or has a later version.
func (r *Reader) readFirst(b *block, c *eventChunk) (bool, error) {
	err := r.file.ReadContent(c.entry, &b.content)
	if err == nil {
		err = b.ready(0, len(b.content.Bytes()), wholeBlockHead)
	}
	if err == nil {
		c.info.First, _, _, err = blockHead(b.content.Bytes())
	}
	if err == nil {
		return true, nil
	}
	if errors.Is(err, errBlock) || errors.Is(err, errBlockVersion) {
		return false, nil // load reports it
	}
	return false, container.IgnoreDamage(err)
}

// agrees verifies that a loaded block has the calls that order and counts were made from. A block of a later version has none.
func (c *eventChunk) agrees(b *block) error {
	switch {
	case b.n == 0:
		return nil
	case uint32(b.n) != c.entry.Records:
		return fmt.Errorf("header says %d calls, the block has %d", c.entry.Records, b.n)
	case b.first != c.info.First:
		return fmt.Errorf("summary says first call %d, the block has %d", c.info.First, b.first)
	}
	return nil
}

// unread returns how many calls of a damaged chunk are in no other chunk.
func (r *Reader) unread(c *eventChunk) uint64 {
	n := uint64(c.entry.Records)
	if !c.misplaced {
		return n
	}
	from, to := c.first, c.first+n
	for i := range r.events {
		if o := &r.events[i].info; o.Calls > 0 && o.First < to && o.First+o.Calls > from {
			n -= min(n, min(to, o.First+o.Calls)-max(from, o.First))
		}
	}
	return n
}
