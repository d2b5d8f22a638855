package uprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

type nobody struct{}

func (nobody) Process(*probe.Process) error   { return nil }
func (nobody) Call(*probe.Call) error         { return nil }
func (nobody) Payload(*probe.Payload) error   { return nil }
func (nobody) Gap(*probe.Gap) error           { return nil }
func (nobody) TaskTime(*probe.TaskTime) error { return nil }

// emptyPair attaches empty programs to entry and return of the launch, at acltrace's offset or, if naive, at the symbol. It
// returns a function that detaches them.
func emptyPair(b *testing.B, lib string, naive bool) (detach func()) {
	b.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		b.Skip(err)
	}
	sites, _, err := findSites(lib, []*api.Func{acl.Model.Lookup("aclrtLaunchKernelWithHostArgs")}, runtime.GOARCH)
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
	leave, err := ex.UretprobeMulti(nil, p, o)
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		enter.Close()
		leave.Close()
		p.Close()
	}
}

// recorded attaches acltrace's probes.
func recorded(b *testing.B, lib string, opts *Options) (detach func()) {
	b.Helper()
	u, err := attach(lib, opts)
	testenv.Uprobes(b, err)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	if opts.CountOnly {
		done <- nil
	} else {
		go func() { done <- u.Run(ctx, nobody{}) }()
	}
	return func() {
		stop()
		if err := errors.Join(<-done, u.Close()); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkUprobe measures the time that uprobes add to a launch with 64 bytes of arguments, in the shim's benchmark program. It
// prints medians, and multiples of an empty pair. The variants take turns, because the machine's speed varies.
func BenchmarkUprobe(b *testing.B) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		b.Skip("no C compiler")
	}
	dir := b.TempDir()
	lib, program := filepath.Join(dir, "libascendcl.so"), filepath.Join(dir, "launch")
	for _, args := range [][]string{
		{"-O0", "-fcf-protection", "-fPIC", "-shared", "-Wl,-soname,libascendcl.so", "-o", lib, "../shim/bench/null.c"},
		{"-O2", "-o", program, "../shim/bench/launch.c", "-L" + dir, "-lascendcl", "-lpthread"},
	} {
		if out, err := exec.Command(cc, append([]string{"-I../../api/acl/include"}, args...)...).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	launch := func(rounds int) float64 {
		cmd := exec.Command(program, "x", fmt.Sprint(rounds))
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		var ns float64
		if _, err := fmt.Sscanf(string(out[strings.Index(string(out), ":")+1:]), "%f", &ns); err != nil {
			b.Fatal(err)
		}
		return ns
	}
	ways := []struct {
		name   string
		rounds int
		attach func() (detach func())
	}{
		{"pair", 100, func() func() { return emptyPair(b, lib, false) }},
		{"naive", 20, func() func() { return emptyPair(b, lib, true) }},
		{"counted", 100, func() func() { return recorded(b, lib, &Options{CountOnly: true}) }},
		{"recorded", 100, func() func() { return recorded(b, lib, &Options{}) }},
	}
	took, ratio := make([][]float64, len(ways)), make([][]float64, len(ways))
	for b.Loop() {
		bare := launch(100)
		for i, w := range ways {
			detach := w.attach()
			took[i] = append(took[i], launch(w.rounds)-bare)
			detach()
			ratio[i] = append(ratio[i], took[i][len(took[i])-1]/took[0][len(took[0])-1])
		}
	}
	middle := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	for i, w := range ways {
		b.ReportMetric(middle(took[i]), "ns-"+w.name)
		b.ReportMetric(middle(ratio[i]), "pairs-"+w.name)
	}
}
