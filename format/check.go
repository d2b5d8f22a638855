package format

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/format/container"
	"github.com/acltrace/acltrace/internal/human"
)

// CheckOptions change Check; nil means the zero value.
type CheckOptions struct {
	Progress func(done, total int64) // called now and then with bytes of the file, and at the end
}

// A Problem is damage in a file.
type Problem struct {
	File   string // the trace or its blob file
	Offset int64  // offset of the chunk or the damaged place; 0 for the file as a whole
	Chunk  string // type of the chunk, empty if unknown
	Seq    uint64
	What   string
	Remedy string
}

func (p Problem) String() string {
	s := p.What + "; " + p.Remedy
	if p.Chunk != "" {
		return fmt.Sprintf("offset %d, %s chunk %d: %s", p.Offset, p.Chunk, p.Seq, s)
	}
	if p.Offset != 0 {
		return fmt.Sprintf("offset %d: %s", p.Offset, s)
	}
	return s
}

// A CheckReport is the outcome of Check. The file is sound if it has no Problems.
type CheckReport struct {
	UUID     string // of the recording
	Complete bool
	Chunks   int
	Calls    uint64
	Data     uint64
	Blobs    uint64
	Lost     uint64 // payloads that were never written; the file says so, which is no problem
	Bytes    int64  // length of the file and its blob file
	Problems []Problem
	Unknown  map[string]uint64 // skipped parts of a later version; no problem
}

