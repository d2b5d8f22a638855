package testenv

import (
	"fmt"
	"strings"
	"testing"
)

// Vary shows the use of each field, once for each different text. Values with which the text panics, and fields that it does not use, are left out.
func TestVaryShowsEachUsedField(t *testing.T) {
	type kind uint8
	type part struct {
		Name string
		Next *part // a part does not contain itself
	}
	type whole struct {
		Kind   kind
		Used   bool
		Parts  []part
		Needed *part
		Unused string
		hidden int
	}
	got := Vary(func(x *whole) { x.hidden = 7 }, func(x *whole) string {
		return fmt.Sprintf("%s %v %s\n%d %d\n", [...]string{"a", "b"}[x.Kind], x.Used, x.Needed.Name, len(x.Parts), x.hidden) + strings.Repeat("part\n", len(x.Parts))
	})
	want := `a true name
2 7
part
part

Kind: 1
- a true name
+ b true name

Used: false
- a true name
+ a false name

Parts: 0 elements
- 2 7
- part
- part
+ 0 7

Parts: 1 elements
- 2 7
+ 1 7

Needed.Name: ""
- a true name
+ a true 
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}
