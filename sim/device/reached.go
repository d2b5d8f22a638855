package device

import (
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// reach is what the search knows of memory. Its lock also guards all groups.
type reach struct {
	active  atomic.Bool // there was a search
	lock    sync.Mutex
	clock   uint64
	ended   map[space.Span]uint64 // the time at which memory of a group has last ended; 0 for never
	pieces  map[uint64]*piece     // by the address of the first byte
	changed []change              // memory whose content or marks have changed, by time
	lost    uint64                // changes until this time are not in changed
}

// change is device memory that has changed. Other memory may change at any time.
type change struct {
	at    uint64
	where space.Span
}

// A piece is the addresses that were found in a part of device memory that has not been written since.
type piece struct {
	windows
	aligned, odd []uint64
}

// windows are the ranges that have all memory: devices, placed allocations, managed memory and host memory.
type windows [4]space.Span

func (w *windows) hold(word uint64) bool {
	return word-w[0].Addr < w[0].Size || word-w[1].Addr < w[1].Size || word-w[2].Addr < w[2].Size || word-w[3].Addr < w[3].Size
}

func (p *piece) add(word uint64, aligned bool) {
	if aligned {
		p.aligned = append(p.aligned, word)
	} else {
		p.odd = append(p.odd, word)
	}
}

const (
	// pieceSize is the size of all pieces of an allocation but the last.
	pieceSize = 1 << 20
	// mostChanges bounds the changes that are kept.
	mostChanges = 1 << 12
	// block is the unit in which memory that was never written is skipped.
	block = 64 << 10
	// pieceMost bounds the addresses that a piece keeps. Pieces with more are searched again.
	pieceMost = 1 << 12
)

// join returns the group with the memory of two groups, which may be nil.
func (r *reach) join(a, b *memory.Group) *memory.Group {
	switch {
	case a == nil:
		return b
	case b == nil || a == b:
		return a
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	return a.Join(b)
}

// gone forgets memory that has ended.
func (r *reach) gone(s space.Span) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if _, grouped := r.ended[s]; grouped {
		r.clock++
		r.ended[s] = r.clock
	}
	for at := s.Addr; at < s.End() && len(r.pieces) > 0; at += pieceSize {
		delete(r.pieces, at)
	}
}

// rescan forgets what was found in all memory.
func (r *reach) rescan() {
	if r.active.Load() {
		r.lock.Lock()
		defer r.lock.Unlock()
		clear(r.pieces)
		r.change(space.Span{Size: ^uint64(0)})
	}
}

// change records that memory has changed. The caller holds the lock.
func (r *reach) change(at space.Span) {
	r.clock++
	if len(r.changed) == mostChanges || at.Size == ^uint64(0) {
		r.changed, r.lost = r.changed[:0], r.clock
		return
	}
	r.changed = append(r.changed, change{r.clock, at})
}
