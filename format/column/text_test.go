package column

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A column is equal to its text, which reads back as the same bytes.
func TestTextReadsBackAsEqualBytes(t *testing.T) {
	var e Encoder
	var d Decoder
	big := ^uint64(0)
	for _, c := range []struct {
		text string
		want []uint64
	}{
		{"const 7", []uint64{7, 7, 7}},
		{"const -1", []uint64{big, big}},
		{"for8 5: 5 6 260", []uint64{5, 6, 260}},
		{"for8 -5: -5 -1 250", []uint64{big - 4, big, 250}},
		{"for16 0: 0 65535", []uint64{0, 65535}},
		{"for32 1: 1 0x100000000", []uint64{1, 1 << 32}},
		{"fixed64 0x124000000000 4294967295 -4294967295", []uint64{0x124000000000, 1<<32 - 1, big - 1<<32 + 2}},
		{"uvarint 3: 3 0x7fffffffffffffff 130", []uint64{3, 1<<63 - 1, 130}},
		{"delta 7 (const 1)", []uint64{7, 8, 9, 10}},
		{"delta 7 (for8 0: 2 0)", []uint64{7, 9, 9}},
		{"run-length 2 (for8 0: 4 9) (for8 1: 1 3)", []uint64{4, 9, 9, 9}},
		{"dict 2 (fixed64 0x124000000000 7) (for8 0: 0 1 1)", []uint64{0x124000000000, 7, 7}},
		{"presence 05 (for8 0: 4 9)", []uint64{4, 0, 9}},
		{"presence 0101 (for8 0: 4 9)", []uint64{4, 0, 0, 0, 0, 0, 0, 0, 9}},
		{"delta 1 (run-length 1 (const 2) (const 3))", []uint64{1, 3, 5, 7}},
	} {
		b, err := e.ParseText([]byte("before"), c.text, len(c.want), nil)
		if err != nil || !strings.HasPrefix(string(b), "before") {
			t.Fatalf("%s: %v", c.text, err)
		}
		col, rest, err := parse(b[len("before"):])
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v", c.text, err)
		}
		got := make([]uint64, len(c.want))
		if err := d.Words(got, len(got), col); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, %v; want %d", c.text, got, err, c.want)
		}
		if text, err := AppendText([]byte("x "), col, len(got)); err != nil || string(text) != "x "+c.text {
			t.Errorf("%s: %v", text, err)
		}
		for _, n := range []int{len(got) - 1, len(got) + 1} {
			if other := d.Words(make([]uint64, n), n, col); (other == nil) != strings.HasPrefix(c.text, "const") && !strings.HasPrefix(c.text, "delta 7 (const") && !strings.HasPrefix(c.text, "presence") {
				t.Errorf("%s as %d rows: %v", c.text, n, other)
			}
		}
		if d.Words(got[:0], len(got), col) == nil {
			t.Errorf("%s fits into nothing", c.text)
		}
	}
	// Strings, and encodings of a later version.
	for text, want := range map[string]string{`bytes (for8 0: 1 0 2) "a" "" "\x00 "`: "a|\x00 ", "encoding:77 00ff": "\x00\xff"} {
		b, err := e.ParseText(nil, text, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		col, _, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := AppendText(nil, col, 3); err != nil || string(back) != text {
			t.Errorf("%s: %v", back, err)
		}
		lens := make([]uint64, 3)
		data, err := d.Strings(lens, 3, col)
		if col.Enc == Bytes {
			if err != nil || string(data) != strings.ReplaceAll(want, "|", "") || !slices.Equal(lens, []uint64{1, 0, 2}) || d.Words(lens, 3, col) != ErrMalformed {
				t.Errorf("%q, %d, %v", data, lens, err)
			}
		} else if err != ErrUnknown || d.Words(lens, 3, col) != ErrUnknown || string(col.Body) != want {
			t.Errorf("%v", err)
		}
	}
	if _, err := d.Strings(make([]uint64, 3), 3, Column{Enc: Const, Body: []byte{0}}); err != ErrMalformed {
		t.Error(err)
	}
	// Words without an encoding get the smallest.
	ref := func(x uint64) (string, bool) { return fmt.Sprint("@", x-100), x >= 100 }
	text := string(AppendAuto(nil, []uint64{5, 107, 100}, ref))
	resolve := func(s string) (x uint64, err error) {
		_, err = fmt.Sscanf(s, "@%d", &x)
		return x + 100, err
	}
	b, err := e.ParseText(nil, text, 3, resolve)
	if want := e.Append(nil, []uint64{5, 107, 100}); err != nil || text != "auto 5 @7 @0" || !slices.Equal(b, want) {
		t.Errorf("%s is %x, want %x: %v", text, b, want, err)
	}
}

