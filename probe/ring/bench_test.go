package ring

import (
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/probe"
)

// BenchmarkDrain reads the rings of a program that made 100,000 launches. It reports the processor time for a call. The program
// runs with the timer stopped.
func BenchmarkDrain(b *testing.B) {
	const launches = 100_000
	program, env := hotpathProgram(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took time.Duration
	for b.Loop() {
		b.StopTimer()
		s, err := Create(acl.Model, &Options{Buffers: Buffers{RingBytes: 32 << 20}, Calls: Calls{NoTaskIDs: true}})
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(program, strconv.Itoa(launches))
		cmd.Env = append(env, "ACLTRACE_SESSION="+s.Dir())
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		n := &counted{}
		before := processorTime()
		b.StartTimer()
		if err := s.Finish(n); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		took += processorTime() - before
		if n.calls < launches {
			b.Fatalf("%d calls", n.calls)
		}
		s.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/launches, "cpu-ns/call")
}

// processorTime returns the processor time of this thread.
func processorTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// counted is a sink that counts calls.
type counted struct {
	everything
	calls int
}

func (c *counted) Call(*probe.Call) error       { c.calls++; return nil }
func (c *counted) Payload(*probe.Payload) error { return nil }
