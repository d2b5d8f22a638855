package column

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// A Ref writes a word with a file-specific meaning, such as an offset, in another form; ok is false for other words.
type Ref func(x uint64) (text string, ok bool)

// AppendText appends a column of n rows in words, such as "for8 5: 5 6 9", "delta 7 (const 1)" or "dict 2 (fixed64
// 0x124000000000 7) (for8 0: 0 1 1)". An unknown encoding is written as bytes.
func AppendText(dst []byte, c Column, n int) ([]byte, error) {
	var d Decoder
	values := func() ([]byte, error) {
		if n > len(c.Body) { // a row takes a byte or more
			return dst, ErrMalformed
		}
		w := make([]uint64, n)
		if err := d.Words(w, n, c); err != nil {
			return dst, err
		}
		return appendValues(dst, w, nil), nil
	}
	head, rest, ok := uvarint(c.Body)
	if !ok && c.Enc != Fixed64 && c.Enc != Bytes && c.Enc <= Dict {
		return dst, ErrMalformed
	}
	dst = append(dst, c.Enc.name()...)
	nested := func(b []byte, n int) (rest []byte, err error) {
		c, rest, err := parse(b)
		if err != nil {
			return nil, err
		}
		dst = append(dst, " ("...)
		if dst, err = AppendText(dst, c, n); err != nil {
			return nil, err
		}
		dst = append(dst, ')')
		return rest, nil
	}
	var err error
	switch c.Enc {
	case Const:
		return AppendWord(append(dst, ' '), head), nil
	case For8, For16, For32, Uvarint:
		dst = append(AppendWord(append(dst, ' '), head), ':')
		return values()
	case Fixed64:
		return values()
	case Delta:
		dst = AppendWord(append(dst, ' '), head)
		rest, err = nested(rest, max(n-1, 0))
	case RunLength:
		if head > uint64(n) {
			return dst, ErrMalformed
		}
		dst = AppendWord(append(dst, ' '), head)
		if rest, err = nested(rest, int(head)); err == nil {
			rest, err = nested(rest, int(head))
		}
	case Dict:
		if head > uint64(n) {
			return dst, ErrMalformed
		}
		dst = AppendWord(append(dst, ' '), head)
		if rest, err = nested(rest, int(head)); err == nil {
			rest, err = nested(rest, n)
		}
	case Presence:
		bitmap, _, count, e := d.Present(c, n)
		if e != nil {
			return dst, e
		}
		dst = append(append(dst, ' '), hex.EncodeToString(bitmap)...)
		rest, err = nested(rest[len(bitmap):], count)
	case Bytes:
		if n > 8*len(c.Body)+64 { // more empty strings than a few runs justify
			return dst, ErrMalformed
		}
		lens := make([]uint64, n)
		data, e := d.Strings(lens, n, c)
		if e != nil {
			return dst, e
		}
		if _, err = nested(c.Body, n); err != nil {
			return dst, err
		}
		for _, l := range lens {
			dst = strconv.AppendQuoteToASCII(append(dst, ' '), string(data[:l]))
			data = data[l:]
		}
		rest = nil
	default:
		return append(append(dst, ' '), hex.EncodeToString(c.Body)...), nil
	}
	if err == nil && len(rest) != 0 {
		err = ErrMalformed
	}
	return dst, err
}

// AppendAuto appends words without an encoding; ParseText chooses the smallest by estimate.
func AppendAuto(dst []byte, w []uint64, ref Ref) []byte {
	return appendValues(append(dst, "auto"...), w, ref)
}

func appendValues(dst []byte, w []uint64, ref Ref) []byte {
	for _, x := range w {
		dst = append(dst, ' ')
		if ref != nil {
			if t, ok := ref(x); ok {
				dst = append(dst, t...)
				continue
			}
		}
		dst = AppendWord(dst, x)
	}
	return dst
}

// AppendWord appends a word in readable form: decimal, negative if it is just below 2^64, hexadecimal if it
// looks like an address.
func AppendWord(dst []byte, x uint64) []byte {
	switch {
	case x < 1<<32:
		return strconv.AppendUint(dst, x, 10)
	case -x < 1<<32:
		return strconv.AppendInt(dst, int64(x), 10)
	}
	return strconv.AppendUint(append(dst, "0x"...), x, 16)
}

// ParseWord is the reverse of AppendWord.
func ParseWord(s string) (uint64, error) {
	if strings.HasPrefix(s, "-") {
		x, err := strconv.ParseInt(s, 0, 64)
		return uint64(x), err
	}
	return strconv.ParseUint(s, 0, 64)
}

func (e Encoding) name() string {
	if e <= Dict {
		return e.String()
	}
	return fmt.Sprintf("encoding:%d", uint8(e))
}

// ParseText appends the n-row column that a text describes, without a field number. resolve returns the value for a word
// that is not a number; nil resolves none.
func (e *Encoder) ParseText(dst []byte, text string, n int, resolve func(string) (uint64, error)) ([]byte, error) {
	p := textParser{e: e, rest: text, resolve: resolve}
	dst, err := p.column(dst, n, 0)
	if err == nil && p.token() != "" {
		err = fmt.Errorf("more than one column")
	}
	return dst, err
}

type textParser struct {
	e       *Encoder
	rest    string
	resolve func(string) (uint64, error)
}

