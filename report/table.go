package report

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// TextOptions change the text forms. nil means the zero value.
type TextOptions struct {
	// Width is the number of columns of a terminal. Wider tables lose columns, names lose their middle, and long lines are
	// broken. 0 is no limit, as for a pipe or a file.
	Width int
}

// width returns the limit, 0 for none.
func (o *TextOptions) width() int {
	if o == nil || o.Width <= 0 {
		return 0
	}
	return max(o.Width, 40)
}

// A table aligns cells that end with tabs, as text/tabwriter does. All columns except the last are aligned to the right.
// It fits tables into its width. An empty line ends a table, and its first line has the column heads. A column without
// a value has nothing to say and is left out.
type table struct {
	w     io.Writer
	width int
	wraps bool // a long last cell is broken between words, and not clipped
	text  bytes.Buffer
}

func newTable(w io.Writer, o *TextOptions) *table { return &table{w: w, width: o.width()} }

// TableText writes the lines of fill, whose cells end with tabs, as a table.
func TableText(w io.Writer, o *TextOptions, fill func(io.Writer)) error {
	t := newTable(w, o)
	fill(t)
	return t.Flush()
}

func (t *table) Write(b []byte) (int, error)          { return t.text.Write(b) }
func (t *table) writeMarked(text string) (int, error) { return t.text.WriteString(text) }

// spare has the heads of columns that a narrow table omits, in this order.
var spare = []string{"p", "", "mean", "p50", "measured", "process", "copies", "launches", "failed", "step", "in calls", "recording", "p99", "on the device"}

// name is the least width of the last column.
const name = 30

func (t *table) Flush() error {
	var out strings.Builder
	var block [][]string
	for line := range strings.Lines(t.text.String()) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			block = append(block, strings.Split(line, "\t"))
			continue
		}
		t.block(&out, block)
		block = block[:0]
		out.WriteByte('\n')
	}
	t.block(&out, block)
	t.text.Reset()
	_, err := writeMarked(t.w, out.String())
	return err
}

// empty reports whether a cell has no value.
func empty(cell string) bool {
	return cell == "" || cell == "-" || cell == "0" || cell == "0 ns" || cell == "0 B"
}

func (t *table) block(out *strings.Builder, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	last := len(rows[0]) - 1
	widths, longest, filled := make([]int, last), 0, make([]bool, last)
	for k, r := range rows {
		for i, cell := range r {
			if n := columns(cell); i == len(r)-1 {
				longest = max(longest, n)
			} else if i < last {
				widths[i] = max(widths[i], n+2)
				filled[i] = filled[i] || k > 0 && !empty(cell)
			}
		}
	}
	least := min(longest, max(name, columns(rows[0][last])))
	used := 0
	for i, n := range widths {
		if i > 0 && !filled[i] && len(rows) > 1 {
			widths[i], n = 0, 0
		}
		used += n
	}
	for _, head := range spare {
		for i := 1; i < last; i++ {
			if rows[0][i] == head && widths[i] > 0 && t.width > 0 && used+least > t.width {
				used, widths[i] = used-widths[i], 0
			}
		}
	}
	for _, r := range rows {
		for i, cell := range r {
			switch {
			case i == len(r)-1 && t.wraps && t.width > 0:
				lines := wrap(strings.TrimLeft(cell, " "), max(t.width-used-2, 10), 0)
				out.WriteString("  " + strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", used+2)))
			case i == len(r)-1 && t.width > 0 && i == 0 && last > 0: // below a row
				out.WriteString(clip(cell, max(t.width, name)))
			case i == len(r)-1 && t.width > 0:
				out.WriteString(clip(cell, max(t.width-used, name)))
			case i == len(r)-1:
				out.WriteString(cell)
			case i < last && widths[i] > 0:
				out.WriteString(strings.Repeat(" ", widths[i]-columns(cell)))
				out.WriteString(cell)
			}
		}
		out.WriteByte('\n')
	}
}

// clip removes the middle of a name: mangled names differ at both ends.
func clip(name string, to int) string {
	n := utf8.RuneCountInString(name)
	if n <= to || columns(name) <= to {
		return name
	}
	r := []rune(name)
	return string(slices.Concat(r[:(to-3+1)/2], []rune("..."), r[n-(to-3)/2:]))
}
