package uprobe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// functionTable describes to the BPF programs how to read the arguments of a function and the memory that they point to.
func functionTable(m *api.Model, f *api.Func, arch string) (*function, error) {
	if f.Words > maxWords {
		return nil, fmt.Errorf("%s: %d argument words are too many for a uprobe", f.Name, f.Words)
	}
	t := &function{Words: f.Words, Refer: none, Args: none, Buffer: none, BufferSize: none}
	if f.Composite {
		t.Flags |= funcOuter
	}
	if f.HostCallback {
		t.Flags |= funcCalled
	}
	if err := t.layout(m, f, arch); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	if f.RetVoid {
		t.Flags |= funcRetVoid
	}
	if f.Task == api.Kernel {
		t.Flags |= funcHold
	}
	if f.EntryMark() {
		t.marks(f)
	}
	if f.RetError {
		t.Flags |= funcRetError
	}
	if f.RetWidth <= 4 {
		t.Flags |= funcRet32
	}
	var readers []reader
	for i := range f.Params {
		readers = append(readers, readersOf(f, i)...)
		t.lists(f, i)
		switch f.Params[i].Role {
		case api.File: // to read the file before it changes
			t.Flags |= funcWake
		case api.Callback: // to add probes before it is called
			if !f.HostCallback {
				t.Flags |= funcWake
			}
		}
	}
	if f.Ret == api.Text {
		readers = append(readers, reader{Param: none, Kind: kindString, Flags: readOut, Word: none, Mul0: none, Mul1: none, Pitch: none, Unit: inlineBytes})
	}
	if len(readers) > maxReaders {
		return nil, fmt.Errorf("%s: too many parameters with memory behind them", f.Name)
	}
	block := func(r reader) bool {
		return r.Flags&readEntry != 0 && f.Params[r.Param].Role == api.Args && r.Mul0 != none && r.Mul1 == none
	}
	order := func(r reader) int {
		switch {
		case r.Flags&readEntry == 0:
			return 2
		case block(r):
			return 0
		}
		return 1
	}
	slices.SortStableFunc(readers, func(a, b reader) int { return order(a) - order(b) })
	var pointers []uint8
	for i, r := range readers {
		t.Reader[i] = r
		if r.Kind == kindItems {
			t.Flags |= funcItems
		}
		if r.Flags&readEntry == 0 {
			continue
		}
		if t.Before++; i == 0 && block(r) {
			t.Block = 1
		} else if !slices.Contains(pointers, r.Word) {
			pointers = append(pointers, r.Word)
		}
	}
	switch len(pointers) {
	case 0:
	case 1:
		t.Pointers = [2]uint8{pointers[0], pointers[0]}
	case 2:
		t.Pointers = [2]uint8(pointers)
	default:
		t.Pointers[1] = none
	}
	t.Readers = uint8(len(readers))
	return t, nil
}

// marks describes an entry mark. Marks are passed on together, as launches are.
func (t *function) marks(f *api.Func) {
	t.Flags |= funcHold
	switch f.Operator {
	case api.OperatorPhaseOne:
		t.Mark = markPhaseOne
		for i := range f.Params {
			if p := &f.Params[i]; p.Object == api.Executor {
				t.Args = p.Word
			}
		}
	case api.OperatorPhaseTwo, api.OperatorInner:
		t.Mark = markBegin
	case api.OperatorEnd:
		t.Mark = markEnd
	default:
		t.Mark = markOther
	}
}

// layout assigns argument words to registers and stack, by the processor's calling convention. A structure that does not fit
// the remaining registers goes to the stack whole. After that, x86-64 continues to use registers, and arm64 does not.
func (t *function) layout(m *api.Model, f *api.Func, arch string) error {
	regs, inMemory := 6, func(words int) bool { return words > 2 }
	switch arch {
	case "amd64":
	case "arm64":
		regs = 8
	default:
		return fmt.Errorf("uprobes on %s: %w", arch, ErrNotSupported)
	}
	next, stack := 0, 0
	for i := range f.Params {
		p := &f.Params[i]
		if f.HostCallback && i == 0 {
			t.Mask[p.Word] = lowBytes(8) // the callback's address, which is no argument
			continue
		}
		if p.Type == "float" || p.Type == "double" {
			return fmt.Errorf("parameter %s is not in a general register: %w", p.Name, ErrNotSupported)
		}
		words := int(p.Words)
		large := inMemory(words)
		left := int(p.Width)
		if large && arch == "arm64" {
			// The caller makes a copy and passes its address.
			if t.Refer != none || next >= regs || words > maxPlaces-referred {
				return fmt.Errorf("parameter %s is too large: %w", p.Name, ErrNotSupported)
			}
			t.Refer, t.Referred = uint8(next), uint8(words)
			next++
			for w := range words {
				t.Place[int(p.Word)+w] = uint8(referred + w)
				t.Mask[int(p.Word)+w] = lowBytes(left)
				left -= 8
			}
			continue
		}
		inRegs := !large && next+words <= regs
		if !inRegs && arch == "arm64" {
			next = regs
		}
		for w := range words {
			place := regs + stack
			if inRegs {
				place = next
				next++
			} else {
				stack++
			}
			if place >= maxWords {
				return fmt.Errorf("parameter %s is too far up the stack: %w", p.Name, ErrNotSupported)
			}
			t.Place[int(p.Word)+w] = uint8(place)
			t.Mask[int(p.Word)+w] = lowBytes(left)
			if words > 1 {
				left -= 8
			}
		}
	}
	t.Stack = uint8(stack)
	if !f.HostCallback && t.Refer == none {
		t.Plain = 1
	}
	for i, place := range t.Place[:f.Words] {
		if int(place) != i {
			t.Plain = 0
		}
	}
	return nil
}

