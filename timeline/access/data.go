package access

import (
	"math/bits"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// callData finds the recorded data of one call.
type callData struct {
	Data []format.Data // also data that was recorded after the call

	r      *format.Reader
	late   map[uint64][]format.Data // data that was recorded after its call, by call
	index  map[piece]*format.Data   // of Data, if it is long
	arrays map[int][]byte           // array arguments that were read, by parameter
}

// piece identifies a payload in a call.
type piece struct {
	param int
	item  uint32
	dir   format.Dir
}

// begin makes a call the current one.
func (x *callData) begin(c *format.Call) {
	x.Data = c.Data
	if x.index != nil || x.arrays != nil || len(x.late) > 0 {
		x.index, x.arrays = nil, nil
		x.Data = append(slices.Clip(x.Data), x.late[c.Index]...)
	}
}

// Find returns the data of a parameter, nil if there is none.
func (x *callData) Find(param int, item uint32, dir format.Dir) *format.Data {
	if len(x.Data) > 32 && x.index == nil {
		// A batch has thousands.
		x.index = make(map[piece]*format.Data, len(x.Data))
		for k := range slices.Backward(x.Data) {
			d := &x.Data[k]
			x.index[piece{int(d.Param), d.Item, d.Dir}] = d
		}
	}
	if x.index != nil {
		return x.index[piece{param, item, dir}]
	}
	for k := range x.Data {
		if d := &x.Data[k]; int(d.Param) == param && d.Item == item && d.Dir == dir {
			return d
		}
	}
	return nil
}

// Whole returns the data of a parameter, nil if the trace lacks its content.
func (x *callData) Whole(param int, item uint32, dir format.Dir) *format.Data {
	if d := x.Find(param, item, dir); d != nil && d.Status == format.Whole {
		return d
	}
	return nil
}

// array returns an array argument, false if the trace lacks it.
func (x *callData) array(param int) ([]byte, bool) {
	if b, known := x.arrays[param]; known {
		return b, true
	}
	d := x.Whole(param, 0, format.DirIn)
	if d == nil {
		return nil, false
	}
	b, err := x.bytes(d)
	if err != nil {
		return nil, false
	}
	if x.arrays == nil {
		x.arrays = map[int][]byte{}
	}
	x.arrays[param] = b
	return b, true
}

func (x *callData) bytes(d *format.Data) ([]byte, error) {
	if d.Blob == 0 {
		return d.Bytes, nil
	}
	return x.r.Blob(d.Blob)
}

// complete reports whether the trace has all input data of a parameter, and at least want pieces of it. If the role has items besides the data that
// points to them, want counts the items only. An empty argument has no pieces.
func (x *callData) complete(e *timeline.Event, i, want int) bool {
	p := &e.Fn.Params[i]
	if n, ok := p.Size.Bytes(e.Fn, e.Call.Args); e.Call.Args[p.Word] == 0 || p.Role == api.Args && ok && n == 0 {
		want = 0
	}
	apart := p.Role == api.ArgArray || p.Role == api.Launch
	for k := range x.Data {
		d := &x.Data[k]
		if int(d.Param) != i || d.Dir != format.DirIn {
			continue
		}
		if d.Status != format.Whole {
			return false
		}
		if d.Item != 0 || !apart {
			want--
		}
	}
	return want <= 0
}

// named appends the accesses of the memory that the word of a parameter names, or the words of its array in a batch. A range of rows extends from
// the first byte to the last. The size is 0 if it is unknown. named returns false if the trace lacks some.
func (x *callData) named(to []Access, e *timeline.Event, i int) (accesses []Access, all bool) {
	f, args := e.Fn, e.Call.Args
	p := &f.Params[i]
	a := Access{Addr: args[p.Word], Param: i, Self: true}
	switch p.Role {
	case api.Address:
		if a.Kind = Names; a.Addr != 0 {
			to = append(to, a)
		}
		return to, true
	case api.Reads, api.DevArgs:
	case api.Writes, api.Fills:
		a.Kind = Writes
	default:
		return to, true
	}
	if p.ItemSizes < 0 {
		a.Size, all = p.Size.Bytes(f, args)
		if p.Size.Pitch >= 0 && a.Size > 0 {
			width := args[f.Params[p.Size.Mul[0]].Word]
			over, gaps := bits.Mul64(a.Size/width-1, args[f.Params[p.Size.Pitch].Word])
			a.Size, all = gaps+width, over == 0
		}
		if a.Addr != 0 && (a.Size > 0 || !all || p.Role == api.DevArgs) {
			to = append(to, a)
		}
		return to, all
	}
	addrs, ok1 := x.array(i)
	sizes, ok2 := x.array(int(p.ItemSizes))
	a.Self = false
	for ; a.At+8 <= min(uint64(len(addrs)), uint64(len(sizes)), 8*args[f.Params[p.ItemCount].Word]); a.At += 8 {
		a.Addr, a.Size = word(addrs[a.At:]), word(sizes[a.At:])
		to = append(to, a)
	}
	return to, ok1 && ok2
}

// item returns the item of a batch that an access by its array belongs to, as in format.Data; 0 for an access by an argument.
func (a *Access) item() uint32 {
	if a.Self {
		return 0
	}
	return uint32(1 + a.At/8)
}

// address returns the address that a parameter or an item of its array in a batch has, false if the trace lacks it.
func (x *callData) address(e *timeline.Event, i int, item uint32) (uint64, bool) {
	p := &e.Fn.Params[i]
	if p.ItemSizes < 0 {
		return e.Call.Args[p.Word], true
	}
	b, _ := x.array(i)
	if item == 0 || uint64(len(b)) < 8*uint64(item) {
		return 0, false
	}
	return word(b[8*(item-1):]), true
}
