package kernel

import (
	"sync"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

const (
	ArgBlockSize  = 64 << 10 // largest argument block, with placeholder data
	MaxParams     = 128
	ArgHandleSize = 64 // bytes of a handle in program memory
	// KeptLists is the largest number of argument lists of a thread in runtime memory. No function frees them.
	KeptLists = 256
)

// ArgList is an argument list in a host block: first the parameters with natural alignment, then placeholder data.
type ArgList struct {
	Handle uint64
	Func   *Function
	Block  uint64 // address
	Limit  uint64
	Own    bool // the runtime owns the block

	sync.Mutex
	Params []Param
	Sealed bool
	Size   uint64 // parameter bytes
	Total  uint64 // with placeholder data
}

type Param struct {
	Offset, Size uint64
	Place        bool   // is a placeholder
	Data, Length uint64 // placeholder buffer in the block
}

func (l *ArgList) Bytes() []byte { return space.Bytes(l.Block, l.Limit) }

func ParamHandle(l *ArgList, i int) acl.ParamHandle {
	return acl.ParamHandle(space.NewHandle(space.KindParam, l.Handle>>4, uint64(i)))
}
