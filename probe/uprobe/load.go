package uprobe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/acltrace/acltrace/probe/bpf"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// programs are the loaded eBPF programs and maps of probe/bpf, and the features that they use.
type programs struct {
	coll        *ebpf.Collection
	multi       bool        // attached by attachMany
	sleepable   bool        // see waitForPages
	cookies     bool        // see probeCookies
	entry, exit string      // names in coll; exit is "" with CountOnly
	stubs       *ebpf.Map   // without cookies: the programs that the stubs call
	life        []link.Link // tracepoints of processes
}

var (
	attachMany = &Feature{Name: "uprobe_multi", Linux: "6.6", test: features.HaveBPFLinkUprobeMulti}
	// Without it, programs skip memory whose page is not present.
	waitForPages = &Feature{Name: "programs that wait for pages", Linux: "6.0", test: sleeps}
	// Without it, each probe needs its own program: see stub.go.
	probeCookies = &Feature{Name: "cookies of probes", Linux: "5.15", test: func() error { return features.HaveProgramHelper(ebpf.Kprobe, asm.FnGetAttachCookie) }}
	// Without it, the kernel warns if a program allocates memory, since a probe may run inside the kernel's allocator.
	allocateAtProbes = &Feature{Name: "memory allocated at probes", Linux: "6.1"}
)

// OneByOne reports whether this kernel needs a perf event for each uprobe, which takes CAP_SYS_ADMIN.
func OneByOne() bool { return !attachMany.Supported() }

func sleeps() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, Flags: unix.BPF_F_SLEEPABLE, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		return err
	}
	return p.Close()
}

