package access

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"github.com/acltrace/acltrace/timeline"
)

// Evidence says why a word of a payload is an address.
type Evidence uint8

// The evidence, see Words.
const (
	Guess      Evidence = iota // none: the word only lies in an allocation
	ByArgument                 // it is a word of a kernel's argument block
	ByLayout                   // the kernel's binary declares a pointer
	ByAddress                  // it is the start of an allocation, was passed to a call, or points into the memory that gets the payload
	ByTable                    // the words around it are addresses
)

var evidenceNames = [...]string{"guess", "argument", "layout", "address", "table"}

func (e Evidence) String() string { return evidenceNames[e] }

// A Word is a word of a payload that lies in an allocation.
type Word struct {
	At     uint64 // byte in the payload
	Addr   uint64
	Object *timeline.Object
	Offset uint64 // of the address, in the object
	Evidence
	Unaligned bool
}

// A Payload is data whose words may be addresses.
type Payload struct {
	Process   uint32
	Arguments bool            // arguments of a kernel, or a structure of the API
	Host      bool            // kernels that get it may access host memory, so host addresses count
	Args      []kernelbin.Arg // layout of the argument block, nil if unknown
	Operator  bool            // it is the argument block of an operator,
	Operands  []block.Operand // which has these addresses
	Len       uint64
	To        uint64 // address of the memory that gets the payload, 0 if unknown
}

// Words decides which words of payloads are addresses. A replay rewrites facts when allocations lie elsewhere. It must not rewrite numbers.
//
// Words of argument blocks are facts, unless the kernel's binary declares a number there. The argument block of an operator says itself which of its
// words are addresses. In other payloads a word is a fact in four cases:
//   - it is the start of a live allocation,
//   - the program passed the address to a call before,
//   - it points into the memory that gets the payload, of up to ownMemory bytes,
//   - the words around it form a table of addresses.
//
// Any other word in a live allocation is a guess.
//
// Packed structures have addresses at other bytes than multiples of 8. Such a word is at most a guess:
//   - at an odd multiple of 4 if it would be a fact when aligned, or if it lies in an allocation and the payload has up to tableReach bytes,
//   - elsewhere, but not in argument blocks, if it is the start of an allocation or was passed to a call.
//
// Payloads are often arrays of 32-bit numbers, whose pairs look like addresses: 4800 as the upper half is enough for an allocation at
// 0x12c000000000. So two more rules hold. A word whose lower half is less than smallNumber is never a fact. And a table has at least two
// addresses, unless the payload is a small structure. They are at least half of the words that are not 0, within tableSide bytes on both sides.
// Within tableReach bytes they are tableMost times as many as words that lie just outside the allocations or have a small lower half. Arrays of
// numbers have many such words.
type Words struct {
	s *timeline.State
	// Device holds all device memory, Pinned all host memory that kernels may access. No word outside is an address.
	Device, Pinned api.Window

	passed [1 << passedBits]passed
	recent [1 << recentBits]found
	other  found              // the latest result that is not kept
	gone   []*timeline.Object // ended allocations whose addresses still count
	near   [3][]Word          // of the current piece by alignment, with Object nil for words just outside the allocations
	words  []Word
	some   bool // the current piece has words that are addresses if there are such allocations
}

// Alignments of words in memory.
const (
	aligned = iota // at a multiple of 8
	half           // at an odd multiple of 4
	packed         // elsewhere
)

const (
	smallNumber = 1 << 20 // token ids, positions and counts are less
	tableSide   = 32      // bytes
	tableReach  = 4096    // bytes
	tableMost   = 4
	structure   = 64      // bytes
	ownMemory   = 1 << 20 // bytes
	passedBits  = 15
	recentBits  = 12
	golden      = 0x9e3779b97f4a7c15
	ones        = 0x0101010101010101
)

// passed is an address that the program passed to a call.
type passed struct {
	addr    uint64
	process uint32
}

// found is an address that a lookup found in an allocation.
type found struct {
	addr   uint64
	object *timeline.Object
	passed bool // the program passed it to a call
}

// NewWords returns Words that look up allocations in a State. The caller sets the windows, or calls Made.
func NewWords(s *timeline.State) *Words {
	none := api.Window{From: ^uint64(0)}
	return &Words{s: s, Device: none, Pinned: none}
}

