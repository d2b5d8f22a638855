package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

type nobody struct{}

func (nobody) Process(*Process) error   { return nil }
func (nobody) Call(*Call) error         { return nil }
func (nobody) Payload(*Payload) error   { return nil }
func (nobody) Gap(*Gap) error           { return nil }
func (nobody) TaskTime(*TaskTime) error { return nil }

// emptyPair puts programs that do nothing on the entry and the return of the launch, at the address that the tracer chooses or, as
// tools that know no better do, at the symbol.
func emptyPair(b *testing.B, lib string, naive bool) {
	b.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { p.Close() })
	sites, err := findSites(lib, []*api.Func{acl.Model.Lookup("aclrtLaunchKernelWithHostArgs")}, runtime.GOARCH)
	if err != nil || len(sites) != 1 {
		b.Fatal(sites, err)
	}
	at := sites[0].offset
	if naive {
		at -= 4
	}
	ex, err := link.OpenExecutable(lib)
	if err != nil {
		b.Fatal(err)
	}
	o := &link.UprobeMultiOptions{Addresses: []uint64{at}}
	enter, err := ex.UprobeMulti(nil, p, o)
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { enter.Close() })
	leave, err := ex.UretprobeMulti(nil, p, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { leave.Close() })
}

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
	for _, naive := range []bool{false, true} {
		name := map[bool]string{false: "pair", true: "naive"}[naive]
		b.Run(name, func(b *testing.B) {
			emptyPair(b, lib, naive)
			launches(b)
		})
	}
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
