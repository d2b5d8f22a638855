package compile

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

func (p *callCompiler) inBlob(d *format.Data, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("call %d %s, payload for parameter %s, blob %d: %w", p.c.Index, p.f.Name, p.a.Param(d).Name, d.Blob, err)
}

// reader returns a payload's content.
func (p *callCompiler) reader(d *format.Data) (io.Reader, error) {
	if d.Blob == 0 {
		return bytes.NewReader(d.Bytes), nil
	}
	r, err := p.r.BlobReader(d.Blob)
	return r, p.inBlob(d, err)
}

// bytes returns a small payload's content. It is read-only and valid until the next call is compiled.
func (p *callCompiler) bytes(d *format.Data) ([]byte, error) {
	if d.Blob == 0 {
		return d.Bytes, nil
	}
	r, err := p.reader(d)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, p.inBlob(d, err)
}

// content adds a payload that the call reads to the plan's data. Each word that is an address for a fact gets a relocation, and the findings list
// it, and the guesses. The relocations are valid until the next call is compiled.
func (p *callCompiler) content(d *format.Data) (plan.Operand, []plan.Reloc, error) {
	return p.scanned(d, access.Input)
}

// expected adds a result to the plan's data. A word that may be an address has a relocation: the replay may have either.
func (p *callCompiler) expected(d *format.Data) (plan.Operand, []plan.Reloc, error) {
	op, relocs, err := p.scanned(d, access.Result)
	slices.SortStableFunc(relocs, func(a, b plan.Reloc) int { return cmp.Compare(a.At, b.At) }) // those of tokens come first
	return op, relocs, err
}

func (p *callCompiler) scanned(d *format.Data, source access.Source) (plan.Operand, []plan.Reloc, error) {
	return p.add(&scan{d: d, q: p.a.Param(d), first: len(p.found), source: source, Scan: p.a.Scan(d, source)})
}

// plain adds a payload that is the same in the replay to the plan's data.
func (p *callCompiler) plain(d *format.Data) (plan.Operand, error) {
	op, _, err := p.add(&scan{d: d, q: p.a.Param(d), first: len(p.found)})
	return op, err
}

func (p *callCompiler) add(s *scan) (plan.Operand, []plan.Reloc, error) {
	d := s.d
	if d.Blob != 0 {
		if at, ok := p.pointers.payloads[d.Blob]; ok {
			return plan.Operand{Slot: plan.SlotData, Addend: at}, nil, nil
		}
	}
	at, err := p.Align()
	if err != nil {
		return plan.Operand{}, nil, err
	}
	op := plan.Operand{Slot: plan.SlotData, Addend: at}
	s.at = at
	if d.Blob == 0 {
		if err := p.inline(s); err != nil {
			return op, nil, err
		}
	} else if err := p.blob(s); err != nil {
		return op, nil, p.inBlob(d, err)
	}
	// Copies do not change their sources, but argument blocks are patched.
	if d.Blob != 0 && (s.Scan == nil || !s.Suspect) && (s.q.Role == api.Reads || s.q.Role == api.Writes) {
		p.pointers.payloads[d.Blob] = at
	}
	return op, slices.Clip(p.found[s.first:]), nil
}

// inline adds a payload that is stored in the call.
func (p *callCompiler) inline(s *scan) error {
	if uint64(len(s.d.Bytes)) != s.d.Len {
		return fmt.Errorf("call %d %s, payload for parameter %s: %d bytes, want %d", p.c.Index, p.f.Name, p.a.Param(s.d).Name, len(s.d.Bytes), s.d.Len)
	}
	p.scanWords(s, s.d.Bytes, s.d.Len)
	return p.Write(s.d.Bytes)
}

