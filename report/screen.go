package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Screen writes text for people. It keeps newlines and tabs, and escapes all other bytes that a terminal does not
// display as characters. No text from a trace can act as a terminal command. Write cannot distinguish newlines in names:
// Printf escapes those.
type Screen struct {
	Color bool // shows Bad, Good and Doubtful in colors
	w     io.Writer
	half  []byte // incomplete character, continued in the next Write
	buf   []byte // reused
}

func NewScreen(w io.Writer) *Screen { return &Screen{w: w} }

func (s *Screen) Write(b []byte) (int, error) {
	in := b
	if len(s.half) > 0 {
		in = append(s.half, b...)
		s.half = nil
	}
	if n := incomplete(in); n > 0 {
		s.half = append([]byte(nil), in[len(in)-n:]...)
		in = in[:len(in)-n]
	}
	s.buf = appendEscaped(s.buf[:0], in, "\n\t", appendOctal)
	if _, err := s.w.Write(s.buf); err != nil {
		return 0, err
	}
	return len(b), nil
}

// incomplete returns the length of an incomplete character at the end.
func incomplete(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// NewJSON returns a writer for JSON on a terminal. It writes characters that a terminal does not display as \u escapes.
func NewJSON(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

// Write expects whole values in valid UTF-8, as encoders write them.
func (j jsonWriter) Write(b []byte) (int, error) {
	if _, err := j.w.Write(appendEscaped(nil, b, "\n\t", appendUnicode)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Escape escapes control characters, invalid UTF-8, line separators and invisible or directional characters as `ls -b`
// does: \n, \t, \033, \342\200\256. Backslashes stay: s may be quoted already.
func Escape(s string) string {
	if shown(s) {
		return s
	}
	return string(appendEscaped(nil, []byte(s), "", appendOctal))
}

// shown reports quickly whether s needs no escaping: it is printable ASCII.
func shown[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// appendEscaped appends b. It calls escape for characters that a terminal does not display, except the bytes in keep.
func appendEscaped(dst, b []byte, keep string, escape func(dst, b []byte, r rune) []byte) []byte {
	for at := 0; at < len(b); {
		next := at
		for next < len(b) && b[next] >= ' ' && b[next] <= '~' {
			next++
		}
		dst = append(dst, b[at:next]...)
		if at = next; at == len(b) {
			break
		}
		r, n := utf8.DecodeRune(b[at:])
		switch c := b[at : at+n]; {
		case r == utf8.RuneError && n == 1:
			dst = escape(dst, c, r)
		case unicode.IsGraphic(r), n == 1 && strings.IndexByte(keep, c[0]) >= 0:
			dst = append(dst, c...)
		default:
			dst = escape(dst, c, r)
		}
		at += n
	}
	return dst
}

var letters = map[rune]string{'\a': `\a`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\v': `\v`, '\f': `\f`, '\r': `\r`}

func appendOctal(dst, b []byte, r rune) []byte {
	if l := letters[r]; l != "" {
		return append(dst, l...)
	}
	for _, c := range b {
		dst = fmt.Appendf(dst, `\%03o`, c)
	}
	return dst
}

func appendUnicode(dst, _ []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		return fmt.Appendf(dst, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
	}
	return fmt.Appendf(dst, `\u%04x`, r)
}

// Printf formats text for people like fmt.Fprintf, and escapes each argument. Only the format has layout, so a name can
// begin neither a line nor a column.
func Printf(w io.Writer, format string, args ...any) (int, error) {
	return writeMarked(w, sprintf(format, args...))
}

// sprintf returns the text that Printf writes. It may have marks.
func sprintf(format string, args ...any) string {
	for i, a := range args {
		switch a.(type) {
		case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, uintptr, float32, float64, layout, marked:
		default:
			args[i] = escaped{a}
		}
	}
	return fmt.Sprintf(format, args...)
}

// A marker writes text with marks.
type marker interface {
	writeMarked(text string) (int, error)
}

// writeMarked writes text to w, without its marks unless w is a marker.
func writeMarked(w io.Writer, text string) (int, error) {
	if m, ok := w.(marker); ok {
		return m.writeMarked(text)
	}
	return io.WriteString(w, unmarked(text))
}

func (s *Screen) writeMarked(text string) (n int, err error) {
	n = len(text)
	for text != "" {
		at := strings.IndexFunc(text, isMark)
		if at < 0 {
			at = len(text)
		}
		if _, err := s.Write([]byte(text[:at])); err != nil {
			return 0, err
		}
		if text = text[at:]; text == "" {
			break
		}
		mark, size := utf8.DecodeRuneInString(text)
		if text = text[size:]; s.Color {
			if _, err := io.WriteString(s.w, colors[mark]); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// escaped formats its value and escapes the result.
type escaped struct{ of any }

func (e escaped) Format(f fmt.State, verb rune) {
	if err, ok := e.of.(error); ok {
		e.of = oneLine(err)
	}
	io.WriteString(f, Escape(fmt.Sprintf(fmt.FormatString(f, verb), e.of)))
}

// oneLine returns an error's text, with joined errors separated by "; ".
func oneLine(err error) string {
	text := err.Error()
	var walk func(error)
	walk = func(err error) {
		var inner []error
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			inner = []error{e.Unwrap()}
		case interface{ Unwrap() []error }:
			inner = e.Unwrap()
			var parts, now []string
			for _, i := range inner {
				parts, now = append(parts, i.Error()), append(now, oneLine(i))
			}
			text = strings.Replace(text, strings.Join(parts, "\n"), strings.Join(now, "; "), 1)
		}
		for _, i := range inner {
			if i != nil {
				walk(i)
			}
		}
	}
	walk(err)
	return text
}

// layout is text that Printf does not escape.
type layout string

// Block returns text with several lines for Printf. Each line is escaped.
func Block(s string) any {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Escape(lines[i])
	}
	return layout(strings.Join(lines, "\n"))
}
