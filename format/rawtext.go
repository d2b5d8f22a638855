package format

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
)

// A trace's lossless text form: every chunk with every independent header field, every
// table with every column in its encoding. Assemble makes the file again. So traces can be written,
// read and changed by people, stored as tests, and made in forms that no writer produces. The packing of a chunk is not part
// of the text. Offsets and sequence numbers are references to chunks, because they depend on the packing.
// Checkpoints, index and end are left out and made again.
//
//	aclt 1.0
//	session 00112233445566778899aabbccddeeff
//	anchor 1700000000000000000 123456789
//	chunk 0 meta lz4 self-contained records 1
//	  json {"uuid":"00112233-4455-6677-8899-aabbccddeeff"}
//	chunk 4 events lz4 self-contained records 2 times 100 250
//	  block 1 0 100
//	  table 1 0 rows 2 width 6
//	    0 const 7
//	    2 for8 50: 50 60
//
// A line that begins with # is a comment.

// WriteText writes the trace as text. Damaged parts are left out, and listed in comments.
func (r *Reader) WriteText(out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<16)
	h := r.file.Header()
	fmt.Fprintf(w, "aclt %d.%d\n", h.Major, h.Minor)
	if h.Compat != 0 {
		fmt.Fprintf(w, "compat %#x\n", h.Compat)
	}
	fmt.Fprintf(w, "session %x\nanchor %d %d\n", h.Session, h.WallNS, h.MonoNS)
	entries := r.file.Entries()
	refs := refs{bySeq: map[uint64]uint64{}, offsets: map[uint64]uint64{}}
	for i := range entries {
		refs.bySeq[entries[i].Seq] = uint64(entries[i].Offset)
		refs.offsets[uint64(entries[i].Offset)] = entries[i].Seq
	}
	var raw, text []byte
	for i := range entries {
		e := &entries[i]
		if e.Type == container.Checkpoint {
			continue
		}
		b, err := r.file.Read(e, raw)
		if container.IgnoreDamage(err) != nil {
			return err
		}
		if err != nil {
			fmt.Fprintf(w, "# chunk %d, %v, is damaged: %v\n", e.Seq, e.Type, err)
			continue
		}
		raw = b
		text = appendChunkHead(text[:0], e)
		text = appendContent(text, e, raw, &refs)
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return w.Flush()
}

// refs maps numbers that refer to chunks.
type refs struct {
	bySeq   map[uint64]uint64 // to offsets
	offsets map[uint64]uint64 // to sequence numbers
}

// of returns a function that writes a column's words as references, nil if they are not references.
func (r *refs) of(t container.Type, kind, field uint64) column.Ref {
	switch {
	case t == container.BlobMap && kind == kindExtents && field == extentChunk:
		return func(x uint64) (string, bool) {
			seq, ok := r.offsets[x]
			return "@" + strconv.FormatUint(seq, 10), ok
		}
	case t == container.Summary && kind == kindChunks && field == chunkSeq:
		return func(x uint64) (string, bool) {
			_, ok := r.bySeq[x]
			return "@" + strconv.FormatUint(x, 10), ok
		}
	}
	return nil
}

func typeText(t container.Type) string {
	if t.Known() {
		return t.String()
	}
	return fmt.Sprintf("type:%d", uint8(t))
}