// lowBytes returns a mask for the low bytes of a word.
func lowBytes(bytes int) uint64 { return ^uint64(0) >> (64 - 8*min(bytes, 8)) }

// lists describes a call that changes an argument list, whose buffers the program fills before the launch, or that returns a
// kernel.
func (t *function) lists(f *api.Func, i int) {
	switch p := &f.Params[i]; {
	case p.Object == api.Function && (p.Role == api.New || p.Role == api.Find):
		t.Args, t.ArgsHow, t.Buffer = p.Word, argsKernel, p.Word
		for j := range f.Params {
			if q := &f.Params[j]; q.Role == api.Use && (q.Object == api.Binary || q.Object == api.Function) {
				t.Buffer = q.Word
			}
		}
	case p.Object == api.ArgsList && (p.Role == api.New || p.Role == api.Place):
		t.Args, t.ArgsHow = p.Word, t.ArgsHow|argsReset
		if p.Role == api.New {
			t.ArgsHow |= argsStored
		}
	case p.Role == api.Scratch && t.ArgsHow&argsStored != 0, p.Role == api.Buffer:
		// A list that the call allocates has the list's memory as its first buffer. For a list in the program's memory, the calls
		// that fill it are recorded.
		if len(p.Size.Mul) != 1 || p.Size.Unit != 1 {
			return
		}
		if t.Args == none {
			t.Args = f.Params[0].Word
		}
		t.Buffer, t.BufferSize, t.ArgsHow = p.Word, f.Params[p.Size.Mul[0]].Word, t.ArgsHow|argsBuffer
		if p.Role == api.Buffer {
			t.ArgsHow |= argsBufferStored
		}
	}
}

// readersOf describes how to read the memory that a parameter points to, and memory that its structure points to. Input is read
// at the entry, so that it is recorded even if the call never returns. Payloads are read after success.
func readersOf(f *api.Func, i int) []reader {
	p := &f.Params[i]
	var rs []reader
	r, ok := readerOf(f, i)
	if ok {
		rs = append(rs, r)
	}
	switch {
	case !ok && p.Role != api.Struct:
	case p.Role == api.InOut:
		before := r
		before.Flags = readEntry
		rs = append(rs, before)
	case p.Role == api.Struct:
		for _, field := range p.Fields {
			if field.Item == 0 || field.List != 0 || field.If.Size != 0 {
				continue
			}
			if field.Args || field.Packed {
				rs = append(rs, argsReaders(p, &field, i)...)
				continue
			}
			n := reader{Param: uint8(i), Item: uint8(field.Item), Kind: kindBytes, Flags: readEntry, Word: p.Word,
				Mul0: none, Mul1: none, Pitch: none, Unit: field.Unit, At: uint16(field.Offset),
				CountAt: uint16(field.Count.Offset), CountWidth: uint8(field.Count.Size),
				UnlessAt: uint16(field.Unless.Offset), UnlessWidth: uint8(field.Unless.Size)}
			if field.String {
				n.Kind, n.Unit = kindString, inlineBytes
			}
			if field.New {
				n.Flags = readOut
			}
			if n.Flags |= readField; !ok {
				n.Flags |= readValue
			}
			rs = append(rs, n)
		}
		if p.CopyDesc != nil && ok {
			rs = append(rs, blockReader(p, &p.CopyDesc.From, i, api.CopyFrom))
			if f.Graph < 0 { // a graph node copies later, when its graph runs
				to := blockReader(p, &p.CopyDesc.To, i, api.CopyTo)
				to.Flags = readOut
				if f.Stream >= 0 {
					to.Flags |= readLater
				}
				rs = append(rs, to)
			}
		}
	case p.ItemSizes >= 0:
		n := reader{Param: uint8(i), Kind: kindItems, Word: p.Word, Mul0: f.Params[p.ItemCount].Word, Mul1: f.Params[p.ItemSizes].Word, Pitch: none}
		if p.Role == api.Writes {
			n.Flags = readOut
			if f.Stream >= 0 {
				n.Flags |= readLater
			}
		}
		rs = append(rs, n)
	}
	return rs
}