// Made widens the windows by the memory that a call has made.
func (x *Words) Made(e *timeline.Event) {
	for _, u := range e.Uses {
		if o := u.Object; o.Created == e.Call.Index && o.Kind.Memory() {
			w := &x.Device
			if o.Kind.OnHost() {
				w = &x.Pinned
			}
			widen(w, o.Handle, o.Size)
		}
	}
}

// end keeps the allocations, by Object.ID, that a call has ended.
func (x *Words) end(e *timeline.Event, keep map[int]bool) {
	for _, u := range e.Uses {
		if u.Object.Ended == e.Call.Index && keep[u.Object.ID] {
			x.gone = append(x.gone, u.Object)
		}
	}
}

// ended returns the allocation that held an address and was kept by end, with the offset; nil for none.
func (x *Words) ended(process uint32, addr uint64) (*timeline.Object, uint64) {
	for _, o := range slices.Backward(x.gone) {
		if o.Process == process && addr-o.Handle < o.Size {
			return o, addr - o.Handle
		}
	}
	return nil, 0
}

// Call takes in the addresses that a call passes as arguments. Those of launches are in argument blocks.
func (x *Words) Call(e *timeline.Event) {
	if e.Fn.Task == api.Kernel {
		return
	}
	for i := range e.Uses {
		if u := &e.Uses[i]; u.Offset != 0 && u.Object.Kind == api.Device {
			x.pass(u.Object.Process, u.Object.Handle+u.Offset)
		}
	}
}

func (x *Words) pass(process uint32, addr uint64) {
	x.passed[addr*golden>>(64-passedBits)] = passed{addr, process}
}

func (x *Words) wasPassed(process uint32, addr uint64) bool {
	return x.passed[addr*golden>>(64-passedBits)] == passed{addr, process}
}

// known reports whether a word is the start of an allocation, which has the offset 0, or an address that the program passed to a call.
func (x *Words) known(process uint32, addr, off uint64) bool {
	return uint32(addr) >= smallNumber && (off == 0 || x.wasPassed(process, addr))
}

// Find returns the words in a piece of a payload that lie in allocations, in order. at is the offset of the piece. Pieces of a long payload are
// judged one by one, so they should be long. A piece but the last has 7 more bytes, in which no word begins. The result is valid until the next
// Find. suspect reports whether other allocations could have another result.
func (x *Words) Find(p *Payload, b []byte, at uint64) (words []Word, suspect bool) {
	if p.Arguments {
		return x.arguments(p, b, at)
	}
	suspect = x.scan(p, b, at)
	x.words = x.words[:0]
	if !suspect {
		return nil, false
	}
	x.judge(p, b, at, x.near[aligned])
	x.judge(p, b, at, x.near[half])
	x.words = append(x.words, x.near[packed]...)
	if len(x.near[half])+len(x.near[packed]) > 0 {
		slices.SortFunc(x.words, func(a, b Word) int { return cmp.Compare(a.At, b.At) })
	}
	return x.words, true
}

// judge appends near words of one alignment to x.words, with their evidence.
func (x *Words) judge(p *Payload, b []byte, at uint64, near []Word) {
	var from, to, like, unlike int // the words within tableReach bytes: their indices, and how many look like addresses
	for i := range near {
		w := &near[i]
		for ; to < len(near) && near[to].At <= w.At+tableReach; to++ {
			if near[to].likely() {
				like++
			} else {
				unlike++
			}
		}
		for ; near[from].At+tableReach < w.At; from++ {
			if near[from].likely() {
				like--
			} else {
				unlike--
			}
		}
		if w.Object == nil {
			continue
		}
		switch {
		case x.known(p.Process, w.Addr, w.Offset), w.likely() && p.Len <= ownMemory && w.Addr-p.To < p.Len:
			w.Evidence = ByAddress
		case w.likely() && unlike*tableMost <= like && table(p, b, at, near, i):
			w.Evidence = ByTable
		}
		if w.Unaligned {
			if w.Evidence == Guess && (!w.likely() || p.Len > tableReach) {
				continue
			}
			w.Evidence = Guess
		}
		x.words = append(x.words, *w)
	}
}

// likely reports whether a word lies in an allocation and its lower half is no small number.
func (w *Word) likely() bool { return w.Object != nil && uint32(w.Addr) >= smallNumber }

