package record

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
)

// A worker that was killed by a signal inside a recorded server was not reported.
func TestHowWorkersEnd(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	program := testenv.CompileC(t, "workers", []string{"testdata/workers.c"})
	for _, ring := range []*Ring{nil, {}} {
		out := filepath.Join(t.TempDir(), "w.aclt")
		res, err := Run(context.Background(), &Options{Model: acl.Model, Output: out, Sim: true, Ring: ring, Command: []string{program}})
		if err != nil || res.ExitCode != 0 || res.Lost != 0 {
			t.Fatalf("%v: %+v", err, res)
		}
		known := statusKnown()
		died := map[string]Died{}
		for _, d := range res.Died {
			died[d.Command[strings.LastIndexByte(d.Command, ' ')+1:]] = d
		}
		term, inside := died["term"], died["inside"]
		if len(died) != 2 || known && (term.Signal != int(syscall.SIGTERM) || inside.Signal != int(syscall.SIGKILL)) ||
			len(term.Last) != 1 || !strings.HasSuffix(term.Last[0], " after aclrtCreateStream") || len(inside.Last) != 2 || !strings.HasSuffix(inside.Last[0], " in aclrtSynchronizeStream") || !strings.HasSuffix(inside.Last[1], " in hostFunction") {
			t.Errorf("died: %+v", res.Died)
		}
		if ring != nil {
			if len(res.Sealed) != 1 {
				t.Fatalf("sealed %v", res.Sealed)
			}
			out = res.Sealed[0]
		}
		r, err := format.Open(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, p := range r.Processes() {
			how := p.Argv[len(p.Argv)-1]
			code := map[string]int{"_exit": 5, "exit": 7}[how]
			if p.End < p.Start || p.Killed != slices.Contains([]string{"term", "inside"}, how) || p.ExitCode != code || p.ExitUnknown || known && p.Signal != died[how].Signal {
				t.Errorf("%+v", p)
			}
		}
		rep, err := blame.Blame(r, acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		waits := func(l blame.LastCall) bool { return l.Func == "aclrtSynchronizeStream" && !l.Returned }
		inCall := func(d blame.Died) bool { return slices.ContainsFunc(d.Last, waits) }
		crashed := 2
		if known {
			crashed = 1 // SIGTERM is an ordinary end
		}
		if at := slices.IndexFunc(rep.Died, inCall); len(rep.Died) != crashed || at < 0 || crashed == 2 && inCall(rep.Died[1-at]) {
			t.Errorf("blame: %+v", rep.Died)
		}
	}
}

// statusKnown reports whether this kernel returns the exit status of reaped processes, as Linux 6.15 and later do.
func statusKnown() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	release := unix.ByteSliceToString(u.Release[:])
	var major, minor int
	for i, f := range strings.SplitN(release, ".", 3)[:2] {
		n := 0
		for _, c := range f {
			if c < '0' || c > '9' {
				break
			}
			n = 10*n + int(c-'0')
		}
		if i == 0 {
			major = n
		} else {
			minor = n
		}
	}
	return major > 6 || major == 6 && minor >= 15
}
