package pprof

import (
	"bytes"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// A profile shows each kind of call and task. The text is that of `go tool pprof -raw`.
func TestEachKindOfCallIsShown(t *testing.T) {
	tl := testtrace.Rich(t)
	for _, x := range []struct {
		name string
		o    *Options
	}{
		{"pprof", nil},
		{"pprof --step 1", &Options{Select: &timeline.Selection{Steps: &human.Numbers{First: 1, Last: 1}}}},
	} {
		var b bytes.Buffer
		res, err := Write(&b, tl.Reader, tl.Model, x.o)
		if err != nil {
			t.Fatal(err)
		}
		p, err := profile.Parse(&b)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "rich.txtar", x.name, p.String())
		if want := map[bool]int{true: len(tl.Calls), false: 5}[x.o == nil]; res.Calls != want {
			t.Errorf("%s: %d calls, want %d", x.name, res.Calls, want)
		}
	}
}
