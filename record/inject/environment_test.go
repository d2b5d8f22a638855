package inject

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/format"
)

// A variable keeps the values that it has, behind the new one, and no other environment is changed.
func TestNewValueComesFirst(t *testing.T) {
	env := []string{"A=1", "B=", "AB=3"}
	for name, want := range map[string][]string{"A": {"A=x:1", "B=", "AB=3"}, "B": {"A=1", "B=x", "AB=3"}, "C": {"A=1", "B=", "AB=3", "C=x"}} {
		if got := Prepend(env, name, "x", ":"); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if !slices.Equal(env, []string{"A=1", "B=", "AB=3"}) {
		t.Errorf("the environment became %q", env)
	}
}

// The parts of an outer recording are removed, and all else that the user preloads stays.
func TestTakeOver(t *testing.T) {
	shim, audit := "/tmp/"+shimPattern+"1/libacltrace.so", "/tmp/"+shimPattern+"1/libacltrace-audit.so"
	for _, c := range []struct {
		env, own []string
		outer    string
	}{
		{[]string{"A=1", "LD_PRELOAD=/x.so"}, []string{"A=1", "LD_PRELOAD=/x.so"}, ""},
		{[]string{"LD_PRELOAD=" + shim, "ACLTRACE_SESSION=/s", "LD_AUDIT=" + audit, "A=1"}, []string{"A=1"}, "/s"},
		{[]string{"LD_PRELOAD=/x.so:" + shim + " /y.so", "LD_AUDIT=/a.so:" + audit}, []string{"LD_PRELOAD=/x.so:/y.so", "LD_AUDIT=/a.so"}, ""},
		{[]string{"LD_PRELOAD=/mine/libacltrace.so", "XLD_PRELOAD=" + shim}, []string{"LD_PRELOAD=/mine/libacltrace.so", "XLD_PRELOAD=" + shim}, ""},
	} {
		if own, outer := TakeOver(c.env); !slices.Equal(own, c.own) || outer != c.outer {
			t.Errorf("%q: %q, %q", c.env, own, outer)
		}
	}
}

// The outer recording reports the programs that an inner one has taken over. Nothing is written into a folder that is no session.
func TestNotesReachTheOuterRecording(t *testing.T) {
	outer, none := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outer, "control"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(none)
	LeaveNote(outer, 7, "/bin/a b", "x.aclt")
	LeaveNote(outer, 8, "/bin/c", "/y.aclt")
	LeaveNote(none, 9, "/bin/c", "/y.aclt")
	LeaveNote("", 9, "/bin/c", "/y.aclt")
	for name, text := range map[string]string{notePattern + "x": "a\nb", notePattern + "5": "a"} {
		if err := os.WriteFile(filepath.Join(outer, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []format.Unhooked{
		{PID: 7, Exe: "/bin/a b", Reason: "another acltrace records this process and its children, in " + filepath.Join(none, "x.aclt")},
		{PID: 8, Exe: "/bin/c", Reason: "another acltrace records this process and its children, in /y.aclt"},
	}
	if got := Notes(outer); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if left, err := os.ReadDir(none); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// LD_AUDIT needs glibc 2.35: older ones pass each call between libraries through it.
func TestKnowsAudit(t *testing.T) {
	for said, want := range map[string]string{
		"ld.so (GNU libc) stable release version 2.35.":         "",
		"ld.so (Ubuntu GLIBC 2.39) stable release version 2.39": "",
		"release version 3.0.":                                  "",
		"release version 2.34.":                                 "runs on glibc 2.34, older than 2.35",
		"release version 1.99.":                                 "runs on glibc 1.99, older than 2.35",
		"loader cannot load itself":                             "older than glibc 2.35",
		"musl libc (x86_64)\nVersion 1.2.4":                     "is linked to musl",
	} {
		if err := knowsAudit(said); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", said, err)
		}
	}
	for old, want := range map[string]string{"": "GLIBC_TUNABLES=a.b=5", "x=1": "GLIBC_TUNABLES=x=1:a.b=5", "a.b=3:x=1": "GLIBC_TUNABLES=x=1:a.b=5", "::a.bc=1": "GLIBC_TUNABLES=a.bc=1:a.b=5"} {
		if got := tuned([]string{"GLIBC_TUNABLES=" + old}, "a.b", "5"); got != want {
			t.Errorf("%q: %s", old, got)
		}
	}
	if e := (&AuditError{"no room", "A=1"}); e.Error() != "no room: set A=1" || (&AuditError{Why: "no room"}).Error() != "no room" {
		t.Error(e)
	}
}
