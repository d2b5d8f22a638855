package replay

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// pointers knows the device addresses of the trace: where they may be, and what they are in the replay.
type pointers struct {
	window         api.Window                // recorded device allocations
	addressed      api.Window                // payload words in it may be addresses
	pinned         api.Window                // argument words in it may be addresses too: host memory that the device reaches
	hostReached    map[*timeline.Object]bool // host memory that kernels may use
	copied         map[uint64]operand        // payload words that were taken for addresses
	payloads       map[format.BlobID]uint64  // offsets in the plan's data; payloads without addresses only
	contents       map[*timeline.Object]*content
	payloadMissing bool                      // a missing payload may have had addresses
	zeros          uint64                    // bytes of the memory that replaces missing payloads
	zeroed         map[*timeline.Object]bool // pinned memory with zeros in place of data
	spareAt        uint64                    // first free address after all allocations, see behind
	mapped         bool                      // the player maps memory at its recorded address
}

func newPointers() pointers {
	return pointers{
		hostReached: map[*timeline.Object]bool{}, copied: map[uint64]operand{}, payloads: map[format.BlobID]uint64{},
		contents: map[*timeline.Object]*content{}, zeroed: map[*timeline.Object]bool{},
	}
}

// reader gives the content of data.
func (p *callCompiler) reader(d *format.Data) (io.Reader, error) {
	if d.Blob == 0 {
		return strings.NewReader(string(d.Bytes)), nil
	}
	r, err := p.r.BlobReader(d.Blob)
	return r, p.inBlob(d, err)
}

func (p *callCompiler) inBlob(d *format.Data, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("call %d %s, payload of parameter %s, blob %d: %w", p.c.Index, p.f.Name, p.paramOf(d).Name, d.Blob, err)
}

// bytes is the content of small data.
func (p *callCompiler) bytes(d *format.Data) ([]byte, error) {
	r, err := p.reader(d)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, p.inBlob(d, err)
}

// content puts what was recorded into the plan's data. Where it may hold device addresses, each 8-byte word that lies
// in a live device allocation gets a relocation; those that the runtime reads are listed for the report.
func (p *callCompiler) content(d *format.Data, addresses bool) (operand, []reloc, error) {
	if at, ok := p.pointers.payloads[d.Blob]; ok {
		return operand{Slot: slotData, Addend: at}, nil, nil
	}
	r, err := p.reader(d)
	if err != nil {
		return operand{}, nil, err
	}
	at, err := p.align()
	if err != nil {
		return operand{}, nil, err
	}
	op := operand{Slot: slotData, Addend: at}
	var relocs []reloc
	suspect, reaches := false, p.reachesHost(d)
	most := uint64(0) // bytes of what is looked for
	if p.paramOf(d).Role != api.Image && p.objects.tokens.byWord != nil {
		most = p.objects.tokens.most
	}
	in := bufio.NewReaderSize(r, int(min(d.Len, 1<<20)))
	for off := uint64(0); off < d.Len; {
		b, err := in.Peek(int(min(d.Len-off, 1<<20)))
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return op, nil, p.inBlob(d, err)
		}
		n := uint64(len(b))
		if off+n < d.Len {
			n = (n - most) &^ 7 // the rest comes again, with what is behind it
		}
		for k := uint64(0); (addresses || most > 0) && k < n && k+8 <= uint64(len(b)); k += 8 {
			w := binary.LittleEndian.Uint64(b[k:])
			if most > 0 {
				if t := p.token(w, b[k:]); t != nil {
					suspect = true
					relocs = append(relocs, p.putToken(t, d, off+k, at)...)
					k += uint64(len(t.bytes)) - 8
					n = max(n, min(k+8, uint64(len(b))))
					continue
				}
			}
			if !addresses || (w < p.pointers.addressed.From || w > p.pointers.addressed.To) && !(reaches && w >= p.pointers.pinned.From && w <= p.pointers.pinned.To) {
				continue
			}
			suspect = true
			if r, ok := p.relocation(d, w, off+k, at); ok {
				relocs = append(relocs, r)
			}
		}
		if err := p.write(b[:n]); err != nil {
			return op, nil, err
		}
		p.data += n
		off += n
		if _, err := in.Discard(int(n)); err != nil {
			return op, nil, p.inBlob(d, err)
		}
	}
	// The end of a payload is where its hash is compared.
	if n, err := in.Read(make([]byte, 1)); n != 0 {
		return op, nil, p.inBlob(d, fmt.Errorf("longer than its %d bytes", d.Len))
	} else if err != io.EOF {
		return op, nil, p.inBlob(d, err)
	}
	// A copy leaves what it reads as it is; argument blocks are patched.
	if role := p.paramOf(d).Role; d.Blob != 0 && !suspect && (role == api.Reads || role == api.Writes) {
		p.pointers.payloads[d.Blob] = at
	}
	return op, relocs, nil
}

