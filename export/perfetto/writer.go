package perfetto

import (
	"encoding/binary"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/grow"
)

// A writer turns slices and points into packets. Each row and counter has its own packet sequence with a default track
// and an incremental clock, so most packets hold little more than their event.
type writer struct {
	meta   *format.Meta
	o      Options
	scene  *scene.Scene
	create func(part int) (io.WriteCloser, error)
	out    *output
	res    Result

	b        []byte       // packets not compressed yet
	event    []byte       // current event
	field    [16]byte     // its tag and length
	fresh    []byte       // texts that the current slice interns
	keys     []annotation // by Sym
	rows     []*sequence
	counters []*sequence
	uuids    uint64
	procs    map[int]*track
	groups   map[[2]int]*track
}

// A sequence is a file's state for one row or counter.
type sequence struct {
	id    uint64
	head  []byte // bytes that start every packet
	track track
	row   *scene.Row
	count *scene.Counter
	last  int64
	open  []int64 // when each open slice ends
	value float64 // counters only
	known [internedKinds]set
	forms []form // by slice name
}

// A track has a permanent number, and a description in each file that uses it.
type track struct {
	uuid uint64
	file int
}

type set []uint64

// has reports whether the number is in the set.
func (s set) has(n uint32) bool { return int(n/64) < len(s) && s[n/64]&(1<<(n%64)) != 0 }

// add adds a number and reports whether it was new.
func (s *set) add(n uint32) bool {
	w, bit := grow.At(s, int(n/64)), uint64(1)<<(n%64)
	is := *w&bit == 0
	*w |= bit
	return is
}

// firstSequence is the sequence for descriptions.
const firstSequence = 1

func (w *writer) begin() error {
	w.procs, w.groups = map[int]*track{}, map[[2]int]*track{}
	return w.file()
}

// file begins the next file.
func (w *writer) file() error {
	w.res.Files++
	f, err := w.create(w.res.Files)
	if err != nil {
		return err
	}
	w.out = newOutput(f, w.o.Zstd, w.o.MaxSize)
	m := w.meta
	b, packet := open(w.b[:0], tracePacket)
	b = put(b, packetSequence, firstSequence)
	b, snapshot := open(b, packetClockSnapshot)
	b = clock(b, clockBoottime, 0, false)
	b = clock(b, clockRealtime, uint64(max(m.StartWall, 0)), false)
	b = clock(b, clockMonotonic, uint64(max(m.StartMono, 0)), false)
	b = put(b, snapshotPrimary, clockBoottime)
	w.b = closed(closed(b, snapshot), packet)
	if w.o.GPU {
		w.gpus()
	}
	return nil
}

func clock(b []byte, id, at uint64, increment bool) []byte {
	b, c := open(b, snapshotClock)
	b = put(put(b, clockID, id), clockTime, at)
	if increment {
		b = put(b, clockIncrement, 1)
	}
	return closed(b, c)
}

// end ends all slices and the file.
func (w *writer) end() error {
	if w.out == nil {
		return nil
	}
	for _, s := range w.rows {
		if s != nil && s.track.file == w.res.Files {
			w.close(s, math.MaxInt64)
		}
	}
	w.b = w.out.block(w.b)
	n, err := w.out.close()
	w.out = nil
	w.res.Bytes += n
	return err
}

