package ring

import (
	"os/exec"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/probe"
)

// BenchmarkDrain reads the rings of a program that made 100,000 launches. The program runs with the timer stopped.
func BenchmarkDrain(b *testing.B) {
	const launches = 100_000
	program, env := hotpathProgram(b)
	for b.Loop() {
		b.StopTimer()
		s, err := Create(acl.Model, &Options{RingBytes: 32 << 20, NoTaskIDs: true})
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(program, "100000")
		cmd.Env = append(env, "ACLTRACE_SESSION="+s.Dir())
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		n := &counted{}
		b.StartTimer()
		if err := s.Finish(n); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if n.calls < launches {
			b.Fatalf("%d calls", n.calls)
		}
		s.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/launches, "ns/call")
}

// counted is a sink that counts calls.
type counted struct {
	everything
	calls int
}

func (c *counted) Call(*probe.Call) error       { c.calls++; return nil }
func (c *counted) Payload(*probe.Payload) error { return nil }
