package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/format"
)

// A mutator makes damaged variants of real traces. A quarter have changed bytes. Most are well-formed files made from a
// changed text form. The same seed and traces give the same variants.
type mutator struct {
	rnd   *rand.Rand
	bases []mutantBase
}

type mutantBase struct {
	name  string
	file  []byte
	lines []string
	edit  []int  // lines with columns, tables and blocks
	json  []int  // lines with META, SCHEMA and DICT
	chunk []span // lines of each chunk
	calls []int  // indexes of EVENTS chunks
}

// span is a range of lines.
type span struct{ from, to int }

// hostileWords are values that programs often handle wrongly.
var hostileWords = []uint64{
	0, 1, 2, 3, 7, 64, 255, 256, 4096, 65535, 65536, 1 << 20, 1 << 24, 1 << 30, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40, 1 << 47, 1 << 62, 1<<63 - 1, 1 << 63,
	1<<64 - 1, deviceAt,
}

var number = regexp.MustCompile(`\b(0x[0-9a-f]+|\d+)\b`)

// newMutator reads the traces.
func newMutator(seed uint64, paths []string) (*mutator, error) {
	m := &mutator{rnd: rand.New(rand.NewPCG(seed, 2))}
	for _, path := range paths {
		b, err := readBase(path)
		if err != nil {
			return nil, err
		}
		m.bases = append(m.bases, b)
	}
	return m, nil
}

func readBase(path string) (mutantBase, error) {
	b := mutantBase{name: path}
	var err error
	if b.file, err = os.ReadFile(path); err != nil {
		return b, err
	}
	r, err := format.Open(path, nil)
	if err != nil {
		return b, err
	}
	defer r.Close()
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		return b, err
	}
	b.lines = strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	for i, l := range b.lines {
		switch {
		case strings.HasPrefix(l, "chunk "):
			if n := len(b.chunk); n > 0 {
				b.chunk[n-1].to = i
			}
			if strings.Contains(l, " events ") {
				b.calls = append(b.calls, len(b.chunk))
			}
			b.chunk = append(b.chunk, span{i, len(b.lines)})
		case strings.HasPrefix(l, "  json "):
			b.json = append(b.json, i)
		case strings.HasPrefix(l, "  ") && len(l) < 4000:
			b.edit = append(b.edit, i)
		}
	}
	return b, nil
}

// Next writes a variant to path and returns the names of its base and its changes. ok is false if the changed text is not a trace.
func (m *mutator) Next(path string) (what string, ok bool, err error) {
	b := &m.bases[m.rnd.IntN(len(m.bases))]
	if m.rnd.IntN(4) == 0 {
		file, what := m.bytes(b)
		return what, true, os.WriteFile(path, file, 0o600)
	}
	text, what := m.text(b)
	if err := format.Assemble(strings.NewReader(text), path, nil); err != nil {
		return what, false, nil
	}
	return what, true, nil
}

// bytes flips, cuts, swaps, repeats and splices bytes in a file.
func (m *mutator) bytes(b *mutantBase) ([]byte, string) {
	file, what := bytes.Clone(b.file), b.name
	for range 1 + m.rnd.IntN(3) {
		at, n := m.piece(len(file))
		piece := bytes.Clone(file[at : at+n])
		switch op := m.rnd.IntN(6); op {
		case 0, 1:
			what += " flip"
			if len(file) > 0 {
				file[m.rnd.IntN(len(file))] ^= 1 << m.rnd.IntN(8)
			}
		case 2:
			what += " cut"
			file = append(file[:at], file[at+n:]...)
		case 3:
			what += " swap"
			to, k := m.piece(len(file))
			k = min(k, n)
			copy(file[at:at+k], file[to:to+k])
			copy(file[to:to+k], piece)
		case 4:
			what += " repeat"
			file = append(file[:at+n], append(piece, file[at+n:]...)...)
		case 5:
			other := &m.bases[m.rnd.IntN(len(m.bases))]
			what += " splice " + other.name
			from, k := m.piece(len(other.file))
			file = append(file[:at], append(bytes.Clone(other.file[from:from+k]), file[at+n:]...)...)
		}
	}
	return file, what
}

