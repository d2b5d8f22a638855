package report

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// A table that is too wide loses columns first, then the middle of names.
func TestWideTableLosesColumnsFirst(t *testing.T) {
	for width, want := range map[int]string{
		0: `
  calls  failed      mean    max  function
      7       0  10.00 us  12 us  aclrtMémoire::aVeryLongNameThatHasMuchInItsMiddle<float, 16>
  12345       1      1 us      -  f

  one
   22
`,
		200: `
  calls  failed      mean    max  function
      7       0  10.00 us  12 us  aclrtMémoire::aVeryLongNameThatHasMuchInItsMiddle<float, 16>
  12345       1      1 us      -  f

  one
   22
`,
		60: `
  calls  failed    max  function
      7       0  12 us  aclrtMémoire::aV...Middle<float, 16>
  12345       1      -  f

  one
   22
`,
		47: `
  calls    max  function
      7  12 us  aclrtMémoire:...ddle<float, 16>
  12345      -  f

  one
   22
`,
	} {
		var b strings.Builder
		tab := newTable(&b, &TextOptions{Width: width})
		fmt.Fprintf(tab, "\ncalls\tfailed\tmean\tmax\t  function\n7\t0\t10.00 us\t12 us\t  aclrtMémoire::aVeryLongNameThatHasMuchInItsMiddle<float, 16>\n12345\t1\t1 us\t-\t  f\n\none\t\n22\t\n")
		if err := tab.Flush(); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, b.String(), want)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(line) - 1; width > 0 && n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
	}
}

// A column without values is left out. Its head and its dashes had taken room that names need.
func TestTableLeavesOutEmptyColumns(t *testing.T) {
	var b strings.Builder
	tab := newTable(&b, nil)
	Printf(tab, "calls\tfailed\tbytes\tin calls\tmax\t  function\n0\t0\t0 B\t0 ns\t-\t  f\n0\t0\t0 B\t0 ns\t12 us\t  g\n")
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "  calls    max  function\n      0      -  f\n      0  12 us  g\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
