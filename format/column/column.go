// Package column packs 64-bit word vectors, and lists of byte strings, into the smallest of a few
// encodings, and groups such columns into tables.
//
// A table has a kind, an id, a row count, and columns with field numbers. Package format, the only caller, gives them
// their meaning. A column carries its encoding and its length in bytes, so a reader can skip unknown encodings and fields.
//
// An Encoder or a Decoder owns scratch memory and belongs to one goroutine at a time. The package does no I/O. No input
// makes it panic or allocate more than the row count that the caller has accepted.
package column

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// An Encoding is the layout of a column's body. The numbers are part of the file format.
type Encoding uint8

const (
	Const     Encoding = 0  // uvarint value, the same in every row
	For8      Encoding = 1  // uvarint base, then one byte a row: base + byte, modulo 2^64
	For16     Encoding = 2  // the same with two bytes a row
	For32     Encoding = 3  // the same with four bytes a row
	Fixed64   Encoding = 4  // eight bytes a row
	Uvarint   Encoding = 5  // uvarint base, then a uvarint a row: base + it, modulo 2^64
	Delta     Encoding = 6  // uvarint first value, then a column of the rows-1 differences, modulo 2^64
	RunLength Encoding = 7  // uvarint run count, a value column, a length column
	Bytes     Encoding = 8  // a column of lengths, then the byte strings without gaps
	Presence  Encoding = 9  // uvarint count of present rows, a bitmap (bit i%8 of byte i/8), a column with their values
	Dict      Encoding = 10 // uvarint value count, a value column, a column with positions in it
)

func (e Encoding) String() string {
	names := [...]string{"const", "for8", "for16", "for32", "fixed64", "uvarint", "delta", "run-length", "bytes", "presence", "dict"}
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("encoding %d", uint8(e))
}

// maxDepth bounds the nesting of columns. A writer nests twice at most; a third level is reserved for later versions.
const maxDepth = 4

var (
	// ErrMalformed is returned for bytes that are not a column or table, or whose content contradicts their length.
	ErrMalformed = errors.New("malformed column")
	// ErrUnknown is returned for an unknown encoding. The column can be skipped.
	ErrUnknown = errors.New("unknown column encoding")
)

// A Column is one column of a table, found but not yet decoded.
type Column struct {
	Field uint64
	Enc   Encoding
	Body  []byte
}

// Const returns the common value of all rows, if the column is stored as a constant.
func (c Column) Const() (uint64, bool) {
	if c.Enc != Const {
		return 0, false
	}
	v, n := binary.Uvarint(c.Body)
	return v, n > 0 && n == len(c.Body)
}

// A Table is a set of equally long columns, found but not yet decoded.
type Table struct {
	Kind  uint64
	ID    uint64
	Rows  uint64
	Width uint64 // words in a row; explicit because columns of zero words are left out
	body  []byte
}

// Len is the number of bytes in the remaining columns.
func (t *Table) Len() int { return len(t.body) }

// Next returns the next column of the table. At the end it returns false and no error.
func (t *Table) Next() (Column, bool, error) {
	if len(t.body) == 0 {
		return Column{}, false, nil
	}
	field, rest, ok := uvarint(t.body)
	if !ok {
		return Column{}, false, ErrMalformed
	}
	c, rest, err := parse(rest)
	if err != nil {
		return Column{}, false, err
	}
	c.Field = field
	t.body = rest
	return c, true, nil
}

// Constants skips the next columns as long as they are constant, and sets words to their values by field. It ends before a
// field below least. Most words of most tables are constant, so this is cheaper than Next.
func (t *Table) Constants(words []uint64, least int) {
	b := t.body
	for len(b) >= 4 {
		field, n := int(b[0]), 1
		if field >= 0x80 {
			field, n = field&0x7f|int(b[1])<<7, 2
		}
		// A longer number is at least 1<<14 here, and no field.
		if Encoding(b[n]) != Const || field >= len(words) || field < least {
			break
		}
		body := b[n+2:]
		size := int(b[n+1])
		if size > len(body) {
			break
		}
		v, k := binary.Uvarint(body[:size])
		if k <= 0 || k != size {
			break
		}
		words[field], b = v, body[size:]
	}
	t.body = b
}

// WholeTableHead and WholeColumnHead report if b has all bytes that NextTable and Table.Next read, except the columns themselves.
func WholeTableHead(b []byte) bool { return headLen(b, 5) > 0 }

func WholeColumnHead(b []byte) bool {
	field := headLen(b, 1)
	return field > 0 && field < len(b) && headLen(b[field+1:], 1) > 0
}

// headLen is the length of some uvarints, 0 if they are incomplete. An invalid uvarint counts as complete, because
// more bytes would not complete it.
func headLen(b []byte, numbers int) int {
	for i, x := range b {
		if x < 0x80 {
			if numbers--; numbers == 0 {
				return i + 1
			}
		}
	}
	if len(b) >= numbers*binary.MaxVarintLen64 {
		return len(b)
	}
	return 0
}

// NextTable returns the first table of b and the bytes after it.
func NextTable(b []byte) (t Table, rest []byte, err error) {
	var size uint64
	for _, p := range []*uint64{&t.Kind, &t.ID, &t.Rows, &t.Width, &size} {
		v, r, ok := uvarint(b)
		if !ok {
			return t, nil, ErrMalformed
		}
		*p, b = v, r
	}
	if size > uint64(len(b)) {
		return t, nil, ErrMalformed
	}
	t.body = b[:size]
	return t, b[size:], nil
}

// parse reads a column without its field number.
func parse(b []byte) (c Column, rest []byte, err error) {
	if len(b) == 0 {
		return c, nil, ErrMalformed
	}
	c.Enc = Encoding(b[0])
	size, b, ok := uvarint(b[1:])
	if !ok || size > uint64(len(b)) {
		return c, nil, ErrMalformed
	}
	c.Body = b[:size]
	return c, b[size:], nil
}

func uvarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}
