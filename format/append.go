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

// A Source is a trace to be written into another one.
type Source struct {
	Reader *Reader
	Time   func(int64) int64     // converts its times to the new trace's, never descending; nil keeps them
	Keep   func(*Call) bool      // selects its calls; nil for all
	Of     func(uint32) bool     // selects its processes by index, with their threads, calls and gaps; nil for all
	Row    func(Process) Process // changes its process rows, for example by rank; nil keeps them
	NoGaps bool                  // leave out its gaps
}

// An Appender writes the contents of other traces into a new one: calls with their data and payloads, processes, threads and gaps.
// Equal processes and threads (host, ids and start) become one. The schemas must agree on all called functions.
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

// NewAppender returns an Appender that writes to w.
func NewAppender(w *Writer) *Appender {
	return &Appender{w: w, procs: map[procKey]uint32{}, threads: map[threadKey]uint32{}}
}

// Append adds several traces at once: their calls are ordered by their ends, after the time conversion. A later Append must not
// add calls that end before the previous Append's. Memory grows with the number of payloads, and by 16 bytes for each
// call with later data, and not with the number of calls. Each trace needs one decoded chunk, and all together up to maxAhead more.
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

// appended is a Source while it is being written.
type appended struct {
	*Source
	a       *Appender
	next    func() (*Call, error, bool)
	stop    func()
	call    *Call // next call to keep, nil at the end
	ends    int64 // its end in the new trace
	threads []uint32
	blobs   map[BlobID]BlobID
	// late maps calls with later data to their indexes in the new trace.
	late, to []uint64
}

// left is the index of a process or a thread that was not selected.
const left = ^uint32(0)

// dropped is the index of a call that was not kept.
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

// time converts a time of the source to the new trace's.
func (s *appended) time(t int64) int64 {
	if s.Time == nil {
		return t
	}
	return s.Time(t)
}

// people assigns indexes to the processes and threads.
func (s *appended) people() error {
	var procs []uint32
	host := s.Reader.Meta().Host
	for i, p := range s.Reader.Processes() {
		if s.Of != nil && !s.Of(uint32(i)) {
			procs = append(procs, left)
			continue
		}
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
		if t.Process = procs[t.Process]; t.Process == left {
			s.threads = append(s.threads, left)
			continue
		}
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

// advance moves to the next call to keep.
func (s *appended) advance() error {
	for {
		c, err, ok := s.next()
		switch {
		case !ok:
			s.call = nil
			return nil
		case err != nil:
			return err
		case int(c.Thread) < len(s.threads) && s.threads[c.Thread] == left:
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

// take writes the current call, and moves to the next one.
func (s *appended) take() error {
	if err := s.write(*s.call); err != nil {
		return fmt.Errorf("call %d: %w", s.call.Index, err)
	}
	return s.advance()
}

func (s *appended) write(c Call) (err error) {
	late, isLate := slices.BinarySearch(s.late, c.Index)
	c.Start, c.End = s.time(c.Start), s.ends
	if c.Thread, err = s.thread(c.Thread); err != nil {
		return err
	}
	c.Data = slices.Clone(c.Data)
	for i := range c.Data {
		if err := s.data(&c.Data[i]); err != nil {
			return err
		}
	}
	if _, err = s.a.w.Call(&c); err == nil && isLate {
		s.to[late] = c.Index
	}
	return err
}

// data converts a piece of data for the new trace.
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

// TablesOf appends the processes and threads of another trace.
func (w *Writer) TablesOf(r *Reader) error {
	for _, p := range r.Processes() {
		if _, err := w.Process(p); err != nil {
			return err
		}
	}
	for _, t := range r.Threads() {
		if _, err := w.Thread(t); err != nil {
			return err
		}
	}
	return nil
}

// NamedLike adds the hash and the size of another trace's payload, see Named.
func (w *Writer) NamedLike(r *Reader, id BlobID) (BlobID, error) {
	hash, size, _, err := r.BlobInfo(id)
	if err != nil {
		return 0, err
	}
	return w.Named(binary.LittleEndian.Uint64(hash[:8]), binary.LittleEndian.Uint64(hash[8:]), size)
}

func (s *appended) blob(old BlobID) (BlobID, error) {
	if id, ok := s.blobs[old]; ok {
		return id, nil
	}
	id, err := s.copyBlob(old)
	if errors.Is(err, ErrNotKept) {
		id, err = s.a.w.NamedLike(s.Reader, old)
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

// end writes late data and the gaps.
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
	if s.NoGaps {
		return nil
	}
	for _, g := range slices.Concat(s.Reader.Gaps(), s.Reader.damaged()) {
		g.From, g.To = s.time(g.From), s.time(g.To)
		if g.Thread != NoThread {
			var err error
			if g.Thread, err = s.thread(g.Thread); err != nil {
				return fmt.Errorf("gap: %w", err)
			}
			if g.Thread == left {
				continue
			}
		}
		if err := s.a.w.Gap(g); err != nil {
			return err
		}
	}
	return nil
}
