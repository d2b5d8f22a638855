package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// A Source is a trace that is written into another.
type Source struct {
	Reader *Reader
	Time   func(int64) int64     // what a time of it is in the new trace, which never falls while time rises; nil leaves times as they are
	Keep   func(*Call) bool      // which of its calls; nil for all
	Row    func(Process) Process // changes the rows of its processes, as by a rank; nil leaves them
}

// An Appender writes what is in other traces into a new one: calls with their data and payloads, processes, threads and gaps.
// Processes and threads that are the same (host, ids and start) become one. The schemas must have the functions in common that are called.
type Appender struct {
	w       *Writer
	procs   map[procKey]uint32
	threads map[threadKey]uint32
}

type procKey struct {
	host  string
	pid   int
	start int64
}

type threadKey struct {
	process uint32
	tid     int
}

// NewAppender returns what writes to w.
func NewAppender(w *Writer) *Appender {
	return &Appender{w: w, procs: map[procKey]uint32{}, threads: map[threadKey]uint32{}}
}

// Append adds some traces at once: their calls are put in the order of their ends, with the shifts. One Append must not
// add calls that end before those of the one before. Memory grows with the number of payloads, with 16 bytes for each
// call whose data came after it, and not with the number of calls; each trace takes that of one decoded chunk.
func (a *Appender) Append(sources ...*Source) error {
	var from []*appended
	defer func() {
		for _, s := range from {
			s.stop()
		}
	}()
	for _, src := range sources {
		s := &appended{Source: src, a: a, blobs: map[BlobID]BlobID{}}
		if err := s.begin(maxAhead / len(sources)); err != nil {
			return fmt.Errorf("%s: %w", src.Reader.Path(), err)
		}
		from = append(from, s)
	}
	for {
		var first *appended
		for _, s := range from {
			if s.call != nil && (first == nil || s.ends < first.ends) {
				first = s
			}
		}
		if first == nil {
			break
		}
		if err := first.take(); err != nil {
			return fmt.Errorf("%s: %w", first.Reader.Path(), err)
		}
	}
	for _, s := range from {
		if err := s.end(); err != nil {
			return fmt.Errorf("%s: %w", s.Reader.Path(), err)
		}
	}
	return nil
}

// appended is a Source while it is written.
type appended struct {
	*Source
	a       *Appender
	next    func() (*Call, error, bool)
	stop    func()
	call    *Call // the next one to keep, nil at the end
	ends    int64 // when that ends, in the new trace
	threads []uint32
	blobs   map[BlobID]BlobID
	// late are the calls whose data came after them, and to what they became.
	late, to []uint64
}

// dropped stands for a call that was not kept.
const dropped = ^uint64(0)

func (s *appended) begin(ahead int) error {
	s.next, s.stop = iter.Pull2(s.Reader.callsAhead(nil, ahead))
	if err := s.people(); err != nil {
		return err
	}
	for d, err := range s.Reader.Data(&DataFilter{Late: true}) {
		if err != nil {
			return err
		}
		if n := len(s.late); n == 0 || s.late[n-1] != d.Call {
			s.late = append(s.late, d.Call)
		}
	}
	slices.Sort(s.late)
	s.late = slices.Compact(s.late)
	s.to = make([]uint64, len(s.late))
	for i := range s.to {
		s.to[i] = dropped
	}
	return s.advance()
}

// time is what a time of the source is in the new trace.
func (s *appended) time(t int64) int64 {
	if s.Time == nil {
		return t
	}
	return s.Time(t)
}

// people gives the processes and threads their places.
func (s *appended) people() error {
	var procs []uint32
	host := s.Reader.Meta().Host
	for _, p := range s.Reader.Processes() {
		p.Start = s.time(p.Start)
		if p.End != 0 {
			p.End = s.time(p.End)
		}
		if s.Row != nil {
			p = s.Row(p)
		}
		k := procKey{host, p.PID, p.Start}
		at, ok := s.a.procs[k]
		var err error
		if !ok {
			at, err = s.a.w.Process(p)
			s.a.procs[k] = at
		} else if len(p.Maps) > 0 || p.End != 0 {
			err = s.a.w.UpdateProcess(at, p)
		}
		if err != nil {
			return err
		}
		procs = append(procs, at)
	}
	for _, t := range s.Reader.Threads() {
		if int(t.Process) >= len(procs) {
			return fmt.Errorf("thread %d belongs to process %d, which is not in the table", t.TID, t.Process)
		}
		t.Process = procs[t.Process]
		k := threadKey{t.Process, t.TID}
		at, ok := s.a.threads[k]
		if !ok {
			var err error
			if at, err = s.a.w.Thread(t); err != nil {
				return err
			}
			s.a.threads[k] = at
		}
		s.threads = append(s.threads, at)
	}
	return nil
}

