package record

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record/session"
)

// stuck is a Follower that keeps the goroutine that drains in its first call.
type stuck struct {
	in, out chan struct{}
}

func (s *stuck) Call(*format.Call, bool) {
	select {
	case <-s.out:
	default:
		close(s.in)
		<-s.out
	}
}

func (*stuck) Begin(*format.Meta)                   {}
func (*stuck) Process(*format.Process)              {}
func (*stuck) Thread(*format.Thread)                {}
func (*stuck) Device(uint32, *format.ProcessDevice) {}
func (*stuck) Measured(uint64, int64, int64)        {}
func (*stuck) Gap(*format.Gap)                      {}
func (*stuck) Drained(int64)                        {}
func (*stuck) End(int64)                            {}

// While the recorder was behind the program, or waited for a disk, it answered no request.
func TestControlDoesNotWaitForTheDrain(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s := &stuck{make(chan struct{}), make(chan struct{})}
	out := filepath.Join(t.TempDir(), "run.aclt")
	o := &Options{Model: acl.Model, Sim: true, Follower: s, Output: out, Command: []string{testenv.Built(t, "bin/examples/hello")}, Stdin: null, Stdout: null, Stderr: null}
	done := make(chan error, 1)
	go func() {
		_, err := Run(context.Background(), o)
		done <- err
	}()
	<-s.in
	mine := ""
	for _, dir := range session.List("") {
		if session.ReadNote(dir).PID == os.Getpid() {
			mine = dir
		}
	}
	for _, c := range []struct {
		do        session.Action
		recording bool
	}{{session.ActStatus, true}, {session.ActStop, false}, {session.ActStatus, false}, {session.ActStart, true}} {
		st, err := session.Ask(mine, &session.Request{Do: c.do})
		if err != nil || st.Recording != c.recording || st.Recorder != os.Getpid() || st.Output != out {
			t.Errorf("%s: %v %+v", c.do, err, st)
		}
	}
	close(s.out)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if g := r.Gaps(); len(g) != 1 || g[0].Reason != format.Detached || g[0].To <= g[0].From {
		t.Errorf("gaps %+v", g)
	}
}