// piece returns a random range below a length, usually a short one.
func (m *mutator) piece(length int) (at, n int) {
	if length == 0 {
		return 0, 0
	}
	at = m.rnd.IntN(length)
	n = 1 + m.rnd.IntN(64)
	if m.rnd.IntN(4) == 0 {
		n = 1 + m.rnd.IntN(length)
	}
	return at, min(n, length-at)
}

// text flips, cuts, swaps, repeats and splices lines and whole chunks in the text form.
func (m *mutator) text(b *mutantBase) (string, string) {
	lines, what := append([]string(nil), b.lines...), b.name
	for range []int{1, 1, 2, 3, 8}[m.rnd.IntN(5)] {
		i, j := m.one(b.edit), m.one(b.edit)
		switch op := m.rnd.IntN(16); op {
		case 0:
			what += fmt.Sprintf(" cut %d", i)
			lines[i] = ""
		case 1:
			what += fmt.Sprintf(" repeat %d at %d", j, i)
			lines[i] += "\n" + b.lines[j]
		case 2:
			what += fmt.Sprintf(" swap %d with %d", i, j)
			lines[i], lines[j] = lines[j], lines[i]
		case 3:
			if c := m.oneChunk(b); m.rnd.IntN(3) == 0 {
				what += fmt.Sprintf(" cut chunk %d", c)
				clear(lines[b.chunk[c].from:b.chunk[c].to])
			}
		case 4:
			other := &m.bases[m.rnd.IntN(len(m.bases))]
			k := m.one(other.edit)
			what += fmt.Sprintf(" splice %d of %s at %d", k, other.name, i)
			lines[i] = other.lines[k]
		case 5:
			other, c := b, m.oneChunk(b)
			if m.rnd.IntN(2) == 0 {
				other = &m.bases[m.rnd.IntN(len(m.bases))]
				c = m.oneChunk(other)
			}
			at := m.rnd.IntN(len(b.chunk))
			what += fmt.Sprintf(" import chunk %d of %s after %d", c, other.name, at)
			lines[b.chunk[at].to-1] += "\n" + other.text(c)
		case 6:
			c, d := m.oneChunk(b), m.oneChunk(b)
			what += fmt.Sprintf(" swap chunk %d with %d", c, d)
			b.replace(lines, c, b.text(d))
			b.replace(lines, d, b.text(c))
		case 7:
			i = m.one(b.json)
			fallthrough
		default:
			var v uint64
			if lines[i], v = m.flip(lines[i]); v != 0 {
				what += fmt.Sprintf(" flip %d to %d", i, v)
			}
		}
	}
	return strings.Join(lines, "\n"), what
}

// text returns a chunk as text, without changes.
func (b *mutantBase) text(chunk int) string {
	return strings.Join(b.lines[b.chunk[chunk].from:b.chunk[chunk].to], "\n")
}

// replace puts a text in place of a chunk.
func (b *mutantBase) replace(lines []string, chunk int, text string) {
	c := b.chunk[chunk]
	clear(lines[c.from:c.to])
	lines[c.from] = text
}

// oneChunk returns a chunk's index: of an EVENTS chunk half the time, since most chunks are not.
func (m *mutator) oneChunk(b *mutantBase) int {
	if len(b.calls) > 0 && m.rnd.IntN(2) == 0 {
		return m.one(b.calls)
	}
	return m.rnd.IntN(len(b.chunk))
}

// Repeated writes a variant of a base to path, with its first EVENTS chunk twice.
func (m *mutator) Repeated(b *mutantBase, path string) error {
	lines := append([]string(nil), b.lines...)
	c := b.calls[0]
	lines[b.chunk[c].to-1] += "\n" + b.text(c)
	return format.Assemble(strings.NewReader(strings.Join(lines, "\n")), path, nil)
}

func (m *mutator) one(of []int) int { return of[m.rnd.IntN(len(of))] }

// flip changes a number in a line.
func (m *mutator) flip(l string) (string, uint64) {
	ms := number.FindAllStringIndex(l, 4096)
	if len(ms) == 0 {
		return l, 0
	}
	at := ms[m.rnd.IntN(len(ms))]
	v := hostileWords[m.rnd.IntN(len(hostileWords))]
	if m.rnd.IntN(4) == 0 {
		v = m.rnd.Uint64() >> m.rnd.IntN(64)
	}
	return l[:at[0]] + strconv.FormatUint(v, 10) + l[at[1]:], v
}
