package report

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

func TestControlCharactersAreEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"aclrtMalloc":              "aclrtMalloc",
		"größe 行列 é 😀":             "größe 行列 é 😀",
		`back\slash`:               `back\slash`,
		"\a\b\t\n\v\f\r":           `\a\b\t\n\v\f\r`,
		"a\x1b[2Jb\x00\x7f":        `a\033[2Jb\000\177`,
		"\u0085\u009b\u202e\u2066": `\302\205\302\233\342\200\256\342\201\246`,
		"\u200e\u061c\u2028\ufeff": `\342\200\216\330\234\342\200\250\357\273\277`,
		"\xff\xe2\x80":             `\377\342\200`,
		"\U000e0041":               `\363\240\201\201`,
		"\ufffd":                   "\ufffd",
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q is shown as %s, not %s", in, got, want)
		}
	}
}

// A character in two writes was taken for invalid UTF-8.
func TestScreenJoinsCharacters(t *testing.T) {
	var b bytes.Buffer
	s := NewScreen(&b)
	for _, c := range []byte("é行😀\u202e\x1b\n\t\xe2x") {
		if n, err := s.Write([]byte{c}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := b.String(), "é行😀\\342\\200\\256\\033\n\t\\342x"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// Only the format has layout: arguments begin neither lines nor columns.
func TestPrintfEscapesArguments(t *testing.T) {
	var b bytes.Buffer
	err := fmt.Errorf("close a\nb: %w", errors.Join(errors.New("one"), fmt.Errorf("two: %w", errors.Join(errors.New("x\x1b"), errors.New("y")))))
	Printf(&b, "%s\t%v\n%-4d|%5.1f|%x\n%v\n%s\n", "a\nb", []string{"c\td"}, 7, 1.25, []byte{1, 2}, err, Block("e\nf\x1b"))
	want := "a\\nb\t[c\\td]\n7   |  1.2|0102\nclose a\\nb: one; two: x\\033; y\ne\nf\\033\n"
	if got := b.String(); got != want {
		t.Errorf("%q, not\n%q", got, want)
	}
}

func TestJSONKeepsItsMeaning(t *testing.T) {
	var b bytes.Buffer
	fmt.Fprint(NewJSON(&b), "{\"a\u202e\u009b\": \"é\x7f\U000e0041\"}\n")
	if got, want := b.String(), "{\"a\\u202e\\u009b\": \"é\\u007f\\udb40\\udc41\"}\n"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
