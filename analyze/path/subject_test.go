package path

import "testing"

func TestSubjectNames(t *testing.T) {
	for want, s := range map[string]Subject{
		"own time, main":                            {Kind: Own, Where: "main"},
		"blocked, main":                             {Kind: Blocked, Where: "main"},
		"recording, main":                           {Kind: Recording, Where: "main"},
		"wait waits for stream 1":                   {Kind: Wait, Func: "wait", Where: "stream 1"},
		"start of add on stream 1":                  {Kind: Start, Name: "add", Where: "stream 1"},
		"add on stream 1":                           {Kind: Task, Name: "add", Func: "launch", Where: "stream 1"},
		"launch in main":                            {Kind: Call, Func: "launch", Where: "main"},
		"add: launch in main":                       {Kind: Call, Func: "launch", Name: "add", Where: "main"},
		" in main":                                  {Kind: Call, Name: "add", Where: "main"},
		"add: copy waits for stream 1":              {Kind: Wait, Func: "copy", Name: "add", Where: "stream 1"},
		"wait waits for s, after b (not measured)":  {Kind: Wait, Func: "wait", Where: "s", After: "b"},
		"start of add on s, after b (not measured)": {Kind: Start, Name: "add", Where: "s", After: "b"},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}