// blob adds a payload that is stored as a blob.
func (p *callCompiler) blob(s *scan) error {
	d := s.d
	r, err := p.r.BlobReader(d.Blob)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(r, int(min(d.Len, 1<<20)))
	for off := uint64(0); off < d.Len; {
		b, err := in.Peek(int(min(d.Len-off, 1<<20)))
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		n := uint64(len(b))
		if s.Scan != nil && off+n < d.Len {
			n = (n - s.Ahead) &^ 7 // the rest is read again with the bytes after it
		}
		n = p.scanWords(s, b, n)
		if err := p.Write(b[:n]); err != nil {
			return err
		}
		off += n
		if _, err := in.Discard(int(n)); err != nil {
			return err
		}
	}
	// The reader checks the hash at the payload's end.
	if n, err := in.Read(make([]byte, 1)); n != 0 {
		return fmt.Errorf("longer than its %d bytes", d.Len)
	} else if err != io.EOF {
		return err
	}
	return nil
}

// zeroCopy records that kernels may access a host memory range.
func (p *callCompiler) zeroCopy(o *timeline.Object) {
	if !p.pointers.hostReached[o] {
		p.pointers.hostReached[o] = true
		p.doubt(verify.Managed, "the program may write to this memory without a call, and the trace has only copies")
	}
}

// scanWords handles the words that start in the first n bytes of b, the next piece of the payload. It returns how many bytes are done, more than
// n if a token extends beyond them.
func (p *callCompiler) scanWords(s *scan, b []byte, n uint64) uint64 {
	if s.Scan == nil {
		return n
	}
	n = s.Next(b, n)
	for _, t := range s.Tokens {
		p.found = append(p.found, p.putToken(s, t)...)
	}
	for i := range s.Words {
		if s.source == access.Result {
			p.either(s, &s.Words[i])
		} else {
			p.word(s, &s.Words[i])
		}
	}
	return n
}

// listed reports whether the findings list the words that are rewritten.
func (s *scan) listed() bool {
	return s.source == access.Input || s.d.Param == api.MemoryParam && s.d.Dir == format.DirIn
}

// word adds the relocation of a word that is an address, or lists a word that may be one.
func (p *callCompiler) word(s *scan, w *access.Word) {
	o := w.Object
	op, ok := p.objects.operands.Get(o)
	if !ok {
		return
	}
	op.Addend += w.Offset
	reloc := op.Reloc(s.at + w.At)
	if w.Evidence == access.Guess && !p.o.Guess {
		p.guess(s, w)
		p.guesses = append(p.guesses, reloc)
		return
	}
	if s.listed() {
		if s.q.Role == api.Reads {
			p.pointers.copied[w.Addr] = op
		}
		p.relocated(s.q, s.d.Item, w.At, w.Addr, Target{o.Created, w.Offset}, w.Evidence.String())
	}
	p.found = append(p.found, reloc)
}

// guess lists a word that is not rewritten although it may be an address. Results of the memory that gets the payload are unproved.
func (p *callCompiler) guess(s *scan, w *access.Word) {
	p.Found.GuessesTotal++
	if p.Found.GuessesTotal == 1 {
		p.because(verify.Pointer, fmt.Sprintf("it depends on words that may be addresses: the first is %#x, at byte %d in parameter %s, call %d", w.Addr, w.At, s.q.Name, p.c.Index))
	}
	if len(p.Found.Guesses) < MaxListed {
		p.Found.Guesses = append(p.Found.Guesses, Guess{p.payloadWord(s.q, s.d.Item, w.At, w.Addr), []Target{{w.Object.Created, w.Offset}}})
	}
}

// either adds the relocations that a word of a result may have. If it was sent to the device as an address, it is the same address, even if
// the allocation was freed. Unaligned words must have been sent.
func (p *callCompiler) either(s *scan, w *access.Word) {
	sent, was := p.pointers.copied[w.Addr]
	if was {
		p.found = append(p.found, sent.Reloc(s.at+w.At))
	}
	if w.Object == nil || w.Unaligned {
		return
	}
	op, ok := p.objects.operands.Get(w.Object)
	if op.Addend += w.Offset; ok && (!was || op != sent) {
		p.found = append(p.found, op.Reloc(s.at+w.At))
	}
}