// advance goes to the next call to keep.
func (s *appended) advance() error {
	for {
		c, err, ok := s.next()
		switch {
		case !ok:
			s.call = nil
			return nil
		case err != nil:
			return err
		case s.Keep == nil || s.Keep(c):
			s.call, s.ends = c, s.time(c.End)
			return nil
		}
	}
}

func (s *appended) thread(t uint32) (uint32, error) {
	if int(t) >= len(s.threads) {
		return 0, fmt.Errorf("thread %d is not in the table", t)
	}
	return s.threads[t], nil
}

// take writes the call at hand.
func (s *appended) take() error {
	c := *s.call
	old := c.Index
	c.Start, c.End = s.time(c.Start), s.ends
	var err error
	if c.Thread, err = s.thread(c.Thread); err != nil {
		return fmt.Errorf("call %d: %w", old, err)
	}
	c.Data = slices.Clone(c.Data)
	for i := range c.Data {
		if err := s.data(&c.Data[i]); err != nil {
			return fmt.Errorf("call %d: %w", old, err)
		}
	}
	index, err := s.a.w.Call(&c)
	if err != nil {
		return fmt.Errorf("call %d: %w", old, err)
	}
	if i, ok := slices.BinarySearch(s.late, old); ok {
		s.to[i] = index
	}
	return s.advance()
}

// data changes what a piece of data says to what is so in the new trace.
func (s *appended) data(d *Data) error {
	d.Time = s.time(d.Time)
	if d.Blob == 0 {
		return nil
	}
	id, err := s.blob(d.Blob)
	var damage *ErrCorrupt
	if errors.As(err, &damage) {
		d.Status, d.Reason, d.Blob = Missing, FileDamaged, 0
		return nil
	}
	d.Blob, d.Bytes = id, nil
	return err
}

func (s *appended) blob(old BlobID) (BlobID, error) {
	if id, ok := s.blobs[old]; ok {
		return id, nil
	}
	id, err := s.copyBlob(old)
	if errors.Is(err, ErrNotKept) {
		var hash [16]byte
		var size uint64
		if hash, size, _, err = s.Reader.BlobInfo(old); err == nil {
			id, err = s.a.w.Named(binary.LittleEndian.Uint64(hash[:8]), binary.LittleEndian.Uint64(hash[8:]), size)
		}
	}
	if err == nil {
		s.blobs[old] = id
	}
	return id, err
}

func (s *appended) copyBlob(old BlobID) (BlobID, error) {
	r, err := s.Reader.BlobReader(old)
	if err != nil {
		return 0, err
	}
	b := s.a.w.Blobber()
	if _, err := io.Copy(b, r); err != nil {
		b.Abort()
		return 0, err
	}
	return b.Close()
}

// end writes what came late, and the gaps.
func (s *appended) end() error {
	for d, err := range s.Reader.Data(&DataFilter{Late: true}) {
		if err != nil {
			return err
		}
		i, ok := slices.BinarySearch(s.late, d.Call)
		if !ok || s.to[i] == dropped {
			continue
		}
		k := *d
		k.Call, k.Bytes = s.to[i], bytes.Clone(d.Bytes)
		if err := s.data(&k); err != nil {
			return fmt.Errorf("data of call %d: %w", d.Call, err)
		}
		if err := s.a.w.Data(&k); err != nil {
			return fmt.Errorf("data of call %d: %w", d.Call, err)
		}
	}
	for _, g := range slices.Concat(s.Reader.Gaps(), s.Reader.damaged()) {
		g.From, g.To = s.time(g.From), s.time(g.To)
		if g.Thread != NoThread {
			var err error
			if g.Thread, err = s.thread(g.Thread); err != nil {
				return fmt.Errorf("gap: %w", err)
			}
		}
		if err := s.a.w.Gap(g); err != nil {
			return err
		}
	}
	return nil
}