// room starts the next file if this one is full, and passes full blocks on for compression.
func (w *writer) room(now int64) error {
	if w.o.MaxSize > 0 && w.out.size()+int64(len(w.b))+w.closing() > w.o.MaxSize {
		if err := w.end(); err != nil {
			return err
		}
		if err := w.file(); err != nil {
			return err
		}
		for _, s := range w.counters {
			if s != nil && s.value != 0 {
				if err := w.Point(s.count, max(now, s.last), s.value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// closing is the space to end all open slices and to write one slice with its task.
func (w *writer) closing() int64 { return int64(len(w.rows))*32 + 8<<10 }

func (w *writer) flush() error {
	if len(w.b) >= w.out.blockSize {
		w.b = w.out.block(w.b)
		return w.out.failed()
	}
	return nil
}

// process describes a process and returns its track.
func (w *writer) process(p int) uint64 {
	t := w.procs[p]
	if t == nil {
		t = w.newTrack()
		w.procs[p] = t
	}
	if t.file != w.res.Files {
		t.file = w.res.Files
		row := &w.scene.Processes[p]
		b, packet := w.describe(t.uuid)
		b, process := open(b, trackProcess)
		b = put(b, processPID, uint64(w.scene.PID(p)))
		for i, v := range row.Argv {
			if i == maxArgs {
				break
			}
			b = putText(b, processCommand, valid(v[:min(len(v), 4096)]))
		}
		b = putText(b, processName, w.scene.ProcessName(p))
		w.described(closed(b, process), packet)
	}
	return t.uuid
}

// maxArgs limits the command line.
const maxArgs = 64

func (w *writer) newTrack() *track {
	w.uuids++
	return &track{uuid: w.uuids}
}

// describe begins a track description with two open messages, for described to close.
func (w *writer) describe(uuid uint64) ([]byte, [2]int) {
	b, packet := open(w.b, tracePacket)
	b = put(b, packetSequence, firstSequence)
	b, descriptor := open(b, packetTrack)
	return put(b, trackUUID, uuid), [2]int{packet, descriptor}
}

func (w *writer) described(b []byte, at [2]int) { w.b = closed(closed(b, at[1]), at[0]) }

// group describes a process's device and returns its track.
func (w *writer) group(process, device int) uint64 {
	k := [2]int{process, device}
	t := w.groups[k]
	if t == nil {
		t = w.newTrack()
		w.groups[k] = t
	}
	if t.file != w.res.Files {
		parent := w.process(process)
		t.file = w.res.Files
		b, at := w.describe(t.uuid)
		b = putText(b, trackName, w.scene.DeviceName(device))
		b = put(b, trackParent, parent)
		w.described(put(b, trackOrdering, orderExplicit), at)
	}
	return t.uuid
}

func (w *writer) sequence(list *[]*sequence, id int) *sequence {
	at := grow.At(list, id)
	if *at == nil {
		s := &sequence{track: *w.newTrack()}
		s.id = firstSequence + s.track.uuid
		s.head = put(nil, packetSequence, s.id)
		*at = s
	}
	return *at
}

// start begins a sequence in this file: track, clock and defaults.
func (w *writer) start(s *sequence, now int64) {
	s.track.file, s.last, s.open = w.res.Files, now, s.open[:0]
	for i := range s.known {
		clear(s.known[i])
	}
	clear(s.forms)
	switch r := s.row; {
	case s.count != nil:
		parent := w.group(s.count.Process, s.count.Device)
		b, at := w.describe(s.track.uuid)
		b = put(putText(b, trackName, s.count.Name), trackParent, parent)
		b, counter := open(b, trackCounter)
		switch s.count.Unit {
		case scene.Bytes:
			b = put(b, counterUnit, unitBytes)
		case scene.BytesPerSecond:
			b = putText(b, counterName, "B/s")
		default:
			b = put(b, counterUnit, unitCount)
		}
		w.described(put(closed(b, counter), trackRank, uint64(10_000+s.count.ID)), at)
	case r.Kind == scene.Host && r.N == 0:
		parent := w.process(r.Process)
		th := &w.scene.Threads[r.Thread]
		tid := th.TID
		if tid <= 0 {
			tid = 1<<30 + r.Thread
		}
		b, at := w.describe(s.track.uuid)
		b = put(b, trackParent, parent)
		b, thread := open(b, trackThread)
		b = put(put(b, threadPID, uint64(w.scene.PID(r.Process))), threadTID, uint64(tid))
		if th.Name != "" {
			b = putText(b, threadName, valid(th.Name))
		}
		w.described(closed(b, thread), at)
	case r.Lane >= 0 && w.o.GPU: // a queue, not a track
	case r.Lane >= 0:
		parent := w.group(r.Process, r.Device)
		b, at := w.describe(s.track.uuid)
		b = put(putText(b, trackName, r.Name), trackParent, parent)
		rank := r.Lane * 4
		if r.Kind == scene.Bracketed {
			rank += 2
		}
		if r.Moments {
			rank++
		}
		w.described(put(b, trackRank, uint64(rank)), at)
	default:
		var parent uint64
		if r.Kind != scene.Lost {
			parent = w.process(r.Process)
		}
		b, at := w.describe(s.track.uuid)
		b = putText(b, trackName, r.Name)
		if parent != 0 {
			b = put(b, trackParent, parent)
		}
		w.described(b, at)
	}
	b, packet := open(w.b, tracePacket)
	b = put(put(b, packetSequence, s.id), packetFlags, stateCleared)
	b, snapshot := open(b, packetClockSnapshot)
	b = clock(b, clockBoottime, uint64(now), false)
	b = clock(b, clockOwn, uint64(now), true)
	b = closed(b, snapshot)
	b, defaults := open(b, packetDefaults)
	b = put(b, defaultsClock, clockOwn)
	b, event := open(b, defaultsEvent)
	b = put(b, defaultsTrack, s.track.uuid)
	w.b = closed(closed(closed(b, event), defaults), packet)
}

// packet adds a packet with an event and the texts to intern.
func (w *writer) packet(s *sequence, field uint32, at int64, interned, event []byte) {
	w.b = slices.Grow(w.b, packetSize)
	b, packet := open(w.b, tracePacket)
	b = append(b, s.head...)
	b = b[:stamp(b[:cap(b)], len(b), s, at)]
	b = append(append(b, interned...), put(w.field[:0], field, uint64(len(event)))...)
	w.b = closed(append(b, event...), packet)
}

// packetSize exceeds a packet's size without its event, including a longer length field.
const packetSize = 128

// stamp writes a packet's time.
func stamp(b []byte, n int, s *sequence, at int64) int {
	b[n] = packetTimestamp
	if at >= s.last {
		n = varintAt(b, n+1, uint64(at-s.last))
		s.last = at
		return n
	}
	n = varintAt(b, n+1, uint64(at))
	binary.LittleEndian.PutUint16(b[n:], clockTag)
	b[n+2] = clockBoottime
	return n + 3
}

// close ends a row's slices up to a moment.
func (w *writer) close(s *sequence, now int64) {
	for n := len(s.open); n > 0 && s.open[n-1] <= now; n-- {
		w.small(s, s.open[n-1], ended)
		s.open = s.open[:n-1]
	}
}

// ended is the slice-end event.
var ended = put(nil, eventType, sliceEnd)

// small is packet for an event with a few bytes.
func (w *writer) small(s *sequence, at int64, event []byte) {
	w.b = slices.Grow(w.b, packetSize)
	from := len(w.b)
	b := w.b[:cap(w.b)]
	b[from] = tracePacket
	n := from + 2
	n += copy(b[n:], s.head)
	n = stamp(b, n, s, at)
	b[n], b[n+1] = packetTrackEvent, byte(len(event))
	n += 2
	n += copy(b[n:], event)
	b[from+1] = byte(n - from - 2)
	w.b = b[:n]
}

// Slice implements scene.Viewer.
func (w *writer) Slice(l *scene.Slice) error {
	from, to := max(l.From, 0), max(l.To, 0)
	if l.Task == nil {
		if err := w.room(from); err != nil {
			return err
		}
	}
	s := w.sequence(&w.rows, l.Row.ID)
	if s.track.file != w.res.Files {
		s.row = l.Row
		w.start(s, from)
	}
	if w.o.GPU && l.Row.Lane >= 0 {
		return w.stage(s, l)
	}
	w.close(s, from)
	f := grow.At(&s.forms, int(l.Name))
	w.fresh = w.fresh[:0]
	if !f.become(s, l) {
		w.form(f, s, l)
	}
	w.b = slices.Grow(w.b, packetSize+len(f.event)+len(w.fresh))
	b := w.b[:cap(w.b)]
	packet := len(w.b) + 2
	b[packet-2] = tracePacket
	n := packet + copy(b[packet:], s.head)
	n = stamp(b, n, s, from)
	n += copy(b[n:], f.event)
	b = b[:n]
	if len(w.fresh) > 0 {
		b = append(put(b, packetInterned, uint64(len(w.fresh))), w.fresh...)
	}
	w.b = closed(b, packet)
	if !l.Moment {
		s.open = append(s.open, to)
	}
	return w.flush()
}

// use interns a text that is new to the sequence.
func (w *writer) use(s *sequence, kind interned, y scene.Sym) {
	if s.known[kind].add(uint32(y)) {
		w.fresh = w.internText(w.fresh, kind, y)
	}
}

func (w *writer) internText(b []byte, kind interned, y scene.Sym) []byte {
	b, entry := open(b, internedField[kind])
	return closed(putText(put(b, internedID, uint64(y)), internedText, w.scene.Text(y)), entry)
}

// Point implements scene.Viewer.
func (w *writer) Point(c *scene.Counter, at int64, value float64) error {
	s := w.sequence(&w.counters, c.ID)
	at = max(at, 0)
	if s.track.file != w.res.Files {
		s.count = c
		w.start(s, at)
	}
	s.value = value
	e := append(w.event[:0], eventType, counterPoint)
	if whole := int64(value); float64(whole) == value {
		e = put(e, eventCounter, uint64(whole))
	} else {
		e = putFixed(e, eventDouble, math.Float64bits(value))
	}
	w.event = e
	w.small(s, at, e)
	return w.flush()
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
