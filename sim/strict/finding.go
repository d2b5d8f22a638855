package strict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/internal/human"
)

// FindingKind is a finding's kind.
type FindingKind string

// Kinds of findings; see docs/reference/simulator.md.
const (
	PageableInCapture FindingKind = "pageable-copy-in-capture"
	FreedInFlight     FindingKind = "freed-in-flight"
	UseAfterFree      FindingKind = "use-after-free"
	HostBufferReused  FindingKind = "host-buffer-reused"
	MissingSync       FindingKind = "missing-synchronization"
	StreamRace        FindingKind = "race-between-streams"
	BlockDim          FindingKind = "block-dim"
	WrongDevice       FindingKind = "wrong-device"
	Unbalanced        FindingKind = "unbalanced-init"
	Leak              FindingKind = "leak"
)

// advice is the text for a kind: its title, the consequence on a device, and the remedy.
type advice struct{ title, means, remedy string }

var advices = map[FindingKind]advice{
	PageableInCapture: {"an asynchronous copy with pageable memory during a capture",
		"the copy runs at once and is not part of the model; a stricter runtime fails the capture.",
		"use memory of aclrtMallocHost, or copy before aclmdlRICaptureBegin."},
	FreedInFlight: {"memory is freed while a task may still use it",
		"the device may read or overwrite the next contents of this memory, or fail with 507015 (kernel) or 507013 (copy).",
		"synchronize with the stream of the task first, or call aclrtFreeWithDevSync or aclrtFreeHostWithDevSync."},
	UseAfterFree: {"freed memory is used",
		"the device reads or overwrites the next contents of this memory, or fails with 507015 (kernel) or 507013 (copy).",
		"free the memory after its last use."},
	HostBufferReused: {"a host buffer is changed before the asynchronous copy from it is done",
		"the device may get the new bytes, or some of both: the runtime reads the buffer when the copy runs, not during the call.",
		"synchronize with the stream, or with an event after the copy, before the buffer is written again; or use two buffers in turn."},
	MissingSync: {"the host uses memory that a task may still use",
		"the host may get old bytes or a mixture, or the task may read new bytes of the host: blocking copies wait for no stream.",
		"call aclrtSynchronizeStream for the stream of the task, or aclrtSynchronizeEvent for an event after it, first."},
	StreamRace: {"two streams use the same memory and nothing orders them",
		"the device runs the two in any order, or at once, and the result differs from one run to the next.",
		"record an event after the first (aclrtRecordEvent) and let the other stream wait for it (aclrtStreamWaitEvent), or use one stream."},
	BlockDim: {"a launch with more than 65535 blocks",
		"the launch fails, or the number of blocks is cut to 16 bits.",
		"launch at most 65535 blocks, and let each block do more."},
	WrongDevice: {"a stream is used for another device than its own",
		"the call fails, or works on memory that the device can't reach or does not own.",
		"call aclrtSetDevice or aclrtSetCurrentContext for the device that the stream was made on, and use streams of the device that has the memory."},
	Unbalanced: {"aclInit and aclFinalize do not match",
		"a second aclFinalize fails; without any, the runtime does not release its resources in order.",
		"call aclFinalize once for a successful aclInit, as the last call."},
	Leak: {"an object or memory is not released",
		"memory, streams and other device resources are limited; a long run exhausts them.",
		"free or destroy it before aclrtResetDevice and aclFinalize."},
}

// Call is a program call.
type Call struct {
	Function  string
	InThread  uint64 // sequence number in the thread, from 0 as in a trace
	InProcess uint64 // sequence number in the process, from 0 as in a trace
	InTrace   uint64 // 1 + the number in the replayed trace, 0 outside a replay
	Thread    uint32 // system thread id
	Stream    int32  // stream id; -1 for none
	Kernel    string // launched kernel; "" for none
	via       *Call  // call that runs the model with this task
}