// argsReaders describes how to read kernel arguments that a structure points to. Structures with a tag are not read, since a
// probe can't distinguish their forms.
func argsReaders(p *api.Param, field *api.Field, i int) []reader {
	if field.Tag.Size != 0 || !strings.HasSuffix(p.Type, "*") {
		return nil
	}
	r := reader{Param: uint8(i), Item: uint8(field.Item), Kind: kindPacked, Flags: readEntry | readField, Word: p.Word,
		Mul0: none, Mul1: none, Pitch: none, At: uint16(field.Offset)}
	if field.Packed {
		return []reader{r}
	}
	r.Kind, r.Item = kindParams, api.ArgItems
	var handles []uint16
	for _, f := range p.Fields {
		if f.Object == api.Function && f.Item == 0 {
			handles = append(handles, uint16(f.Offset))
		}
	}
	switch len(handles) {
	case 0:
		return nil
	case 1:
	default:
		r.UnlessAt, r.UnlessWidth = handles[1], 8
	}
	r.CountAt = handles[0]
	return []reader{r}
}

// blockReader describes how to read one end of a copy that a structure describes.
func blockReader(p *api.Param, s *api.CopyEnd, i int, item uint8) reader {
	var at [16]byte
	for n, field := range []uint32{s.Kind, s.Host, s.Device, s.X, s.Y, s.Z, s.Pitch, s.Rows, p.CopyDesc.Width, p.CopyDesc.Height, p.CopyDesc.Depth} {
		if at[n] = none; field != api.NoField {
			at[n] = uint8(field / 8)
		}
	}
	return reader{Param: uint8(i), Item: item, Kind: kindBlock, Word: p.Word, Mul0: none, Mul1: none, Pitch: none,
		Unit: le64(at[:]), At: le16(at[8:]), CountAt: le16(at[10:])}
}

// readerOf describes how to read the memory that a parameter itself points to. It returns false if that can't be read.
func readerOf(f *api.Func, i int) (reader, bool) {
	p := &f.Params[i]
	r := reader{Param: uint8(i), Word: p.Word, Mul0: none, Mul1: none, Pitch: none}
	// sized reports whether the size follows from argument words, or from a value that the call stores.
	sized := func() bool {
		if p.Size.Stored && (len(p.Size.Mul) != 1 || !strings.HasSuffix(f.Params[p.Size.Mul[0]].Type, "*")) {
			return false
		}
		r.Unit = p.Size.Unit
		if len(p.Size.Mul) > 0 {
			r.Mul0 = f.Params[p.Size.Mul[0]].Word
		}
		if len(p.Size.Mul) > 1 {
			r.Mul1 = f.Params[p.Size.Mul[1]].Word
		}
		if p.Size.Stored {
			r.Flags |= readStored
			if strings.HasPrefix(f.Params[p.Size.Mul[0]].Type, "uint32_t") || strings.HasPrefix(f.Params[p.Size.Mul[0]].Type, "int32_t") {
				r.Flags |= readStored32
			}
		}
		if p.Size.Pitch >= 0 {
			r.Pitch = f.Params[p.Size.Pitch].Word
		}
		return true
	}
	switch p.Role {
	case api.Args, api.In, api.Uses:
		if !sized() || p.Size.Stored {
			return r, false
		}
		r.Kind, r.Flags = kindBytes, readEntry
	case api.Image:
		r.Kind = kindImage
	case api.ArgArray:
		of := slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Role == api.Use && p.Object == api.Function })
		if of < 0 {
			return r, false
		}
		r.Kind, r.Flags, r.Mul0 = kindParams, readEntry, f.Params[of].Word
	case api.Packed:
		r.Kind, r.Flags, r.Item = kindPacked, readEntry, 1
	case api.Launch:
		r.Kind, r.Flags = kindBuffers, readEntry
	case api.String, api.File, api.Target:
		r.Kind, r.Flags, r.Unit = kindString, readEntry, inlineBytes
		if f.EntryMark() {
			r.Unit = markName + 1
		}
	case api.List:
		r.Kind, r.Flags, r.Unit = kindList, readEntry, uint64(p.Elem)
	case api.Struct:
		if !strings.HasSuffix(p.Type, "*") {
			return r, false
		}
		r.Kind, r.Flags, r.Unit = kindBytes, readEntry, uint64(p.Elem)
	case api.Answer:
		if p.ItemSizes >= 0 || !sized() {
			return r, false
		}
		r.Kind, r.Flags = kindBytes, r.Flags|readOut
	case api.New, api.Find, api.Buffer, api.Out, api.InOut:
		r.Kind, r.Flags, r.Unit = kindBytes, readOut, uint64(p.Elem)
		if p.Always {
			r.Flags |= readAlways
		}
	case api.Text:
		r.Kind, r.Flags = kindString, readOut
		sized()
	case api.Reads, api.Writes:
		if p.Object == api.Device {
			return r, false
		}
		if p.ItemSizes >= 0 {
			// The array of addresses. Its buffers are items.
			r.Kind, r.Flags, r.Unit = kindBytes, readEntry, 8
			r.Mul0 = f.Params[p.ItemCount].Word
			break
		}
		r.Kind = kindPayload
		sized()
		if p.Hosts.Bits != 0 {
			r.At, r.CountWidth = p.Hosts.Bits, f.Params[p.Hosts.Param].Word+1
		}
		if p.Role == api.Writes {
			r.Flags = readOut
			if f.Stream >= 0 {
				r.Flags |= readLater
			}
		}
	default:
		return r, false
	}
	return r, true
}