// A text that is no column of so many rows is refused, with what is wrong.
func TestBadText(t *testing.T) {
	var e Encoder
	for text, want := range map[string]string{
		"":                            `"" is no encoding`,
		"for9 5: 5 6 7":               `"for9" is no encoding`,
		"encoding:300 00":             "value out of range",
		"encoding:77 0":               "odd length",
		"const x":                     `"x" is not a number`,
		"const 1 2":                   "more than one column",
		"for8 5 5 6 7":                `"5" where a base with a colon should be`,
		"for8 x: 5 6 7":               `"x:" where a base with a colon should be`,
		"for8 5: 5 6 261":             "261 is too far from its base for for8",
		"for8 5: 5 6 4":               "is too far from its base for for8",
		"for16 0: 0 0 65536":          "65536 is too far from its base for for16",
		"for8 5: 5 6":                 `"" is not a number`,
		"for8 5: 5":                   "3 words are expected",
		"for8 5: 5 6 x":               `"x" is not a number`,
		"delta x (const 1)":           `"x" is not a number`,
		"delta 7 const 1":             `"const" where a column in parentheses should be`,
		"delta 7 (const 1":            `"" where a parenthesis should be`,
		"delta 7 (const x)":           `"x" is not a number`,
		"run-length 4 (const 1)":      "run-length needs a number of values, at most 3",
		"dict x (const 1)":            "dict needs a number of values, at most 3",
		"dict 2 (const 1)":            `"" where a column in parentheses should be`,
		"dict 2 (const x)":            `"x" is not a number`,
		"presence 0x (const 1)":       "invalid byte",
		"presence 05 (const x)":       `"x" is not a number`,
		`bytes (const 1) "a" "b"`:     "3 strings in quotes are expected",
		`bytes (const 1) "a" "b" c`:   "3 strings in quotes are expected",
		`bytes (const x) "a" "b" "c"`: `"x" is not a number`,
		"auto 1 2 x":                  `"x" is not a number`,
		"auto 1":                      "3 words are expected",
		"const 18446744073709551616":  "is not a number",
		"const -9223372036854775809":  "is not a number",
		strings.Repeat("delta 1 (", 4) + "const 1))))": "columns nest deeper than 4",
	} {
		if b, err := e.ParseText(nil, text, 3, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %x, %v, want %s", text, b, err, want)
		}
		e.Begin(nil, 1, 1, 3, 1)
		if err := e.Text(5, text, 3, nil); err == nil {
			t.Errorf("%s: no error", text)
		}
		if table, _, err := NextTable(e.End()); err != nil || table.Len() != 0 {
			t.Errorf("%s: %d bytes in the table, %v", text, table.Len(), err)
		}
	}
	if err := e.Text(300, "const 5", 3, nil); err != nil {
		t.Fatal(err)
	}
}

