package compile

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// pointers maps recorded device addresses to replay addresses, and tracks the memory that holds them.
type pointers struct {
	mover          *mover                    // nil unless allocations are moved
	hostReached    map[*timeline.Object]bool // host memory that kernels may use
	copied         map[uint64]plan.Operand   // payload words taken as addresses
	payloads       map[format.BlobID]uint64  // offsets in the plan's data; payloads without addresses only
	payloadMissing bool                      // a missing payload may have had addresses
	zeros          uint64                    // zeros that replace missing payloads, bytes
	spareAt        uint64                    // first free address after all allocations, see spareAddress
	mapped         bool                      // the player maps memory at its recorded address
}

// golden multiplies a word so that its upper bits are a hash.
const golden = 0x9e3779b97f4a7c15

func newPointers() pointers {
	return pointers{
		hostReached: map[*timeline.Object]bool{}, copied: map[uint64]plan.Operand{}, payloads: map[format.BlobID]uint64{},
	}
}

// scan is a payload that is added to the plan's data, with the search for words that differ in the replay.
type scan struct {
	*access.Scan // nil if there are none
	source       access.Source
	d            *format.Data
	q            *api.Param // the payload's parameter
	at           uint64     // payload's offset in the plan's data
	first        int        // its first relocation in callCompiler.found
}

// rows is an extent of memory: len bytes in rows of width bytes, pitch bytes apart.
type rows struct{ len, width, pitch uint64 }

// span is the distance from the first byte to the end.
func (s rows) span() uint64 {
	if s.width == 0 || s.len == 0 {
		return 0
	}
	return (s.len/s.width-1)*s.pitch + s.width
}

// part is a range in a result; unset if no device task has written it.
type part struct {
	lo, hi uint64
	unset  bool
}