func (c *Call) String() string {
	var b strings.Builder
	b.WriteString(c.Function)
	if c.Kernel != "" {
		fmt.Fprintf(&b, " of kernel %s", human.Kernel(c.Kernel))
	}
	if c.Stream >= 0 {
		fmt.Fprintf(&b, " on stream %d", c.Stream)
	}
	if c.InTrace > 0 {
		fmt.Fprintf(&b, " (call %d of the trace)", c.InTrace-1)
	} else {
		fmt.Fprintf(&b, " (call %d of thread %d, call %d of the process)", c.InThread, c.Thread, c.InProcess)
	}
	if c.via != nil {
		fmt.Fprintf(&b, ", run by %s", c.via)
	}
	return b.String()
}

// Part is a call's role in a finding.
type Part struct {
	Does string // for example "writes 64 bytes at 0x124000000000"
	Call *Call
}

// Finding is a mistake in the program. Findings of one kind between the same functions and kernels are merged.
type Finding struct {
	Kind FindingKind
	// Parts are the one or two calls involved, in call order.
	Parts []Part
	// Memory is the allocation concerned; nil if there is none or a part is about it.
	Memory *Part
	// Count is how often it occurred.
	Count int
}

// findings are the findings so far.
type findings struct {
	byKey  map[string]*Finding
	order  []*Finding
	closed bool
}

// found counts a finding and reports a new one. The caller holds the lock.
func (c *Checker) found(f *Finding) {
	if c.findings.closed {
		return
	}
	if len(f.Parts) == 2 && f.Parts[1].Call.InProcess < f.Parts[0].Call.InProcess {
		f.Parts[0], f.Parts[1] = f.Parts[1], f.Parts[0]
	}
	k := f.key()
	if old := c.findings.byKey[k]; old != nil {
		old.Count++
		return
	}
	f.Count = 1
	c.findings.byKey[k] = f
	c.findings.order = append(c.findings.order, f)
	if c.opts.Report != nil {
		c.opts.Report(f)
	}
}

func (f *Finding) key() string {
	k := string(f.Kind)
	for _, p := range f.Parts {
		k += "\x00" + p.Call.Function + "\x00" + p.Call.Kernel
	}
	return k
}

// summary returns the finding in one line.
func (f *Finding) summary() string {
	var names []string
	for _, p := range f.Parts {
		n := p.Call.Function
		if p.Call.Kernel != "" {
			n += " (" + p.Call.Kernel + ")"
		}
		names = append(names, n)
	}
	return fmt.Sprintf("%s: %s", f.Kind, strings.Join(names, ", "))
}

const (
	boldRed  = "\x1b[1;31m"
	bold     = "\x1b[1m"
	noColour = "\x1b[0m"
)

// Text returns the finding as lines that begin with a process id.
func (f *Finding) Text(pid int, colour bool) string {
	red, strong, plain := "", "", ""
	if colour {
		red, strong, plain = boldRed, bold, noColour
	}
	a := advices[f.Kind]
	var b strings.Builder
	fmt.Fprintf(&b, "==%d== %saclsim: %s%s: %s%s%s\n", pid, red, f.Kind, plain, strong, a.title, plain)
	for _, p := range f.Parts {
		fmt.Fprintf(&b, "==%d==   %s\n==%d==       %s\n", pid, p.Call, pid, p.Does)
	}
	if f.Memory != nil {
		fmt.Fprintf(&b, "==%d==   %s, by %s\n", pid, f.Memory.Does, f.Memory.Call)
	}
	fmt.Fprintf(&b, "==%d==   Meaning: %s\n==%d==   Remedy: %s\n", pid, a.means, pid, a.remedy)
	return b.String()
}

// Summary returns the last line of a report.
func Summary(findings []Finding, pid int) string {
	if len(findings) == 0 {
		return fmt.Sprintf("==%d== aclsim: strict mode: no findings\n", pid)
	}
	kinds := map[FindingKind]int{}
	total := 0
	for _, f := range findings {
		kinds[f.Kind]++
		total += f.Count
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, kinds[k]))
	}
	var b strings.Builder
	for _, f := range findings {
		if f.Count > 1 {
			fmt.Fprintf(&b, "==%d==   %d times: %s\n", pid, f.Count, f.summary())
		}
	}
	times := ""
	if total > len(findings) {
		times = fmt.Sprintf(", %d times", total)
	}
	fmt.Fprintf(&b, "==%d== aclsim: %s%s (%s)\n", pid, human.Plural(len(findings), "finding"), times, strings.Join(parts, ", "))
	return b.String()
}