// token returns the next word, parenthesis or quoted string, "" at the end.
func (p *textParser) token() string {
	p.rest = strings.TrimLeft(p.rest, " ")
	if p.rest == "" {
		return ""
	}
	n := strings.IndexAny(p.rest, " ()")
	switch {
	case p.rest[0] == '(' || p.rest[0] == ')':
		n = 1
	case p.rest[0] == '"':
		q, err := strconv.QuotedPrefix(p.rest)
		if err != nil {
			q = p.rest
		}
		n = len(q)
	case n < 0:
		n = len(p.rest)
	}
	t := p.rest[:n]
	p.rest = p.rest[n:]
	return t
}

func (p *textParser) word() (uint64, error) {
	t := p.token()
	x, err := ParseWord(t)
	if err != nil && p.resolve != nil {
		return p.resolve(t)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", t)
	}
	return x, nil
}

func (p *textParser) words(n int) ([]uint64, error) {
	// A text has at least two characters for each word: memory is bounded by the text.
	if n > len(p.rest)/2+1 {
		return nil, fmt.Errorf("%d words are expected", n)
	}
	w := make([]uint64, n)
	for i := range w {
		var err error
		if w[i], err = p.word(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// nested appends a column in parentheses.
func (p *textParser) nested(dst []byte, n, depth int) ([]byte, error) {
	if t := p.token(); t != "(" {
		return dst, fmt.Errorf("%q where a column in parentheses should be", t)
	}
	dst, err := p.column(dst, n, depth+1)
	if err != nil {
		return dst, err
	}
	if t := p.token(); t != ")" {
		return dst, fmt.Errorf("%q where a parenthesis should be", t)
	}
	return dst, nil
}

func (p *textParser) column(dst []byte, n, depth int) ([]byte, error) {
	if depth >= maxDepth {
		return dst, fmt.Errorf("columns nest deeper than %d", maxDepth)
	}
	name := p.token()
	if name == "auto" {
		w, err := p.words(n)
		if err != nil {
			return dst, err
		}
		return p.e.Append(dst, w), nil
	}
	enc, err := parseEncoding(name)
	if err != nil {
		return dst, err
	}
	var body []byte
	switch enc {
	case Const:
		x, err := p.word()
		if err != nil {
			return dst, err
		}
		body = binary.AppendUvarint(nil, x)
	case For8, For16, For32, Uvarint, Fixed64:
		if body, err = p.plain(enc, n); err != nil {
			return dst, err
		}
	case Delta:
		x, err := p.word()
		if err != nil {
			return dst, err
		}
		if body, err = p.nested(binary.AppendUvarint(nil, x), max(n-1, 0), depth); err != nil {
			return dst, err
		}
	case RunLength, Dict:
		x, err := p.word()
		if err != nil || x > uint64(n) {
			return dst, fmt.Errorf("%v needs a number of values, at most %d", enc, n)
		}
		k, second := int(x), n
		if enc == RunLength {
			second = k
		}
		if body, err = p.nested(binary.AppendUvarint(nil, x), k, depth); err != nil {
			return dst, err
		}
		if body, err = p.nested(body, second, depth); err != nil {
			return dst, err
		}
	case Presence:
		bitmap, err := hex.DecodeString(p.token())
		if err != nil {
			return dst, err
		}
		k := 0
		for _, b := range bitmap {
			for ; b != 0; b &= b - 1 {
				k++
			}
		}
		if body, err = p.nested(append(binary.AppendUvarint(nil, uint64(k)), bitmap...), k, depth); err != nil {
			return dst, err
		}
	case Bytes:
		if body, err = p.nested(nil, n, depth); err != nil {
			return dst, err
		}
		for range n {
			s, err := strconv.Unquote(p.token())
			if err != nil {
				return dst, fmt.Errorf("%d strings in quotes are expected", n)
			}
			body = append(body, s...)
		}
	default:
		if body, err = hex.DecodeString(p.token()); err != nil {
			return dst, err
		}
	}
	dst = append(dst, byte(enc))
	dst = binary.AppendUvarint(dst, uint64(len(body)))
	return append(dst, body...), nil
}

func (p *textParser) plain(enc Encoding, n int) ([]byte, error) {
	var body []byte
	base := uint64(0)
	if enc != Fixed64 {
		t := p.token()
		x, err := ParseWord(strings.TrimSuffix(t, ":"))
		if err != nil || !strings.HasSuffix(t, ":") {
			return nil, fmt.Errorf("%q where a base with a colon should be", t)
		}
		base = x
		body = binary.AppendUvarint(nil, base)
	}
	w, err := p.words(n)
	if err != nil {
		return nil, err
	}
	width := map[Encoding]int{For8: 1, For16: 2, For32: 4, Uvarint: 8, Fixed64: 8}[enc]
	for _, x := range w {
		x -= base
		if enc == Uvarint {
			body = binary.AppendUvarint(body, x)
			continue
		}
		if width < 8 && x>>(8*width) != 0 {
			return nil, fmt.Errorf("%d is too far from its base for %v", x+base, enc)
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], x)
		body = append(body, b[:width]...)
	}
	return body, nil
}

func parseEncoding(name string) (Encoding, error) {
	if s, ok := strings.CutPrefix(name, "encoding:"); ok {
		x, err := strconv.ParseUint(s, 10, 8)
		return Encoding(x), err
	}
	for e := Const; e <= Dict; e++ {
		if e.String() == name {
			return e, nil
		}
	}
	return 0, fmt.Errorf("%q is no encoding", name)
}

// Text adds a column in the text form of ParseText to the open table.
func (e *Encoder) Text(field uint64, text string, n int, resolve func(string) (uint64, error)) error {
	col, err := e.ParseText(nil, text, n, resolve)
	if err != nil {
		return err
	}
	e.table = append(binary.AppendUvarint(e.table, field), col...)
	return nil
}
