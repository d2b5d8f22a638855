package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMicrosecondsAreReadExactly(t *testing.T) {
	for text, want := range map[Number]int64{
		"0": 0, "1": 1000, "12.345": 12345, "12.3": 12300, "12.": 12000, " 7.25 ": 7250, "1.0004": 1000, "1.0005": 1001, "1.00049": 1000, "1.0014999": 1001, "1.0015": 1002,
		"1700000000123456.789": 1700000000123456789, "1e3": 1000000, "0e0": 0, "1.5e1": 15000, "1.5E+1": 15000, "25e-4": 3, "4611686018427387": 4611686018427387000, "1.05": 1050, "1.005": 1005,
	} {
		if got, err := text.Nanoseconds(); err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []Number{"", "-1", "-0.5", "a", "1.x", "1.2:", "1.0005x", "1./", "NaN", "+Inf", "9223372036854775807", "4611686018427388", "1e300", "1.2.3"} {
		if got, err := text.Nanoseconds(); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	if n, ok := Number("12").Int(); n != 12 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if n, ok := Number("9223372036854775807").Int(); n != 9223372036854775807 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	for _, text := range []Number{"1.5", "9223372036854775808", ""} {
		if n, ok := text.Int(); ok {
			t.Errorf("%q is %d", text, n)
		}
	}
}

func TestInvalidTimesAreNamed(t *testing.T) {
	e := Event{TS: "1.5", Dur: "2"}
	if start, dur, err := e.Times("a"); err != nil || start != 1500 || dur != 2000 {
		t.Errorf("%d, %d, %v", start, dur, err)
	}
	for want, e := range map[string]Event{`ts "x" of "a" is no time`: {TS: "x", Dur: "1"}, `dur "y" of "a" is no time`: {TS: "1", Dur: "y"}} {
		if _, _, err := e.Times("a"); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, errTime) {
			t.Errorf("%v", err)
		}
	}
}

// Values of other types than the profiler writes are empty, and numbers may be strings.
func TestUnexpectedTypesAreEmpty(t *testing.T) {
	var e Event
	if err := json.Unmarshal([]byte(`{"ph":"X","name":7,"cat":"c","pid":"12","tid":13,"ts":"N/A","dur":null}`), &e); err != nil {
		t.Fatal(err)
	}
	if want := (Event{Phase: "X", Cat: "c", PID: "12", TID: "13"}); e != want {
		t.Errorf("%+v", e)
	}
}

// The events are a list, or in an object whose other members are before and after them. Errors name the line and the column.
func TestEventsInListsAndObjects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	stop := errors.New("stop")
	for _, c := range []struct{ text, names, members, err string }{
		{`[{"name":"a"},{"name":"b"}]`, "a b", "", ""},
		{`[]`, "", "", ""},
		{`{"x":1,"traceEvents":[{"name":"a"}],"y":[2],"z":{}}`, "a", "x=1 y=[2] z={}", ""},
		{`{"x":1}`, "", "x=1", ":1:7: no list of events"},
		{`7`, "", "", ":1:2: no list of events"},
		{`{"traceEvents":7}`, "", "", "no list of events"},
		{``, "", "", ":1:1: the file ends within the trace"},
		{"[\n{\"name\":\"a\"},\n{\"na", "a", "", ":2:13: the file ends within the trace"},
		{`[{"name":"a"}`, "a", "", ":1:14: the file ends within the trace"},
		{"[{\"name\":\"a\"},\n {\"name\" \"b\"}]", "a", "", ":2:10: invalid character '\"'"},
		{"[{\"name\":\"a\"},\n {\"name\":\"stop\"}]", "a stop", "", ":1:14: stop"},
		{`{"traceEvents":[],"y":}`, "", "", "invalid character '}'"},
		{`{"x":}`, "", "", "invalid character '}'"},
		{`{"traceEvents":[{"name":"a"}],"y":1`, "a", "y=1", ""},
		{`[{"ph":` + strings.Repeat("[", 10001), "", "", "nested more than 10,000 levels"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var names, members []string
		err = Read(path, f, func(name string, v json.RawMessage) { members = append(members, fmt.Sprintf("%s=%s", name, v)) }, func(e *Event) error {
			if names = append(names, string(e.Name)); e.Name == "stop" {
				return stop
			}
			return nil
		})
		f.Close()
		if got := strings.Join(names, " "); got != c.names || strings.Join(members, " ") != c.members || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) ||
			err != nil && !strings.HasPrefix(err.Error(), path+":") {
			t.Errorf("%.40s: %s, %q, %v", c.text, got, members, err)
		}
	}
	if err := os.WriteFile(path, []byte(`{"x":1,"traceEvents":[{"name":"a"}],"y":`), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []Text
	if err := Read(path, f, nil, func(e *Event) error { names = append(names, e.Name); return nil }); err != nil || !slices.Equal(names, []Text{"a"}) {
		t.Errorf("without members %q, %v", names, err)
	}
	if line, column := position(path+".gone", 7); line != 1 || column != 1 {
		t.Errorf("%d:%d in no file", line, column)
	}
}

func TestCompressedFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"packed": "\x1f\x8b\x08", "short": "\x1f", "text": "[]"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if want := path + ":1:1: it is compressed by gzip: unpack it first"; name == "packed" && (err == nil || !strings.Contains(err.Error(), want)) || name != "packed" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "read profile: ") {
		t.Error(err)
	}
}