func parseType(s string) (container.Type, error) {
	if n, ok := strings.CutPrefix(s, "type:"); ok {
		x, err := strconv.ParseUint(n, 10, 8)
		return container.Type(x), err
	}
	for t := container.Meta; t.Known(); t++ {
		if t.String() == s {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%q is no type of chunk", s)
}

func appendChunkHead(dst []byte, e *container.Entry) []byte {
	dst = fmt.Appendf(dst, "chunk %d %s %v", e.Seq, typeText(e.Type), e.Codec)
	if e.Flags&container.Ancillary != 0 {
		dst = append(dst, " ancillary"...)
	}
	if e.Flags&container.SelfContained != 0 {
		dst = append(dst, " self-contained"...)
	}
	if rest := e.Flags &^ (container.Ancillary | container.SelfContained); rest != 0 {
		dst = fmt.Appendf(dst, " flags %#x", uint8(rest))
	}
	if e.Records != 0 {
		dst = fmt.Appendf(dst, " records %d", e.Records)
	}
	if e.TMin != 0 || e.TMax != 0 {
		dst = fmt.Appendf(dst, " times %d %d", e.TMin, e.TMax)
	}
	if e.Dropped != 0 {
		dst = fmt.Appendf(dst, " dropped %d", e.Dropped)
	}
	return append(dst, '\n')
}

// appendContent writes the content in its natural form, or as bytes if that form would lose information.
func appendContent(dst []byte, e *container.Entry, raw []byte, refs *refs) []byte {
	at := len(dst)
	switch e.Type {
	case container.Meta, container.Schema, container.Dict:
		if json.Valid(raw) {
			if utf8.Valid(raw) && !bytes.ContainsFunc(raw, func(r rune) bool { return !unicode.IsGraphic(r) }) {
				return append(append(append(dst, "  json "...), raw...), '\n')
			}
			return append(strconv.AppendQuote(append(dst, "  text "...), string(raw)), '\n')
		}
	case container.Events, container.BlobMap, container.Gap, container.Summary:
		if out, err := appendTables(dst, e.Type, raw, refs); err == nil {
			c := textChunk{typ: e.Type, lines: strings.Split(strings.TrimSuffix(string(out[at:]), "\n"), "\n")}
			again, err := c.content(func(kind, field uint64, ref string) (uint64, error) { return refs.back(e.Type, ref) })
			if err == nil && bytes.Equal(again, raw) {
				return out
			}
			dst = dst[:at]
		}
	}
	const line = 64
	for ; len(raw) > 0; raw = raw[min(line, len(raw)):] {
		dst = fmt.Appendf(dst, "  hex %x\n", raw[:min(line, len(raw))])
	}
	return dst
}

// back resolves a reference to its number.
func (r *refs) back(t container.Type, ref string) (uint64, error) {
	seq, err := parseRef(ref)
	if t == container.BlobMap {
		return r.bySeq[seq], err
	}
	return seq, err
}

func parseRef(s string) (uint64, error) {
	n, ok := strings.CutPrefix(s, "@")
	if !ok {
		return 0, fmt.Errorf("%q is neither a number nor a reference to a chunk", s)
	}
	return strconv.ParseUint(n, 10, 64)
}

func appendTables(dst []byte, t container.Type, raw []byte, refs *refs) ([]byte, error) {
	if t == container.Events {
		version, _, ok := readUvarint(raw)
		first, rest, t0, err := blockHead(raw)
		if !ok || err != nil {
			return dst, errBlock
		}
		dst = fmt.Appendf(dst, "  block %d %d %d\n", version, first, t0)
		raw = rest
	}
	for len(raw) > 0 {
		tb, rest, err := column.NextTable(raw)
		if err != nil {
			return dst, err
		}
		raw = rest
		if tb.Rows > maxBlobSize/extentSize {
			return dst, errBlock
		}
		// References are written word by word; larger columns are written as bytes.
		written := 1024 + 8*uint64(tb.Len())
		dst = fmt.Appendf(dst, "  table %d %d rows %d width %d\n", tb.Kind, tb.ID, tb.Rows, tb.Width)
		for {
			c, ok, err := tb.Next()
			if err != nil {
				return dst, err
			}
			if !ok {
				break
			}
			dst = fmt.Appendf(dst, "    %d ", c.Field)
			if ref := refs.of(t, tb.Kind, c.Field); ref != nil {
				if tb.Rows > written {
					return dst, errBlock
				}
				w := make([]uint64, tb.Rows)
				var d column.Decoder
				if err := d.Words(w, len(w), c); err != nil {
					return dst, err
				}
				dst = column.AppendAuto(dst, w, ref)
			} else if dst, err = column.AppendText(dst, c, int(tb.Rows)); err != nil {
				return dst, err
			}
			dst = append(dst, '\n')
		}
	}
	return dst, nil
}

// A textChunk is a chunk in text form.
type textChunk struct {
	number  uint64 // number in references
	typ     container.Type
	codec   container.Codec
	flags   container.Flags
	records uint32
	dropped uint32
	times   [2]int64
	line    int // line of its head
	lines   []string
}

// content makes the chunk's bytes.
func (c *textChunk) content(resolve func(kind, field uint64, ref string) (uint64, error)) ([]byte, error) {
	var raw []byte
	var enc column.Encoder
	open := false
	var kind, rows uint64
	end := func() {
		if open {
			raw = enc.End()
			open = false
		}
	}
	for i, l := range c.lines {
		fail := func(err error) error { return &lineError{c.line + 1 + i, err} }
		l = strings.TrimSpace(l)
		word, rest, _ := strings.Cut(l, " ")
		switch word {
		case "":
			continue
		case "json":
			raw = append(raw, rest...)
		case "hex":
			b, err := hex.DecodeString(rest)
			if err != nil {
				return nil, fail(err)
			}
			raw = append(raw, b...)
		case "text":
			s, err := strconv.Unquote(rest)
			if err != nil {
				return nil, fail(fmt.Errorf("%s is not a string in quotes", rest))
			}
			raw = append(raw, s...)
		case "block":
			var version, first uint64
			var t0 int64
			if _, err := fmt.Sscanf(rest, "%d %d %d", &version, &first, &t0); err != nil {
				return nil, fail(fmt.Errorf("a block has a version, the index of its first call and a time"))
			}
			raw = binary.AppendVarint(binary.AppendUvarint(binary.AppendUvarint(raw, version), first), t0)
		case "table":
			end()
			var id, width uint64
			if _, err := fmt.Sscanf(rest, "%d %d rows %d width %d", &kind, &id, &rows, &width); err != nil || rows > math.MaxInt32 {
				return nil, fail(fmt.Errorf("a table has a kind, an id, rows and a width"))
			}
			enc.Begin(raw, kind, id, rows, width)
			open = true
		default:
			field, err := strconv.ParseUint(word, 10, 64)
			if err != nil || !open {
				return nil, fail(fmt.Errorf("%q is neither content nor a column of a table", l))
			}
			if err := enc.Text(field, rest, int(rows), func(ref string) (uint64, error) { return resolve(kind, field, ref) }); err != nil {
				return nil, fail(err)
			}
		}
	}
	end()
	return raw, nil
}

// AssembleOptions change Assemble; nil means the zero value.
type AssembleOptions struct {
	Unfinished bool // leave the file as a dying writer would
}

// Assemble makes a trace file from its text. An error names the line; then there is no new file.
func Assemble(in io.Reader, path string, o *AssembleOptions) error {
	if o == nil {
		o = &AssembleOptions{}
	}
	a := assembler{path: path, o: o, entries: map[uint64]container.Entry{}}
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<30)
	n := 0
	var err error
	for err == nil && s.Scan() {
		n++
		if err = a.take(n, s.Text()); err != nil && !errors.As(err, new(*lineError)) {
			err = &lineError{n, err}
		}
	}
	if err == nil {
		err = s.Err()
	}
	if err == nil {
		err = a.flush()
	}
	if err == nil && a.w == nil {
		err = fmt.Errorf("there is no chunk")
	}
	if err != nil || o.Unfinished {
		if a.w != nil {
			_ = a.w.Abort()
			if err != nil && o.Unfinished {
				err = errors.Join(err, os.Remove(path))
			}
		}
		return err
	}
	return a.w.Finish()
}

// A lineError is an error at a line of a text.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

type assembler struct {
	path    string
	o       *AssembleOptions
	header  container.FileHeader
	w       *container.Writer
	chunk   *textChunk
	entries map[uint64]container.Entry // by the number in the text
}

func (a *assembler) take(n int, l string) error {
	trimmed := strings.TrimSpace(l)
	if trimmed == "" || trimmed[0] == '#' {
		return nil
	}
	if l[0] == ' ' {
		if a.chunk == nil {
			return fmt.Errorf("content without a chunk")
		}
		for len(a.chunk.lines) < n-a.chunk.line-1 {
			a.chunk.lines = append(a.chunk.lines, "") // keeps line numbers in errors right
		}
		a.chunk.lines = append(a.chunk.lines, l)
		return nil
	}
	f := strings.Fields(l)
	switch {
	case f[0] == "chunk":
		if err := a.flush(); err != nil {
			return err
		}
		return a.begin(n, f[1:])
	case a.chunk != nil:
		return fmt.Errorf("%q comes before the first chunk", f[0])
	case f[0] == "aclt" && len(f) == 2:
		_, err := fmt.Sscanf(f[1], "%d.%d", &a.header.Major, &a.header.Minor)
		return err
	case f[0] == "session" && len(f) == 2:
		b, err := hex.DecodeString(f[1])
		if err != nil || len(b) != 16 {
			return fmt.Errorf("a session is 32 hexadecimal digits")
		}
		copy(a.header.Session[:], b)
		return nil
	case f[0] == "anchor" && len(f) == 3:
		_, err := fmt.Sscanf(l, "anchor %d %d", &a.header.WallNS, &a.header.MonoNS)
		return err
	case f[0] == "compat" && len(f) == 2:
		x, err := strconv.ParseUint(f[1], 0, 32)
		a.header.Compat = uint32(x)
		return err
	case f[0] == "incompat" && len(f) == 2:
		x, err := strconv.ParseUint(f[1], 0, 32)
		a.header.Incompat = uint32(x)
		return err
	}
	return fmt.Errorf("%q is not known", l)
}

// begin starts a chunk from its head line.
func (a *assembler) begin(n int, f []string) (err error) {
	if len(f) < 3 {
		return fmt.Errorf("a chunk has a number, a type and a codec")
	}
	c := &textChunk{line: n}
	if c.number, err = strconv.ParseUint(f[0], 10, 64); err != nil {
		return err
	}
	if c.typ, err = parseType(f[1]); err != nil {
		return err
	}
	var ok bool
	if c.codec, ok = container.ParseCodec(f[2]); !ok {
		return fmt.Errorf("%q is no codec", f[2])
	}
	number := func(i, bits int) (x int64) {
		if i >= len(f) && err == nil {
			err = fmt.Errorf("%q needs a number", f[i-1])
		}
		if err == nil {
			x, err = strconv.ParseInt(f[i], 0, bits)
		}
		return x
	}
	for i := 3; i < len(f) && err == nil; i++ {
		switch f[i] {
		case "ancillary":
			c.flags |= container.Ancillary
		case "self-contained":
			c.flags |= container.SelfContained
		case "flags":
			i++
			c.flags |= container.Flags(number(i, 16))
		case "records":
			i++
			c.records = uint32(number(i, 64))
		case "dropped":
			i++
			c.dropped = uint32(number(i, 64))
		case "times":
			c.times = [2]int64{number(i+1, 64), number(i+2, 64)}
			i += 2
		default:
			return fmt.Errorf("%q is not known", f[i])
		}
	}
	a.chunk = c
	return err
}

// flush writes the current chunk.
func (a *assembler) flush() error {
	c := a.chunk
	if c == nil {
		return nil
	}
	if a.w == nil {
		var err error
		// No checkpoints: their times depend on the disk, and a text must always make the same file.
		if a.w, err = container.Create(a.path, &a.header, &container.Options{CheckpointBytes: math.MaxInt64, CheckpointChunks: math.MaxInt, Whole: !a.o.Unfinished}); err != nil {
			return err
		}
	}
	raw, err := c.content(func(kind, field uint64, ref string) (uint64, error) {
		n, err := parseRef(ref)
		if err != nil {
			return 0, err
		}
		e, ok := a.entries[n]
		if !ok {
			return 0, fmt.Errorf("%s is no chunk before this one", ref)
		}
		if c.typ == container.BlobMap {
			return uint64(e.Offset), nil
		}
		return e.Seq, nil
	})
	if err != nil {
		return err
	}
	e, err := a.w.Append(&container.Chunk{
		Type: c.typ, Flags: c.flags, Codec: c.codec, TMin: c.times[0], TMax: c.times[1], Records: c.records, Dropped: c.dropped, Raw: raw,
	})
	a.entries[c.number] = e
	return err
}
