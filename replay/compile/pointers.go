package compile

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// pointers maps recorded device addresses to replay addresses, and tracks the memory that holds them.
type pointers struct {
	window         api.Window                // recorded device allocations
	addressed      api.Window                // payload words in it may be addresses
	pinned         api.Window                // argument words in it may also be addresses: host memory that the device accesses
	hostReached    map[*timeline.Object]bool // host memory that kernels may use
	copied         map[uint64]plan.Operand   // payload words taken as addresses
	payloads       map[format.BlobID]uint64  // offsets in the plan's data; payloads without addresses only
	payloadMissing bool                      // a missing payload may have had addresses
	zeros          uint64                    // zeros that replace missing payloads, bytes
	zeroed         map[*timeline.Object]bool // pinned memory with zeros for missing data
	spareAt        uint64                    // first free address after all allocations, see spareAddress
	mapped         bool                      // the player maps memory at its recorded address
	recent         [1 << recentBits]found    // by address hash
}

const recentBits = 12

// golden multiplies a word so that its upper bits are a hash.
const golden = 0x9e3779b97f4a7c15

// found is an address that a lookup found in an allocation, with the allocation's operand.
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

// scan is a search for payload words that differ in the replay.
type scan struct {
	d         *format.Data
	q         *api.Param // the payload's parameter
	at        uint64     // payload's offset in the plan's data
	addresses bool       // it may hold device addresses
	reaches   bool       // it may hold host addresses
	most      uint64     // longest token's length, 0 if there are none
	first     int        // its first relocation in callCompiler.found
	suspect   bool       // a word may be an address, or a token
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