// reachesHost reports whether what a call was given are arguments of a kernel of a device which knows the host's memory by the same addresses.
func (p *callCompiler) reachesHost(d *format.Data) bool {
	if p.f.Task != api.Kernel {
		return false
	}
	switch p.paramOf(d).Role {
	case api.Args, api.ArgArray, api.Packed, api.Struct:
		return true
	}
	return false
}

// zeroCopy notes that kernels may use memory of the host's.
func (p *callCompiler) zeroCopy(o *timeline.Object) {
	p.unseen = o
	if !p.pointers.hostReached[o] {
		p.pointers.hostReached[o] = true
		p.doubt(verify.Managed, "kernels may read what the program writes to this memory without a call; only copies of it are in the trace")
	}
}

// relocation is what makes a word an address again, if it is one. A word that comes back from the device and was sent
// there as an address is the same address, even when its allocation is gone by then.
func (p *callCompiler) relocation(d *format.Data, w, off, at uint64) (reloc, bool) {
	q := p.paramOf(d)
	if d.Dir == format.DirOut {
		if op, ok := p.pointers.copied[w]; ok {
			return reloc{At: at + off, Addend: op.Addend, Slot: op.Slot}, true
		}
	}
	o, in, ok := p.state.Find(p.owner(), w)
	if !ok && q.Role != api.Reads && q.Role != api.Writes {
		// An argument may point to the end of an allocation.
		o, in, ok = p.state.FindEnd(p.owner(), w)
	}
	if !ok {
		// Of reserved addresses those without memory count, too.
		o, in, ok = p.state.Reserved(p.owner(), w)
	}
	if !ok || o.Kind.OnHost() && !p.reachesHost(d) {
		return reloc{}, false
	}
	op, ok := p.objects.operands[o]
	if !ok {
		return reloc{}, false
	}
	evidence := ByRange
	if q.Role == api.Args {
		switch a, known := timeline.ArgumentAt(p.layout(), off); {
		case known && a.Level > 0:
			evidence = ByLayout
		case known && a.Kind == kernelbin.General:
			return reloc{}, false // a number, which only looks like an address
		}
	}
	op.Addend += in
	if o.Kind.OnHost() && p.visibleOf(o) == nil {
		p.zeroCopy(o)
	}
	if d.Dir == format.DirIn {
		how := touchNames
		if q.Role == api.Reads {
			p.pointers.copied[w] = op
			how = touchPoints
		}
		p.touch(o, 0, 0, how)
		p.relocated(Relocated{Call: p.c.Index, Func: p.f.Name, Param: q.Name, Item: d.Item, Offset: off, Value: hexWord(w), Allocation: o.Created, At: in, Evidence: evidence})
	}
	return reloc{At: at + off, Addend: op.Addend, Slot: op.Slot}, true
}

// layout is what the binary of the kernel that is launched says of its arguments.
func (p *callCompiler) layout() []kernelbin.Arg {
	if !p.asked {
		p.asked, p.args = true, p.state.Arguments(p.e)
	}
	return p.args
}

func (p *compiler) relocated(r Relocated) {
	p.found.relocations++
	if len(p.found.relocated) < maxListed {
		p.found.relocated = append(p.found.relocated, r)
	}
}

// memoryParam describes the content of host-visible memory, which belongs to no parameter.
var memoryParam = api.Param{Name: "memory", Role: api.Reads}

// paramOf is the parameter that data belongs to.
func (p *callCompiler) paramOf(d *format.Data) *api.Param {
	if d.Param == api.MemoryParam {
		return &memoryParam
	}
	return &p.f.Params[d.Param]
}