// malformed are bodies of columns with three rows.
func malformed() map[string]Column {
	col := func(enc Encoding, parts ...any) []byte {
		var body []byte
		for _, p := range parts {
			switch p := p.(type) {
			case int:
				body = binary.AppendUvarint(body, uint64(p))
			case []byte:
				body = append(body, p...)
			}
		}
		return append(binary.AppendUvarint([]byte{byte(enc)}, uint64(len(body))), body...)
	}
	c := func(enc Encoding, parts ...any) Column {
		column, _, _ := parse(col(enc, parts...))
		return column
	}
	one, ok := col(Const, 1), col(For8, 0, []byte{0, 1, 0})
	deep := one
	for range maxDepth {
		deep = col(RunLength, 1, deep, one)
	}
	all := map[string]Column{
		"const, nothing": c(Const), "const, more": c(Const, 1, 2),
		"for8, nothing": c(For8), "for8, short": c(For8, 1, []byte{1, 2}), "for8, long": c(For8, 1, []byte{1, 2, 3, 4}),
		"for16, short": c(For16, 1, make([]byte, 5)), "for16, long": c(For16, 1, make([]byte, 7)),
		"for32, short": c(For32, 1, make([]byte, 11)), "for32, long": c(For32, 1, make([]byte, 13)),
		"fixed64, short": c(Fixed64, make([]byte, 23)), "fixed64, long": c(Fixed64, make([]byte, 25)),
		"uvarint, short": c(Uvarint, 0, 1, 2), "uvarint, long": c(Uvarint, 0, 1, 2, 3, 4), "uvarint, cut": c(Uvarint, 0, 1, 2, []byte{0x80}), "uvarint, too big": c(Uvarint, 0, 1, 2, []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}),
		"delta, nothing": c(Delta), "delta, no steps": c(Delta, 1), "delta, short": c(Delta, 1, col(For8, 0, []byte{1})), "delta, long": c(Delta, 1, col(For8, 0, []byte{1, 1, 1})), "delta, more": c(Delta, 1, one, one), "delta, cut": c(Delta, 1, one[:2]),
		"deep":       c(RunLength, 1, deep, col(Const, 3)),
		"runs, none": c(RunLength, 0, one, one), "runs, too many": c(RunLength, 4, one, one), "runs, short": c(RunLength, 1, one, col(Const, 2)), "runs, long": c(RunLength, 1, one, col(Const, 4)), "runs, more": c(RunLength, 1, one, col(Const, 3), one),
		"runs, values short": c(RunLength, 2, col(For8, 0, []byte{1}), one), "runs, lengths short": c(RunLength, 2, one, col(For8, 0, []byte{3})), "runs, no lengths": c(RunLength, 1, one), "runs, no values": c(RunLength, 1), "runs, huge": c(RunLength, 2, one, col(Fixed64, slices.Repeat([]byte{255}, 16))),
		"dict, none": c(Dict, 0, one, ok), "dict, too many": c(Dict, 4, one, ok), "dict, position": c(Dict, 1, one, ok), "dict, more": c(Dict, 2, one, ok, one), "dict, values short": c(Dict, 2, col(For8, 0, []byte{1}), ok), "dict, no positions": c(Dict, 2, one), "dict, positions short": c(Dict, 2, one, col(For8, 0, []byte{0, 1})),
		"dict, far position": c(Dict, 2, one, col(For8, 0, []byte{0, 1, 2})), "dict, constant position": c(Dict, 2, one, col(Const, 2)),
		"presence, nothing": c(Presence), "presence, no bitmap": c(Presence, 1), "presence, too many": c(Presence, 4, []byte{15}, one), "presence, more set": c(Presence, 1, []byte{3}, one), "presence, fewer set": c(Presence, 2, []byte{1}, one), "presence, behind the end": c(Presence, 2, []byte{9}, one),
		"presence, more": c(Presence, 1, []byte{1}, one, one), "presence, values short": c(Presence, 2, []byte{3}, col(For8, 0, []byte{1})), "presence, no values": c(Presence, 1, []byte{1}),
		"bytes": c(Bytes, one, []byte("abc")),
	}
	return all
}

// A column whose content contradicts its length is never decoded, by any way of reading it.
func TestMalformedColumnsAreNotDecoded(t *testing.T) {
	var d Decoder
	for name, c := range malformed() {
		w := make([]uint64, 3)
		if err := d.Words(w, 3, c); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: words %d, %v", name, w, err)
		}
		padded := c
		padded.Body = append(slices.Clone(c.Body), make([]byte, Pad)...)[:len(c.Body)]
		var v Vector
		var scratch []uint64
		if err := d.Vector(&v, 3, padded, &scratch); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: a vector, %v", name, err)
		}
	}
	one := []byte{byte(Const), 1, 1}
	for name, body := range map[string]string{"short": string(one) + "ab", "long": string(one) + "abcd", "no lengths": "", "lengths cut": string(one[:2]), "lengths malformed": "\x00\x00abc", "huge": "\x00\x02\xff\x7fabc"} {
		if data, err := d.Strings(make([]uint64, 3), 3, Column{Enc: Bytes, Body: []byte(body)}); err == nil {
			t.Errorf("%s: %q", name, data)
		}
	}
}

