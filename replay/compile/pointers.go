package compile

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// pointers maps recorded device addresses to addresses of the replay, and tracks the memory that holds them.
type pointers struct {
	window         api.Window                // recorded device allocations
	addressed      api.Window                // payload words in it may be addresses
	pinned         api.Window                // argument words in it may be addresses too: host memory that the device reaches
	hostReached    map[*timeline.Object]bool // host memory that kernels may use
	copied         map[uint64]plan.Operand   // payload words that were taken for addresses
	payloads       map[format.BlobID]uint64  // offsets in the plan's data; payloads without addresses only
	payloadMissing bool                      // a missing payload may have had addresses
	zeros          uint64                    // bytes of the memory that replaces missing payloads
	zeroed         map[*timeline.Object]bool // pinned memory with zeros in place of data
	spareAt        uint64                    // first free address after all allocations, see behind
	mapped         bool                      // the player maps memory at its recorded address
	recent         [1 << recentBits]found    // by hash of an address
}

const recentBits = 12

// found is an address that was in an allocation when it was looked up, and the operand of the allocation.
type found struct {
	addr   uint64
	object *timeline.Object
	op     plan.Operand
}

func newPointers() pointers {
	return pointers{
		hostReached: map[*timeline.Object]bool{}, copied: map[uint64]plan.Operand{}, payloads: map[format.BlobID]uint64{},
		zeroed: map[*timeline.Object]bool{},
	}
}

// scan is the search of data for words that mean something else in the replay.
type scan struct {
	d         *format.Data
	q         *api.Param // that the data belongs to
	at        uint64     // of the data in the plan's
	addresses bool       // it may hold device addresses
	reaches   bool       // it may hold addresses of host memory
	most      uint64     // bytes of the longest token, 0 if there are none
	first     int        // relocation of it in callCompiler.reused
	suspect   bool       // a word may be an address, or a token
}

// rows is an extent of memory: len bytes in rows of width bytes, pitch bytes apart.
type rows struct{ len, width, pitch uint64 }

// span is the distance from the first byte to the end of the last.
func (s rows) span() uint64 {
	if s.width == 0 || s.len == 0 {
		return 0
	}
	return (s.len/s.width-1)*s.pitch + s.width
}

// part is a range of a result; unset if nothing on the device has written it.
type part struct {
	lo, hi uint64
	unset  bool
}
