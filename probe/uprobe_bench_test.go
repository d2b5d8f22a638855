package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
)

type nobody struct{}

func (nobody) Process(*Process) error   { return nil }
func (nobody) Call(*Call) error         { return nil }
func (nobody) Payload(*Payload) error   { return nil }
func (nobody) Gap(*Gap) error           { return nil }
func (nobody) TaskTime(*TaskTime) error { return nil }

// BenchmarkUprobe is what uprobes add to a launch with 64 bytes of arguments, in the program of the shim's benchmark: its
// median by its own clock.
func BenchmarkUprobe(b *testing.B) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		b.Skip("no C compiler")
	}
	dir := b.TempDir()
	lib, program := filepath.Join(dir, "libascendcl.so"), filepath.Join(dir, "launch")
	for _, args := range [][]string{
		{"-O0", "-fcf-protection", "-fPIC", "-shared", "-Wl,-soname,libascendcl.so", "-o", lib, "shim/bench/null.c"},
		{"-O2", "-o", program, "shim/bench/launch.c", "-L" + dir, "-lascendcl", "-lpthread"},
	} {
		if out, err := exec.Command(cc, append([]string{"-I../api/acl/include"}, args...)...).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	launches := func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command(program, "x", "200")
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
			out, err := cmd.Output()
			if err != nil {
				b.Fatal(err)
			}
			var ns float64
			if _, err := fmt.Sscanf(string(out[strings.Index(string(out), ":")+1:]), "%f", &ns); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(ns, "ns/launch")
		}
	}
	b.Run("none", launches)
	for name, opts := range map[string]*UprobeOptions{"counted": {CountOnly: true}, "recorded": {}} {
		b.Run(name, func(b *testing.B) {
			u, err := AttachUprobes(acl.Model, lib, opts)
			if errors.Is(err, ErrNotPermitted) || errors.Is(err, ErrNotSupported) {
				b.Skip(err)
			}
			if err != nil {
				b.Fatal(err)
			}
			defer u.Close()
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan error, 1)
			if !opts.CountOnly {
				go func() { done <- u.Run(ctx, nobody{}) }()
			} else {
				done <- nil
			}
			launches(b)
			stop()
			<-done
		})
	}
}