// A column of one number needs no differences. Whatever is in their place is not decoded.
func TestOneNumberHasNoDifferences(t *testing.T) {
	inner := []byte{byte(Delta), 4, 1, byte(Const), 1, 1}
	var d Decoder
	w := make([]uint64, 1)
	if err := d.Words(w, 1, Column{Enc: Delta, Body: append([]byte{5}, inner...)}); err != nil || w[0] != 5 {
		t.Errorf("%d, %v", w, err)
	}
}

// The head of a table or column is whole exactly if it can be read.
func TestHeadIsWholeIfReadable(t *testing.T) {
	var e Encoder
	e.Begin(nil, 300, 70_000, 3, 1)
	e.Constant(200, 1<<40)
	table := e.End()
	whole := 0
	for n := range table {
		_, _, err := NextTable(table[:n])
		if got := WholeTableHead(table[:n]); got && whole == 0 {
			whole = n
		} else if !got && whole > 0 || err == nil {
			t.Errorf("%d of %d bytes: whole %t, %v", n, len(table), got, err)
		}
	}
	column := table[whole:]
	if tb, rest, err := NextTable(table); err != nil || tb.Len() != len(column) || len(rest) > 0 {
		t.Errorf("a head of %d bytes: %v", whole, err)
	}
	for n := range column {
		if want := n >= 4; WholeColumnHead(column[:n]) != want { // two bytes of the field, the encoding, the length
			t.Errorf("%d bytes of a column: want whole %t", n, want)
		}
	}
	if long := slices.Repeat([]byte{0x80}, 50); !WholeTableHead(long) || WholeTableHead(long[:49]) {
		t.Error("a number without end is awaited")
	}
	for x, want := range map[Encoding]string{Const: "const", Dict: "dict", 11: "encoding 11"} {
		if x.String() != want {
			t.Errorf("%s, want %s", x, want)
		}
	}
	for body, want := range map[string]bool{"\x05": true, "": false, "\x05\x05": false, "\x80": false} {
		if x, ok := (Column{Enc: Const, Body: []byte(body)}).Const(); ok != want || ok && x != 5 {
			t.Errorf("%q: %d, %t", body, x, ok)
		}
	}
	if _, ok := (Column{Enc: For8, Body: []byte{5}}).Const(); ok {
		t.Error("another encoding is constant")
	}
}

// Each vector has the encoding and the size that it is stored with: a change of the encoder shows here.
func TestEncodingAndSizeOfVectors(t *testing.T) {
	var e Encoder
	got := map[string]string{}
	for name, v := range columns() {
		b := e.Append(nil, v)
		got[name] = fmt.Sprint(Encoding(b[0]), " ", len(b))
	}
	for name, want := range sizes {
		if got[name] != want {
			t.Errorf("%q: %q, want %q", name, got[name], want)
		}
	}
	if len(sizes) != len(got) {
		for name, s := range got {
			t.Logf("%q: %q,", name, s)
		}
		t.Errorf("%d vectors, want %d", len(got), len(sizes))
	}
}

var sizes = map[string]string{
	"delta":       "delta 1008",
	"long steady": "delta 6",
	"for32":       "for32 4011",
	"dict":        "dict 1036",
	"const":       "const 3",
	"signed":      "for8 1013",
	"run-length":  "run-length 88",
	"for8":        "for8 1009",
	"zero":        "const 3",
	"dict-over":   "fixed64 40004",
	"extremes":    "uvarint 48",
	"one":         "const 12",
	"uvarint":     "uvarint 2060",
	"few":         "fixed64 26",
	"for16":       "for16 2004",
	"down":        "delta 15",
	"dict-full":   "dict 7060",
	"fixed64":     "fixed64 8003",
}
