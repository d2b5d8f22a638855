package ring

import (
	"bytes"
	"errors"
	"os/exec"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/probe"
)

// madeLaunches returns a session, which stays when it is closed, in which a program has made n launches and two other calls.
func madeLaunches(t *testing.T, program string, env []string, n string) *Session {
	t.Helper()
	s, err := Create(acl.Model, &Options{Buffers: Buffers{RingBytes: 1 << 20}, Calls: Calls{NoTaskIDs: true}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.files.keep = true
	cmd := exec.Command(program, n)
	cmd.Env = append(env, "ACLTRACE_SESSION="+s.Dir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return s
}

// write appends a record to the only ring.
func (s *Session) write(b []byte) {
	r := s.rings.bySlot[0]
	head := r.head.head.Load()
	copy(r.data[head&(r.size-1):], b)
	r.head.head.Store(head + uint64(len(b)))
}

// stopping is a sink that keeps calls and fails at one of them.
type stopping struct {
	everything
	at   int
	call func()
}

var errStopped = errors.New("stopped")

func (s *stopping) Call(c *probe.Call) error {
	if err := s.everything.Call(c); err != nil {
		return err
	}
	if s.call != nil {
		s.call()
	}
	if len(s.calls) == s.at {
		return errStopped
	}
	return nil
}

// A recorder that is killed at any call has taken the calls that it passed on, and no others: the next recorder takes the rest. A
// recorder that was killed between two looks at the ring's space left calls that were read twice.
func TestTakeOverAtAnyCall(t *testing.T) {
	program, env := hotpathProgram(t)
	for _, at := range []int{1, 500, 1002} {
		s := madeLaunches(t, program, env, "1000")
		first := &stopping{at: at}
		if _, err := s.Drain(first); !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
		s.Close()
		next, err := Open(acl.Model, s.Dir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var rest everything
		if err := next.Finish(&rest); err != nil {
			t.Fatal(err)
		}
		next.Close()
		if next.Handed != uint64(at) || at+len(rest.calls) != 1002 || len(rest.gaps) != 0 || len(next.Damage()) != 0 {
			t.Errorf("killed at call %d: %d taken, then %d calls, gaps %+v, damage %+v", at, next.Handed, len(rest.calls), rest.gaps, next.Damage())
		}
	}
}

// A recorder that came while a thread was in an enclosing call took the end of the call, whose beginning the recorder before it had
// read, for damage, and gave up the ring.
func TestTakeOverInsideACall(t *testing.T) {
	program, env := hotpathProgram(t)
	s := madeLaunches(t, program, env, "10")
	var calls everything
	if err := s.Finish(&calls); err != nil {
		t.Fatal(err)
	}
	made := len(calls.calls)
	call := bytes.Clone(s.rings.record)
	begin, end := bytes.Clone(call), bytes.Clone(call[:callHeader])
	begin[6], end[6] = recBegin, recEnd
	le.PutUint32(end, callHeader)
	s.write(begin)
	if _, err := s.Drain(&calls); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{call, end, call} {
		s.write(b)
	}
	s.Close()
	next, err := Open(acl.Model, s.Dir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	var rest everything
	if err := next.Finish(&rest); err != nil {
		t.Fatal(err)
	}
	if next.Handed != uint64(made)+1 || len(rest.calls) != 2 || len(next.Damage()) != 0 {
		t.Errorf("%d of %d calls taken, then %d calls, damage %+v", next.Handed, made+1, len(rest.calls), next.Damage())
	}
}

// While a program wrote faster than the recorder read, Drain did not return, and the recorder did nothing else.
func TestDrainReturns(t *testing.T) {
	program, env := hotpathProgram(t)
	s := madeLaunches(t, program, env, "10")
	defer s.Close()
	calls := &stopping{at: 1 << 20}
	calls.call = func() { s.write(s.rings.record) } // another call for each one that was read
	load, err := s.Drain(calls)
	if err != nil || load != Pressed {
		t.Errorf("%v: load %v after %d calls", err, load, len(calls.calls))
	}
}

// A call in progress when a recorder left counted as one that never returned, although its process was alive.
func TestLeaveCutsCallsOfLiveProcesses(t *testing.T) {
	program, env := hotpathProgram(t)
	for _, alive := range []bool{true, false} {
		s := madeLaunches(t, program, env, "1")
		var calls everything
		if err := s.Finish(&calls); err != nil {
			t.Fatal(err)
		}
		begin := bytes.Clone(s.rings.record)
		begin[6] = recBegin
		s.write(begin)
		if _, err := s.Drain(&calls); err != nil {
			t.Fatal(err)
		}
		m := s.rings.bySlot[0].member
		if m.gone = !alive; alive {
			m.info = nil // alive does not look at the process
		}
		if err := s.Leave(&calls); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if c := calls.calls[len(calls.calls)-1]; !c.Unfinished() || c.Cut != alive {
			t.Errorf("process alive: %v; the call in progress: %+v", alive, c)
		}
	}
}
