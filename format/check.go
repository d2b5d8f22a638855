package format

import (
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/acltrace/acltrace/format/container"
)

// CheckOptions change what Check does; nil stands for the zero value.
type CheckOptions struct {
	Progress func(done, total int64) // called now and then with bytes of the file
}

// A Problem is something in a file that is not as it was written.
type Problem struct {
	Offset int64
	Chunk  string // type of the chunk, empty when it can't be told
	Seq    uint64
	What   string
	Remedy string
}

func (p Problem) String() string {
	s := fmt.Sprintf("offset %d", p.Offset)
	if p.Chunk != "" {
		s += fmt.Sprintf(", %s chunk %d", p.Chunk, p.Seq)
	}
	return fmt.Sprintf("%s: %s; %s", s, p.What, p.Remedy)
}

// A CheckReport is the outcome of Check. The file is sound when it has no Problems.
type CheckReport struct {
	Complete bool
	Chunks   int
	Calls    uint64
	Data     uint64
	Blobs    uint64
	Bytes    int64 // length of the file
	Problems []Problem
	Unknown  map[string]uint64 // stepped over because it is of a later version; no problem
}

// Check reads all of a trace: every checksum, every block, every payload against its key, and the index and the summary against what they
// describe. The error is that of Open; damage is in the report.
func Check(path string, opts *CheckOptions) (*CheckReport, error) {
	if opts == nil {
		opts = &CheckOptions{}
	}
	r, err := Open(path, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := checker{r: r, report: &CheckReport{Complete: r.Complete(), Chunks: len(r.file.Entries()), Bytes: r.file.Size()}, progress: opts.Progress}
	if err := c.run(); err != nil {
		return nil, err
	}
	return c.report, nil
}

type checker struct {
	r        *Reader
	report   *CheckReport
	progress func(done, total int64)
	next     uint64 // index that the next call should have
}

func (c *checker) problem(e *container.Entry, what, remedy string) {
	p := Problem{What: what, Remedy: remedy}
	if e != nil {
		p.Offset, p.Chunk, p.Seq = e.Offset, e.Type.String(), e.Seq
	}
	c.report.Problems = append(c.report.Problems, p)
}

func (c *checker) run() error {
	if err := c.chunks(); err != nil {
		return err
	}
	if err := c.blobs(); err != nil {
		return err
	}
	if err := c.totals(); err != nil {
		return err
	}
	if rec := c.r.Recovered(); rec != nil {
		c.report.Problems = append(c.report.Problems, Problem{
			Offset: c.r.file.Size() - rec.LostBytes,
			What:   fmt.Sprintf("%s; %d bytes and %d chunks are lost", rec.Reason, rec.LostBytes, rec.LostChunks),
			Remedy: fmt.Sprintf("the %d chunks before are readable as they are", rec.Chunks),
		})
	}
	for _, d := range c.r.Damage() {
		p := Problem{Offset: d.Offset, What: d.What, Remedy: remedy(d.Chunk)}
		if d.Chunk != 0 {
			p.Chunk, p.Seq = d.Chunk.String(), d.Seq
		}
		c.report.Problems = append(c.report.Problems, p)
	}
	c.report.Unknown = c.r.Unknown()
	return nil
}

func remedy(t container.Type) string {
	switch t {
	case container.Events:
		return "the calls of this chunk are lost, all others are readable"
	case container.Blob, container.BlobMap:
		return "the payloads in this chunk are lost; copy the file again from where it came"
	case container.Meta, container.Schema, container.Dict:
		return "the other copy in the file is used"
	case container.Index, container.End, container.Summary:
		return "nothing is lost; opening takes longer"
	}
	return "copy the file again from where it came"
}

// chunks reads every chunk, and the blocks in those of events.
func (c *checker) chunks() error {
	var raw []byte
	b := c.r.block()
	defer c.r.release(b)
	event := 0
	entries := c.r.file.Entries()
	for i := range entries {
		e := &entries[i]
		if c.progress != nil {
			c.progress(e.Offset, c.r.file.Size())
		}
		if err := ignoreDamage(c.r.file.Padding(e)); err != nil {
			return err
		}
		if e.Type == container.Events {
			if err := c.events(b, &c.r.events[event]); err != nil {
				return err
			}
			event++
			continue
		}
		out, err := c.r.file.Read(e, raw)
		if err == nil {
			raw = out
		} else if !damaged(err) {
			return err
		}
	}
	return ignoreDamage(c.r.file.Tail())
}

func (c *checker) events(b *block, chunk *eventChunk) error {
	ok, err := c.r.load(b, chunk, want{columns: AllColumns, whole: true})
	if err != nil || !ok {
		return err
	}
	e := chunk.entry
	if uint32(b.n) != e.Records {
		c.problem(e, fmt.Sprintf("header says %d calls, the block has %d", e.Records, b.n), "report this: the writer was wrong")
	}
	if b.n > 0 && b.first < c.next {
		c.problem(e, fmt.Sprintf("calls from %d on are in the file twice", b.first), "report this: the writer was wrong")
	}
	if b.n > 0 {
		c.next = b.first + uint64(b.n)
	}
	if chunk.info.Known && (chunk.info.First != b.first || chunk.info.rows != uint64(b.rows)) {
		c.problem(e, "summary differs from the block", "report this: the writer was wrong")
	}
	for i := range b.n {
		if k := b.reach(i); b.ties.start[k] < e.TMin || b.ties.end[k] > e.TMax {
			c.problem(e, fmt.Sprintf("call %d lies outside of the times in the header", b.first+uint64(i)), "report this: the writer was wrong")
			break
		}
	}
	c.report.Calls += uint64(b.n)
	c.report.Data += uint64(b.rows)
	var d Data
	for i := range b.rows {
		b.arena = b.arena[:0]
		b.datum(&d, i)
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
		if err != nil && !errors.Is(err, ErrNotKept) {
			c.problem(nil, fmt.Sprintf("blob %d: %v", id, err), "the payload is lost; copy the file again from where it came")
		}
	}
	return nil
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
		c.problem(nil, fmt.Sprintf("summaries say %d calls, the chunks have %d", said.Calls, counted.Calls), "report this: the writer was wrong")
	}
	return nil
}