// Near returns the words in a piece of a payload that lie in allocations, or just outside: those have no Object. It judges none, and sorts them
// by their alignment. The result is valid until the next Near or Find.
func (x *Words) Near(p *Payload, b []byte, at uint64) []Word {
	x.words = x.words[:0]
	if !x.scan(p, b, at) {
		return nil
	}
	for _, near := range x.near {
		x.words = append(x.words, near...)
	}
	return x.words
}

// scan sets x.near, and reports whether there are words.
func (x *Words) scan(p *Payload, b []byte, at uint64) bool {
	for i := range x.near {
		x.near[i] = x.near[i][:0]
	}
	x.some = false
	from, to := x.Device.From-x.Device.From>>6, x.Device.To+x.Device.To>>6
	if from > to {
		return false
	}
	n, first := uint64(len(b)), min((-p.To-at)&7, uint64(len(b))) // the first word that is aligned in memory
	for k := uint64(0); k < first && k+8 <= n; k++ {
		if w := word(b[k:]); w-from <= to-from {
			x.see(p, at+k, w, 8+k-first)
		}
	}
	same := x.Device.From>>40 == x.Device.To>>40 // all addresses have this byte
	sixth := x.Device.From >> 40 & 0xff * ones
	k := first
	for ; k+16 <= n; k += 8 {
		two := b[k : k+16 : k+16]
		w, next := word(two), word(two[8:])
		if w-from <= to-from {
			x.see(p, at+k, w, 0)
		}
		if w := w>>32 | next<<32; w-from <= to-from {
			x.see(p, at+k+4, w, 4)
		}
		if v := (w>>48 | next<<16) ^ sixth; !same || (v-ones)&^v&(ones<<7) != 0 { // one of its bytes is 0
			for by := uint64(1); by < 8; by++ {
				if w := word(two[by:]); by != 4 && w-from <= to-from {
					x.see(p, at+k+by, w, by)
				}
			}
		}
	}
	for by := uint64(0); k+by+8 <= n; by++ {
		if w := word(b[k+by:]); w-from <= to-from {
			x.see(p, at+k+by, w, by)
		}
	}
	return x.some
}

// see adds a word to x.near, at a distance from an aligned one.
func (x *Words) see(p *Payload, at, addr, distance uint64) {
	x.some = true
	w, kind := x.look(p, at, addr), packed
	switch w.Unaligned = distance != 0; distance {
	case 0:
		kind = aligned
	case 4:
		kind = half
	}
	if kind != packed || w.Object != nil && x.known(p.Process, addr, w.Offset) {
		x.near[kind] = append(x.near[kind], w)
	}
}

// look returns a word with the device memory that it lies in.
func (x *Words) look(p *Payload, at, addr uint64) Word {
	w := Word{At: at, Addr: addr}
	if o := x.find(p.Process, addr).object; o != nil && !o.Kind.OnHost() {
		w.Object, w.Offset = o, addr-o.Handle
	}
	return w
}

// table reports whether at least half of the words around a word are addresses, of the words that are not 0. It may be the only one in a structure.
func table(p *Payload, b []byte, at uint64, near []Word, i int) bool {
	w, hits, some := &near[i], 0, 0
	for k := i; k >= 0 && w.At-near[k].At <= tableSide; k-- {
		if near[k].likely() {
			hits++
		}
	}
	for k := i + 1; k < len(near) && near[k].At-w.At <= tableSide; k++ {
		if near[k].likely() {
			hits++
		}
	}
	k := w.At - at
	for j := k - min(k&^7, tableSide); j+8 <= min(k+tableSide+8, uint64(len(b))); j += 8 {
		if word(b[j:]) != 0 {
			some++
		}
	}
	return (hits > 1 || p.Len <= structure) && 2*hits >= some
}