// Check reads all of a trace: every checksum, every block, every payload against its key, and index and summary against the
// chunks. The error is that of Open; damage is in the report.
func Check(path string, opts *CheckOptions) (*CheckReport, error) {
	if opts == nil {
		opts = &CheckOptions{}
	}
	r, err := Open(path, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := checker{r: r, report: &CheckReport{UUID: r.Meta().UUID, Complete: r.Complete(), Chunks: len(r.file.Entries()), Bytes: r.file.Size()}, progress: opts.Progress}
	if err := c.run(); err != nil {
		return nil, err
	}
	if c.progress != nil {
		c.progress(r.file.Size(), r.file.Size())
	}
	return c.report, nil
}

type checker struct {
	r        *Reader
	report   *CheckReport
	progress func(done, total int64)
}

// writerWrong is the remedy for a file that is as it was written, and contradicts itself.
const writerWrong = "report this: the writer was wrong"

func (c *checker) problem(e *container.Entry, what, remedy string) {
	p := Problem{File: c.r.Path(), What: what, Remedy: remedy}
	if e != nil {
		p.Offset, p.Chunk, p.Seq = e.Offset, e.Type.String(), e.Seq
	}
	c.report.Problems = append(c.report.Problems, p)
}

func (c *checker) run() error {
	if err := c.chunks(); err != nil {
		return err
	}
	if err := c.beside(); err != nil {
		return err
	}
	if err := c.blobs(); err != nil {
		return err
	}
	if err := c.totals(); err != nil {
		return err
	}
	if rec := c.r.Recovered(); rec != nil {
		c.cut(c.r.Path(), c.r.file.Size(), rec)
	}
	for _, d := range c.r.Damage() {
		p := Problem{File: d.Path, Offset: d.Offset, What: d.What, Remedy: c.remedy(&d)}
		if d.Chunk != 0 {
			p.Chunk, p.Seq = d.Chunk.String(), d.Seq
		}
		c.report.Problems = append(c.report.Problems, p)
	}
	c.report.Unknown = c.r.Unknown()
	return nil
}

// cut reports a file without an end.
func (c *checker) cut(path string, size int64, rec *Recovery) {
	c.report.Problems = append(c.report.Problems, Problem{
		File:   path,
		Offset: size - rec.LostBytes,
		What:   fmt.Sprintf("%s; %s and %s are lost", rec.Reason, human.Bytes(rec.LostBytes), human.Plural(rec.LostChunks, "chunk")),
		Remedy: human.Plural(rec.Chunks, "whole chunk") + " can be read",
	})
}

// beside reads every chunk of the blob file.
func (c *checker) beside() error {
	f := c.r.BlobFile()
	if f == nil {
		return nil
	}
	if f.Err != nil {
		c.report.Problems = append(c.report.Problems, Problem{
			File: f.Path, What: fmt.Sprintf("the payloads of %s are in this file: %v", c.r.Path(), f.Err),
			Remedy: "put it here, or beside the trace; all else is readable",
		})
		return nil
	}
	c.report.Bytes += f.Size
	c.report.Chunks += len(c.r.blobs.file.Entries())
	if f.Recovered != nil {
		c.cut(f.Path, f.Size, f.Recovered)
	}
	return c.sums(c.r.blobs.file, nil)
}

func (c *checker) remedy(d *ErrCorrupt) string {
	if contentWhole(d) {
		return "nothing is lost"
	}
	switch d.Chunk {
	case container.Events:
		if chunk := c.r.damagedCalls(d); chunk != nil && chunk.misplaced && c.r.unread(chunk) == 0 {
			return "nothing is lost: other chunks have these calls"
		}
		return "the calls of this chunk are lost, all others are readable"
	case container.Gap:
		if slices.Contains(c.r.repeated, d.Offset) {
			return "nothing is lost: the earlier chunk has these gaps"
		}
	case container.Blob, container.BlobMap:
		return "the payloads in this chunk are lost; copy the file again from where it came"
	case container.Meta, container.Schema, container.Dict:
		switch {
		case d.Path != c.r.Path():
			return "nothing is lost: the trace has it"
		case !c.copied(d.Chunk):
			return lostForGood[d.Chunk]
		}
		return "the other copy in the file is used"
	case container.Index, container.End, container.Summary:
		return "nothing is lost; opening takes longer"
	}
	return "copy the file again from where it came"
}

var lostForGood = map[container.Type]string{
	container.Meta:   "no copy is left of what was recorded, where and how; the calls are readable",
	container.Schema: "no copy is left of the names of functions and parameters; ids and words are readable",
	container.Dict:   "rows of processes or threads may be lost; all else is readable",
}

// copied reports if other chunks repeat the content of a type's damaged chunks.
func (c *checker) copied(t container.Type) bool {
	bad := map[uint64]bool{}
	for _, d := range c.r.file.Damage() {
		if d.Chunk == t && !contentWhole(&d) {
			bad[d.Seq] = true
		}
	}
	n, last := 0, uint64(0)
	for i := range c.r.file.Entries() {
		if e := &c.r.file.Entries()[i]; e.Type == t {
			n, last = n+1, e.Seq
		}
	}
	if t == container.Dict {
		// The last one in a complete file repeats all earlier ones.
		return c.r.Complete() && (!bad[last] || n > 1 && len(bad) == 1)
	}
	return len(bad) < n
}

// chunks reads every chunk, and the blocks in events chunks.
func (c *checker) chunks() error {
	b := c.r.block()
	defer release(b)
	event := 0
	return c.sums(c.r.file, func() error {
		event++
		return c.events(b, &c.r.events[event-1])
	})
}

// sums reads every chunk of a file, events chunks with a function.
func (c *checker) sums(file *container.File, events func() error) error {
	var raw []byte
	entries := file.Entries()
	for i := range entries {
		e := &entries[i]
		if c.progress != nil {
			c.progress(e.Offset, file.Size())
		}
		if err := container.IgnoreDamage(file.Padding(e)); err != nil {
			return err
		}
		if e.Type == container.Events && events != nil {
			if err := events(); err != nil {
				return err
			}
			continue
		}
		if out, err := file.Read(e, raw); err == nil {
			raw = out
		} else if err = container.IgnoreDamage(err); err != nil {
			return err
		}
	}
	return container.IgnoreDamage(file.Tail())
}

func (c *checker) events(b *block, chunk *eventChunk) error {
	ok, err := c.r.load(b, chunk, want{columns: AllColumns, whole: true})
	if err != nil || !ok {
		return err
	}
	e := chunk.entry
	if chunk.info.Known && chunk.info.rows != uint64(b.rows) {
		c.problem(e, "summary differs from the block", writerWrong)
	}
	for i := range b.n {
		if k := b.reach(i); b.rowIndex.start[k] < e.TMin || b.rowIndex.end[k] > e.TMax {
			c.problem(e, fmt.Sprintf("call %d lies outside of the times in the header", b.first+uint64(i)), writerWrong)
			break
		}
	}
	c.report.Calls += uint64(b.n)
	c.report.Data += uint64(b.rows)
	for i := range b.rows {
		d := b.datum(i)
		if d.Blob == 0 {
			continue
		}
		if _, err := c.r.blobs.entry(d.Blob); err != nil {
			c.problem(e, fmt.Sprintf("data of call %d names blob %d, which is not in the trace", d.Call, d.Blob), "the payload is lost")
			break
		}
	}
	return nil
}

func (c *checker) blobs() error {
	if err := c.r.blobs.load(); err != nil {
		return err
	}
	var last lostBlobs
	for i := range c.r.blobs.table {
		if !c.r.blobs.table[i].known {
			continue
		}
		c.report.Blobs++
		id := BlobID(i + 1)
		rd, err := c.r.BlobReader(id)
		if err == nil {
			_, err = io.Copy(io.Discard, rd)
		}
		if missing := (*ErrBlobFile)(nil); errors.As(err, &missing) {
			continue // reported already, once for all
		}
		if errors.Is(err, ErrNotWritten) {
			c.report.Lost++
			continue
		}
		if err != nil && !errors.Is(err, ErrNotKept) {
			c.lost(&last, id, err)
		}
	}
	return nil
}

// lostBlobs are consecutive payloads that are unreadable for one reason.
type lostBlobs struct {
	first, last BlobID
	cause       string
}

// lost reports an unreadable payload. Small payloads share a chunk: all payloads of a lost chunk take one line.
func (c *checker) lost(l *lostBlobs, id BlobID, err error) {
	p := Problem{File: c.r.Path(), Remedy: "lost; copy the file again from where it came"}
	cause := strings.TrimPrefix(err.Error(), p.File+": ")
	if d := (*ErrCorrupt)(nil); errors.As(err, &d) {
		p.File, p.Offset, cause = d.Path, d.Offset, d.What
	}
	n := len(c.report.Problems)
	again := l.last+1 == id && l.cause == cause && n > 0 && c.report.Problems[n-1].File == p.File && c.report.Problems[n-1].Offset == p.Offset
	if again {
		n--
		p.What = fmt.Sprintf("blobs %d to %d: %s", l.first, id, cause)
	} else {
		l.first = id
		p.What = fmt.Sprintf("blob %d: %s", id, cause)
	}
	l.last, l.cause = id, cause
	c.report.Problems = append(c.report.Problems[:n], p)
}

// totals compares the summaries with a count.
func (c *checker) totals() error {
	if len(c.r.Damage()) > 0 {
		return nil
	}
	total := sums{}
	if err := c.r.count(total, func(e *eventChunk) bool { return e.counted }); err != nil {
		return err
	}
	if said, counted := c.r.sums.counts(), total.counts(); !reflect.DeepEqual(said, counted) {
		c.problem(nil, fmt.Sprintf("summaries say %d calls, the chunks have %d", said.Calls, counted.Calls), writerWrong)
	}
	return nil
}
