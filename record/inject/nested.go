package inject

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/record/session"
)

// A recording inside another one takes over the programs that it starts: each call is in one trace, the inner one. It leaves
// a note in the outer session's folder.
const notePattern = "nested."

// TakeOver removes an outer recording's parts from an environment, and returns the folder of that recording's session, "" if
// there is none.
func TakeOver(env []string) (own []string, outer string) {
	drop := func(v, name, file string) string {
		list, ok := strings.CutPrefix(v, name+"=")
		if !ok || !strings.Contains(list, file) {
			return v
		}
		rest := slices.DeleteFunc(strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ' ' }), func(path string) bool {
			return filepath.Base(path) == file && strings.HasPrefix(filepath.Base(filepath.Dir(path)), shimPattern)
		})
		return name + "=" + strings.Join(rest, ":")
	}
	for _, v := range env {
		if dir, ok := strings.CutPrefix(v, "ACLTRACE_SESSION="); ok {
			outer = dir
			continue
		}
		if v = drop(drop(v, "LD_PRELOAD", artifacts.Shim), "LD_AUDIT", artifacts.Audit); v != "LD_PRELOAD=" && v != "LD_AUDIT=" {
			own = append(own, v)
		}
	}
	return own, outer
}

// LeaveNote notes in the outer session's folder that the outer recorder will not see a program.
func LeaveNote(outer string, pid int, program, output string) {
	if outer == "" || !session.IsSession(outer) {
		return
	}
	if abs, err := filepath.Abs(output); err == nil {
		output = abs
	}
	// Ignore errors: the outer recorder may have ended, or belong to another user.
	_ = os.WriteFile(filepath.Join(outer, notePattern+strconv.Itoa(pid)), []byte(program+"\n"+output), 0o600)
}

// Notes returns the programs that other recorders have taken over from a session.
func Notes(session string) (us []format.Unhooked) {
	files, _ := filepath.Glob(filepath.Join(session, notePattern+"*"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		pid, err2 := strconv.Atoi(filepath.Base(f)[len(notePattern):])
		exe, output, ok := strings.Cut(string(b), "\n")
		if err == nil && err2 == nil && ok {
			us = append(us, format.Unhooked{PID: pid, Exe: exe, Reason: fmt.Sprintf("another acltrace records this process and its children, in %s", output)})
		}
	}
	return us
}
