package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
)

// The tables listed the zero fields of every function: 9,042 times `false`.
func TestLiteralHasNoZeroFields(t *testing.T) {
	v := api.Func{Name: "f\"", Form: &api.Form{Tag: 2}, Params: []api.Param{{Name: "p", Role: api.Use, Memory: api.Memory{Size: api.Size{Mul: []uint8{1, 2}}}}},
		Meaning: api.Meaning{Task: api.Copy, Stream: -1}, ReplayRules: api.ReplayRules{Keeps: []string{"a"}}}
	want := `api.Func{Name: "f\"", Params: []api.Param{{Name: "p", Role: 1, Memory: api.Memory{Size: api.Size{Mul: []byte{1, 2}}}}}, Form: &api.Form{Tag: 2},
		Meaning: api.Meaning{Task: 2, Stream: -1}, ReplayRules: api.ReplayRules{Keeps: []string{"a"}}}`
	if got := literal(reflect.ValueOf(v), true); squeeze(got) != squeeze(want) {
		t.Errorf("literal %s, want %s", got, want)
	}
	cases := map[int64][]api.Member{3: nil, -1: {{Offset: 4}}}
	if got, want := literal(reflect.ValueOf(cases), true), `map[int64][]api.Member{-1: {{Offset: 4}}, 3: {}}`; got != want {
		t.Errorf("literal %s, want %s", got, want)
	}
}

// squeeze removes white space.
func squeeze(s string) string {
	return strings.NewReplacer("{ ", "{", ", }", "}").Replace(strings.Join(strings.Fields(s), " "))
}
