package chrome

import (
	"bytes"
	"testing"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// The files for Chrome and MindStudio show each kind of event, byte for byte.
func TestEachKindOfEventIsShown(t *testing.T) {
	tl := testtrace.Rich(t)
	for _, x := range []struct {
		name string
		o    *Options
	}{
		{"chrome", nil},
		{"chrome --no-args --step 1", &Options{NoArgs: true, Select: &timeline.Selection{Steps: &human.Numbers{First: 1, Last: 1}}}},
		{"chrome --mindstudio --from 3us --to 18us --func …", &Options{MindStudio: true, Select: &timeline.Selection{From: 3_000, To: 18_000, Funcs: []string{"*Launch*", "*Memcpy*", "*StreamWaitEvent*", "*RecordEvent*"}}}},
	} {
		var b bytes.Buffer
		if _, err := Write(&b, tl.Reader, tl.Model, x.o); err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "rich.txtar", x.name, b.String())
	}
}