// arguments is Find for argument blocks.
func (x *Words) arguments(p *Payload, b []byte, at uint64) (words []Word, suspect bool) {
	x.words = x.words[:0]
	if p.Operator {
		x.operands(p, b, at)
		return x.words, true
	}
	device, pinned := x.Device, x.Pinned
	if !p.Host {
		pinned = device
	}
	for k := uint64(0); k+8 <= uint64(len(b)); k += 8 {
		w := word(b[k:])
		if (w < device.From || w > device.To) && (w < pinned.From || w > pinned.To) {
			continue
		}
		suspect = true
		recent := x.find(p.Process, w)
		o := recent.object
		if o == nil || o.Kind.OnHost() && !p.Host {
			continue
		}
		off := w - o.Handle
		evidence := ByArgument
		switch a, known := timeline.ArgumentAt(p.Args, at+k); {
		case known && a.Level > 0:
			evidence = ByLayout
		case known && a.Kind == kernelbin.General:
			continue // a number that looks like an address
		case known || len(p.Args) == 0:
		case x.known(p.Process, w, off): // data after the arguments
			evidence = ByAddress
		default:
			evidence = Guess
		}
		if off != 0 && !recent.passed {
			recent.passed = true
			x.pass(p.Process, w)
		}
		x.words = append(x.words, Word{At: at + k, Addr: w, Object: o, Offset: off, Evidence: evidence})
	}
	return x.words, x.halves(p, b, at) || suspect
}

// halves appends the words at odd multiples of 4 in an argument block that may be addresses, and reports whether there are any.
func (x *Words) halves(p *Payload, b []byte, at uint64) (some bool) {
	for k := uint64(4); k+8 <= uint64(len(b)); k += 8 {
		addr := word(b[k:])
		if addr < x.Device.From || addr > x.Device.To {
			continue
		}
		some = true
		if _, known := timeline.ArgumentAt(p.Args, at+k); known {
			continue
		}
		if w := x.look(p, at+k, addr); w.likely() {
			w.Unaligned = true
			x.words = append(x.words, w)
		}
	}
	return some
}

// find returns the live allocation, or the reservation, that holds an address or ends at it. The object is nil if there is none. The result is
// valid until the next find. It keeps recent results, since loops use the same addresses again.
func (x *Words) find(process uint32, addr uint64) *found {
	recent := &x.recent[addr*golden>>(64-recentBits)]
	if o := recent.object; o != nil && recent.addr == addr && o.Ended == timeline.NoCall && o.Process == process {
		return recent
	}
	o, _, ok := x.s.Find(process, addr)
	if ok && o.Kind == api.Device && o.Parent == nil {
		*recent = found{addr, o, false}
		return recent
	}
	if !ok {
		o, _, ok = x.s.FindEnd(process, addr)
	}
	if !ok {
		// Reserved addresses count even without memory.
		o, _, ok = x.s.Reserved(process, addr)
	}
	if !ok {
		o, _ = x.ended(process, addr)
	}
	x.other = found{addr, o, false}
	return &x.other
}

// PayloadOf describes data of a call. args is the layout of a kernel's argument block, nil if it is unknown.
func PayloadOf(e *timeline.Event, q *api.Param, d *format.Data, args []kernelbin.Arg) Payload {
	p := Payload{Process: e.Process, Len: d.Len, Arguments: q.Role != api.Reads && q.Role != api.Launch}
	if e.Fn.Task == api.Kernel {
		switch q.Role {
		case api.Args:
			p.Args = args
			fallthrough
		case api.ArgArray, api.Packed, api.Struct:
			p.Host = true
		}
	}
	if q.Role == api.Reads && d.Item == 0 && d.Param != api.MemoryParam {
		for i := range e.Fn.Params {
			if to := &e.Fn.Params[i]; to.Role == api.Writes && to.ItemSizes < 0 {
				p.To = e.Call.Args[to.Word]
			}
		}
	}
	return p
}

// operand returns the operand of an address word of an operator's argument block, nil if the payload is no such block.
func (p *Payload) operand(at uint64) *block.Operand {
	i, ok := slices.BinarySearchFunc(p.Operands, at, func(o block.Operand, at uint64) int { return cmp.Compare(uint64(o.At), at) })
	if !ok {
		return nil
	}
	return &p.Operands[i]
}

// operands appends the address words of an operator's argument block that begin in b, at an offset of the block.
func (x *Words) operands(p *Payload, b []byte, at uint64) {
	for _, o := range p.Operands {
		if k := uint64(o.At); k < at || k+8 > at+uint64(len(b)) {
			continue
		}
		recent := x.find(p.Process, o.Addr)
		of := recent.object
		if of == nil || of.Kind.OnHost() && !p.Host {
			continue
		}
		off := o.Addr - of.Handle
		if off != 0 && !recent.passed {
			recent.passed = true
			x.pass(p.Process, o.Addr)
		}
		x.words = append(x.words, Word{At: uint64(o.At), Addr: o.Addr, Object: of, Offset: off, Evidence: ByLayout})
	}
}