// load loads the programs and maps, with the best features that the kernel has.
func (u *Probes) load() error {
	// Kernels since 5.11 need no limit. On older ones loading fails with a clear error if this did.
	_ = rlimit.RemoveMemlock()
	u.programs.multi = !u.opts.OneByOne && !OneByOne()
	u.programs.cookies = u.programs.multi || !u.opts.noCookie && probeCookies.Supported()
	var failed error
	for _, sleepable := range []bool{true, false} {
		if sleepable && (u.opts.noSleep || !waitForPages.Supported()) {
			continue
		}
		err := u.loadAs(sleepable)
		if err == nil {
			return u.fill()
		}
		if errors.Is(err, unix.EPERM) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (u *Probes) loadAs(sleepable bool) error {
	spec, err := bpf.LoadUprobe()
	if err != nil {
		return err
	}
	last := u.model.Funcs[len(u.model.Funcs)-1].ID
	spec.Maps[bpf.UprobeMapFunctions].MaxEntries = uint32(last) + 1
	spec.Maps[bpf.UprobeMapCounts].MaxEntries = uint32(last) + 1
	spec.Maps[bpf.UprobeMapEvents].MaxEntries = u.ringBytes()
	for name, v := range map[string]any{
		bpf.UprobeVarCookies:     toByte(u.programs.cookies),
		bpf.UprobeVarFilter:      u.selection.filter,
		bpf.UprobeVarByName:      toByte(u.opts.Name != ""),
		bpf.UprobeVarName:        u.selection.name,
		bpf.UprobeVarCgroup:      u.selection.cgroup,
		bpf.UprobeVarCgroupLevel: u.selection.level,
		bpf.UprobeVarSample:      toByte(u.opts.Sample),
		bpf.UprobeVarRingSize:    uint64(u.ringBytes()),
		bpf.UprobeVarWakeAt:      uint64(u.ringBytes() / 8),
		bpf.UprobeVarLimit:       min(u.opts.PayloadLimit, 1<<62), // the verifier of Linux 6.18 rejects a limit above all lengths
		bpf.UprobeVarDeviceFrom:  u.model.Device.From,
		bpf.UprobeVarDeviceTo:    u.model.Device.To,
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if u.opts.noSleep || !allocateAtProbes.Supported() {
		// Allocated in full, so with fewer entries: a thread takes 15 KiB.
		for _, name := range []string{bpf.UprobeMapThreads, bpf.UprobeMapPids, bpf.UprobeMapNewborn, bpf.UprobeMapArguments, bpf.UprobeMapKernels, bpf.UprobeMapLayouts, bpf.UprobeMapCallers} {
			spec.Maps[name].Flags &^= unix.BPF_F_NO_PREALLOC
		}
		spec.Maps[bpf.UprobeMapThreads].MaxEntries = 2048
		spec.Maps[bpf.UprobeMapKernels].MaxEntries, spec.Maps[bpf.UprobeMapLayouts].MaxEntries = 16384, 4096
		spec.Maps[bpf.UprobeMapCallers].MaxEntries = 16384
	}
	u.programs.entry, u.programs.exit = bpf.UprobeProgEnter, bpf.UprobeProgLeave
	if sleepable {
		u.programs.entry, u.programs.exit = bpf.UprobeProgEnterLoops, bpf.UprobeProgLeaveLoops
	}
	want := []string{u.programs.entry, u.programs.exit}
	if u.opts.CountOnly {
		u.programs.entry, u.programs.exit = bpf.UprobeProgTally, ""
		want = []string{u.programs.entry}
	}
	for _, name := range want {
		p := spec.Programs[name]
		if u.programs.multi {
			p.AttachType = ebpf.AttachTraceUprobeMulti
		}
		if sleepable && !u.opts.CountOnly {
			p.Flags |= unix.BPF_F_SLEEPABLE
		}
	}
	want = append(want, bpf.UprobeProgExited, bpf.UprobeProgExeced)
	if u.selection.filter == filterPIDs {
		want = append(want, bpf.UprobeProgBorn)
	}
	for name := range spec.Programs {
		if !slices.Contains(want, name) {
			delete(spec.Programs, name)
		}
	}
	u.programs.coll, err = ebpf.NewCollection(spec)
	u.programs.sleepable = sleepable
	return err
}

func toByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func (u *Probes) ringBytes() uint32 {
	n := u.opts.RingBytes
	if n <= 0 {
		n = 8 << 20
	}
	size := uint32(os.Getpagesize())
	for size < uint32(n) && size < 1<<30 {
		size *= 2
	}
	return size
}

// fill writes the function table and attaches the tracepoints of processes, before the first probe.
func (u *Probes) fill() (err error) {
	for i := range u.model.Funcs {
		f := &u.model.Funcs[i]
		if f.Form != nil {
			continue // a probe can't distinguish forms
		}
		if t, err := functionTable(u.model, f, runtime.GOARCH); err == nil {
			if err := u.programs.coll.Maps[bpf.UprobeMapFunctions].Put(uint32(f.ID), t); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	// Processes are added before the tracepoints are attached and again after it. This covers processes created in between.
	if err := u.addSelected(); err != nil {
		return err
	}
	for _, p := range []struct{ program, at string }{
		{bpf.UprobeProgBorn, "task_newtask"}, {bpf.UprobeProgExeced, "sched_process_exec"}, {bpf.UprobeProgExited, "sched_process_exit"}} {
		if program := u.programs.coll.Programs[p.program]; program != nil {
			l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: p.at, Program: program})
			if err != nil {
				return fmt.Errorf("tracepoint %s: %w", p.at, err)
			}
			u.programs.life = append(u.programs.life, l)
		}
	}
	if err := u.addSelected(); err != nil {
		return err
	}
	if !u.programs.cookies {
		if err := u.prepareStubs(); err != nil {
			return err
		}
	}
	if !u.opts.CountOnly {
		if u.reader, err = ringbuf.NewReader(u.programs.coll.Maps[bpf.UprobeMapEvents]); err != nil {
			return err
		}
	}
	u.decoder = newDecoder(u.model, u.opts.PayloadLimit, u.programs.sleepable, newKernels(u.programs.coll.Maps[bpf.UprobeMapKernels], u.programs.coll.Maps[bpf.UprobeMapLayouts]),
		newCallers(u.model, u.programs.coll.Maps[bpf.UprobeMapCallers], u.operators.add))
	u.decoder.kernels.noLayouts = u.opts.noLayouts
	return nil
}
