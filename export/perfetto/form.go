package perfetto

import (
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/internal/grow"
)

// A form is the latest slice-begin event with some name in a sequence. The next event mostly differs only in a few
// numbers with unchanged encoded sizes. Patching those takes half the time that encoding takes.
type form struct {
	event    []byte // with tag and length, and spare capacity
	category scene.Sym
	moment   bool
	flow     bool // ends with a flow id
	flowEnd  bool
	values   []value
}

// A value is an argument's value and its offset in the event.
type value struct {
	scene.Arg
	at   uint16
	size uint8
}

// become patches the event for slice l. It reports false if more than numbers and known texts differ.
func (f *form) become(s *sequence, l *scene.Slice) bool {
	if len(f.event) == 0 || l.Numbered || f.category != l.Category || f.moment != l.Moment || f.flow != (l.Flow != 0) || f.flowEnd != l.FlowEnd || len(f.values) != len(l.Args) {
		return false
	}
	for i := range l.Args {
		a, v := &l.Args[i], &f.values[i]
		if *a == v.Arg {
			continue
		}
		if a.Key != v.Key || a.Kind != v.Kind {
			return false
		}
		if a.Kind == scene.Handle || a.Value >= maxSpread || a.Kind == scene.Text && !s.known[argText].has(uint32(a.Value)) {
			return false
		}
		x, n := spread(a.Value)
		if n != int(v.size) {
			return false
		}
		v.Arg = *a
		at := f.event[v.at : v.at+8]
		binary.LittleEndian.PutUint64(at, binary.LittleEndian.Uint64(at)&^(1<<(8*n)-1)|x)
	}
	if f.flow {
		binary.LittleEndian.PutUint64(f.event[len(f.event)-8:], l.Flow)
	}
	return true
}

// form encodes a slice-begin event.
func (w *writer) form(f *form, s *sequence, l *scene.Slice) {
	f.category, f.moment, f.flow, f.flowEnd = l.Category, l.Moment, l.Flow != 0 && !w.o.GPU, l.FlowEnd
	f.values = f.values[:0]
	b := slices.Grow(f.event[:0], packetSize+maxAnnotation*len(l.Args))
	// The capacity suffices from here on; the put functions do not check it.
	b = b[:cap(b)]
	b[0] = packetTrackEvent
	kind := byte(sliceBegin)
	if l.Moment {
		kind = instant
	}
	b[2], b[3] = eventType, kind
	n := 4
	if l.Numbered {
		w.event = w.scene.AppendName(w.event[:0], l)
		b = putText(b[:n], eventNameText, string(w.event))
		n, b = len(b), slices.Grow(b, packetSize+maxAnnotation*len(l.Args))
		b = b[:cap(b)]
	} else {
		b[n] = eventName
		n = varintAt(b, n+1, uint64(l.Name))
		w.use(s, eventText, l.Name)
	}
	b[n] = eventCategory
	n = varintAt(b, n+1, uint64(l.Category))
	w.use(s, category, l.Category)
	for i := range l.Args {
		a := &l.Args[i]
		w.use(s, argName, a.Key)
		at := n + 1
		k := w.key(a.Key)
		binary.LittleEndian.PutUint64(b[n:], k.head)
		n += int(k.len)
		x := a.Value
		switch a.Kind {
		case scene.Handle:
			b[n] = annotationString
			size := len(w.scene.AppendHandle(b[n+2:n+2], x))
			b[n+1] = byte(size)
			n += 2 + size
			f.values = append(f.values, value{Arg: *a})
			b[at] = byte(n - at - 1)
			continue
		case scene.Text:
			w.use(s, argText, scene.Sym(a.Value))
			binary.LittleEndian.PutUint16(b[n:], textTag)
			n++
		case scene.True:
			b[n] = annotationBool
			x = 1
		case scene.Int:
			b[n] = annotationInt
		case scene.Pointer:
			b[n] = annotationPointer
		default:
			b[n] = annotationUint
		}
		from := n + 1
		n = varintAt(b, from, x)
		f.values = append(f.values, value{Arg: *a, at: uint16(from), size: uint8(n - from)})
		b[at] = byte(n - at - 1)
	}
	switch {
	case l.Flow == 0:
	case w.o.GPU:
		e, correlation := open(b[:n], eventCorrelation)
		n = len(closed(put(e, correlationStage, l.Flow), correlation))
	default:
		tag := uint16(flowTag)
		if l.FlowEnd {
			tag = flowEndTag
		}
		binary.LittleEndian.PutUint16(b[n:], tag)
		binary.LittleEndian.PutUint64(b[n+2:], l.Flow)
		n += 10
	}
	f.event = closed(b[:n], 2)
	if moved := len(f.event) - n; moved > 0 {
		for i := range f.values {
			f.values[i].at += uint16(moved)
		}
	}
}

// maxAnnotation exceeds the size of any annotation.
const maxAnnotation = 64

// Two-byte tags, as little-endian numbers.
const (
	clockTag   = packetClock&0x7f | 0x80 | packetClock>>7<<8
	textTag    = annotationText&0x7f | 0x80 | annotationText>>7<<8
	flowTag    = eventFlow&0x7f | 0x80 | eventFlow>>7<<8
	flowEndTag = eventFlowEnd&0x7f | 0x80 | eventFlowEnd>>7<<8
)

// annotation is the start of an annotation with a name. It is shorter than 128 bytes, so the second byte is its length.
type annotation struct {
	head uint64
	len  uint8
}

func (w *writer) key(y scene.Sym) *annotation {
	k := grow.At(&w.keys, int(y))
	if k.len == 0 {
		var b [16]byte
		k.len = uint8(len(put(append(b[:0], eventAnnotation, 0), annotationName, uint64(y))))
		k.head = binary.LittleEndian.Uint64(b[:])
	}
	return k
}
