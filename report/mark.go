package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/acltrace/acltrace/internal/human"
)

// Marks surround text that a terminal shows in a color. They are noncharacters of Unicode: Escape removes them from all
// other text, so a trace cannot color anything.
const (
	markBad      = '\uFDD0'
	markGood     = '\uFDD1'
	markDoubtful = '\uFDD2'
	markEnd      = '\uFDDF'
)

// colors has the terminal's sequence for each mark.
var colors = map[rune]string{markBad: "\x1b[31m", markGood: "\x1b[32m", markDoubtful: "\x1b[33m", markEnd: "\x1b[m"}

// marked is an argument for Printf with a mark.
type marked struct {
	mark rune
	of   any
}

func (m marked) Format(f fmt.State, verb rune) {
	io.WriteString(f, string(m.mark))
	escaped{m.of}.Format(f, verb)
	io.WriteString(f, string(markEnd))
}

// Bad marks an argument for Printf as a failure, Good as a success, and Doubtful as neither.
func Bad(of any) any      { return marked{markBad, of} }
func Good(of any) any     { return marked{markGood, of} }
func Doubtful(of any) any { return marked{markDoubtful, of} }

// badCount returns a count for Printf, which is Bad unless it is 0.
func badCount[N human.Integer](n N) any {
	if n == 0 {
		return human.Count(n)
	}
	return Bad(human.Count(n))
}

// answeredText counts the errors that are answers, "" for none.
func answeredText(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s answered no)", human.Plural(n, "question"))
}

func isMark(r rune) bool { return r == markBad || r == markGood || r == markDoubtful || r == markEnd }

// unmarked returns text without marks.
func unmarked(text string) string {
	if strings.IndexFunc(text, isMark) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if isMark(r) {
			return -1
		}
		return r
	}, text)
}

// columns returns the number of columns that text takes.
func columns(text string) int { return utf8.RuneCountInString(unmarked(text)) }

// A page collects text for people, and writes it at once.
type page struct {
	w             io.Writer
	text          strings.Builder
	width, indent int
}

func newPage(w io.Writer) *page { return &page{w: w} }

// Wrapped calls fill and breaks its lines at the terminal's width. Further lines begin two columns after the line, and
// at the column indent or later.
func Wrapped(w io.Writer, o *TextOptions, indent int, fill func(io.Writer)) error {
	p := &page{w: w, width: o.width(), indent: indent}
	fill(p)
	return p.Flush()
}

func (p *page) Write(b []byte) (int, error)                { return p.text.Write(b) }
func (p *page) writeMarked(text string) (n int, err error) { return p.text.WriteString(text) }

func (p *page) Flush() error {
	var out strings.Builder
	for line := range strings.Lines(p.text.String()) {
		text := strings.TrimSuffix(line, "\n")
		lead := len(text) - len(strings.TrimLeft(text, " "))
		out.WriteString(wrap(text, p.width, max(lead+2, p.indent)) + line[len(text):])
	}
	p.text.Reset()
	_, err := writeMarked(p.w, out.String())
	return err
}

// wrap breaks a line between words so that it fits the width, and indents further lines. A width of 0 is no limit.
func wrap(line string, width, indent int) string {
	if width <= 0 || columns(line) <= width {
		return line
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(line, " ") {
		n := columns(word)
		switch {
		case i == 0:
		case used+1+n > width && used > indent:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// pairs is a list of names with values, as on the screen of info.
type pairs struct{ rows [][2]string }

// add appends a row. Its arguments are those of Printf.
func (p *pairs) add(name, format string, args ...any) {
	p.rows = append(p.rows, [2]string{sprintf("%s", name), sprintf(format, args...)})
}

// mark appends a row whose name is marked.
func (p *pairs) mark(mark rune, name, format string, args ...any) {
	p.rows = append(p.rows, [2]string{sprintf("%s", marked{mark, name}), sprintf(format, args...)})
}

// write writes the rows. Long values continue below their beginning.
func (p *pairs) write(w io.Writer, o *TextOptions) error {
	names := 0
	for _, r := range p.rows {
		names = max(names, columns(r[0])+2)
	}
	for _, r := range p.rows {
		line := r[0] + strings.Repeat(" ", names-columns(r[0])) + r[1]
		if _, err := writeMarked(w, wrap(line, o.width(), names)+"\n"); err != nil {
			return err
		}
	}
	return nil
}
