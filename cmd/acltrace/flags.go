package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/shell"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// recordFlags are the flags that all recordings share.
type recordFlags struct {
	*record.Options
	payload, policy, maxSize, ringSize, ring, deviceTime, steps, api string
	slow                                                             []string
	flight                                                           record.Ring
}

func (r *recordFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&r.Output, "output", "o", "run.aclt", "trace to write; %h, %p and %r in the name are the host, the process and the rank")
	f.StringVar(&r.api, "api", "auto", apiUsage)
	f.StringVar(&r.payload, "payload", "small", "what to keep of copies: small (up to 64 KiB), full, hash or none")
	f.StringVar(&r.policy, "policy", "drop", "when the recorder is too slow: drop calls, which are counted, or block the program")
	f.BoolVar(&r.Capture.Replayable, "replayable", false, "keep all that a replay needs: --payload full --policy block, no limit of size")
	f.StringVar(&r.maxSize, "max-size", "", "size of the trace (with its payloads) at which recording ends, and payloads at nine tenths of it (default a tenth of the free space, at most 10G)")
	f.StringVar(&r.ring, "ring", "", "keep only the newest calls, this much of them (64M) or as far back (30s), and seal them into a trace at the first error of the device, a failed synchronization, a crash and the end")
	f.BoolVar(&r.Capture.Armed, "armed", false, "record nothing until acltrace ctl start")
	f.DurationVar(&r.Limits.For, "for", 0, "record only so long, as 30s; the program runs on, and acltrace ctl start begins anew")
	f.StringSliceVar(&r.slow, "slow", nil, "with --ring: also when a call takes longer than this, as 50ms, or one of a function, as aclrtProcessReport=30s")
	f.Int32SliceVar(&r.flight.Codes, "seal-on", nil, "with --ring: also when a call returns one of these error codes")
	f.IntVar(&r.flight.Most, "max-seals", 8, "with --ring: make no more traces than this, beside the one at the end")
	f.StringVar(&r.ringSize, "ring-size", "8M", "memory between each thread of the program and the recorder")
	f.IntVar(&r.Capture.Stacks, "stacks", 0, "keep this many frames of the stack that each call was made from (needs code with frame pointers)")
	f.BoolVar(&r.Capture.NoSmall, "no-small-copies", false, "do not keep the content of copies below 4 KiB: token ids and the like stay out of the trace")
	f.BoolVar(&r.Capture.NoTaskIDs, "no-task-ids", false, "do not ask the runtime for its ids of each task: saves a query a launch")
	f.StringVar(&r.deviceTime, "device-time", "", "measure tasks by the device's own clock, with an event before and behind each: all, one of N at random, or one of a thread every so often, as 5ms")
	f.Lookup("device-time").NoOptDefVal = "all"
	f.StringVar(&r.steps, "steps", "", "record these steps alone, counted from 0, as 100:110; the program runs on unrecorded")
	stepMarker(f, r.Options)
}

// noGuard adds the flag that turns off a shared session's crash guard.
func noGuard(f *pflag.FlagSet, off *bool) {
	f.BoolVar(off, "no-guard", false, "record a program even if it crashed within a minute when it was recorded last")
}

// replacing adds the flags for an existing trace.
func replacing(f *pflag.FlagSet, o *record.Options) {
	f.BoolVarP(&o.Overwrite, "force", "f", false, "write over a trace of the same name, instead of moving it aside as run.1.aclt")
	f.IntVar(&o.Keep, "keep", 10, "at most so many traces that were moved aside; the oldest are removed")
}

// kept checks the flags from replacing.
func kept(o *record.Options) error {
	if o.Keep < 1 {
		return usage("--keep %d: give at least 1; -f writes over the trace", o.Keep)
	}
	return nil
}

// stepMarker adds the step marker, for --steps and for spans sent while recording.
func stepMarker(f *pflag.FlagSet, o *record.Options) {
	f.StringVar(&o.Steps.Marker, "step-marker", "", "with --steps, --sample-steps and --slow-step: a step begins at each range or mark of mstx with a name that begins so, or ends at each call of this function (default, of --steps: ranges with step or iter in their names, else where a thread waits for the device; of the others: they are looked for)")
}

// program adds the flags for starting a program.
func (r *recordFlags) program(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&r.Sim, "sim", false, "run the program on the simulator")
	f.StringVar(&r.Capture.Bind, "bind", "auto", "with --probe shim: how it comes before the runtime: auto, preload or audit, which also sees what constructors of libraries loaded with RTLD_DEEPBIND or dlmopen call, and what the latter ask for by dlsym")
}

// parse checks the flags and sets the options. program is the program to record, "" if unknown.
func (r *recordFlags) parse(program string) error {
	var err error
	if r.Model, err = runtime(r.api, program); err != nil {
		return err
	}
	switch r.Capture.Payload = record.Payload(r.payload); r.Capture.Payload {
	case record.Small, record.Full, record.Hash, record.None:
	default:
		return usage("--payload %s: there are small, full, hash and none", r.payload)
	}
	switch r.policy {
	case "drop", "block":
		r.Limits.Block = r.policy == "block"
	default:
		return usage("--policy %s: there are drop and block", r.policy)
	}
	if r.Capture.Bind != "auto" && r.Capture.Bind != "preload" && r.Capture.Bind != "audit" {
		return usage("--bind %s: there are auto, preload and audit", r.Capture.Bind)
	}
	if r.Limits.MaxSize, err = size(r.maxSize); err != nil {
		return usage("--max-size: %w", err)
	}
	n, err := size(r.ringSize)
	if err != nil || n > 1<<30 {
		return usage("--ring-size %s: give a size up to 1G, as 8M", r.ringSize)
	}
	r.Limits.RingBytes = int(n)
	if r.Capture.DeviceTime, r.Capture.DeviceTimeGap, err = sampled(r.deviceTime); err != nil {
		return usage("--device-time %w", err)
	}
	if err := r.parseSlow(r.Model); err != nil {
		return usage("--slow %w", err)
	}
	if r.ring == "" && (len(r.slow) != 0 || len(r.flight.Codes) > 0) {
		return usage("--slow and --seal-on say when a ring is sealed: add --ring SIZE or --ring TIME")
	}
	if r.ring != "" {
		if r.flight.Bytes, r.flight.Time, err = sizeOrTime(r.ring); err != nil {
			return usage("--ring: %w", err)
		}
		r.Ring = &r.flight
	}
	if r.steps != "" {
		if r.Steps.Range, err = record.ParseSteps(r.steps); err != nil {
			return usage("--steps: %w", err)
		}
	}
	return nil
}

// parseSlow parses --slow.
func (r *recordFlags) parseSlow(m *api.Model) error {
	for _, s := range r.slow {
		name, limit, named := strings.Cut(s, "=")
		if !named {
			name, limit = "", s
		}
		d, err := time.ParseDuration(limit)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s: give a time, as 50ms, or a function with one, as aclrtProcessReport=30s", s)
		}
		if named && m.Lookup(name) == nil {
			return fmt.Errorf("%s: the runtime has no function of this name", s)
		}
		if !named {
			r.flight.Slow = d
			continue
		}
		if r.flight.SlowOf == nil {
			r.flight.SlowOf = map[string]time.Duration{}
		}
		r.flight.SlowOf[name] = d
	}
	return nil
}

// sampled parses --device-time: measure one in how many tasks, and the least time between two.
func sampled(s string) (every int, gap time.Duration, err error) {
	if s == "" || s == "all" {
		return len(s) / len("all"), 0, nil
	}
	if n, err := strconv.ParseUint(s, 10, 30); err == nil && n > 0 {
		return int(n), 0, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 && d <= time.Second {
		return 1, d, nil
	}
	return 0, 0, fmt.Errorf("%s: give all, a number N for one task of N, or a time of at most 1s between two of a thread, as 5ms", s)
}

// sizeOrTime parses a byte count or a time.
func sizeOrTime(s string) (int64, time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return 0, d, nil
	}
	n, err := size(s)
	if err == nil && n < 1<<20 {
		err = fmt.Errorf("%q is less than 1M", s)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w, nor a time, as 30s is", err)
	}
	return n, 0, nil
}

// blobFile adds the flag for a payload file.
func blobFile(f *pflag.FlagSet, o *record.Options) {
	f.StringVar(&o.BlobFile, "blobs", "", "write the contents of payloads to this file, as on a larger disk, so that the trace stays small; acltrace pack makes one file of both")
}

const kernelsUsage = "kernel `libraries`, separated by colons, before those beside the program's binaries; \"\" for none"

// setKernels sets the kernel libraries for programs that this process starts. "" means none, including those beside the
// program's binaries.
func setKernels(m *api.Model, libraries string) {
	os.Setenv(m.Simulator.Kernels, libraries)
	if libraries == "" && m.Simulator.Beside != "" {
		os.Setenv(m.Simulator.Beside, "0")
	}
}

// orAllow adds a remedy to an error about a trace's kernel libraries: the command that loads them.
func orAllow(err error) error {
	var refused *replay.KernelError
	if !errors.As(err, &refused) {
		return err
	}
	var list strings.Builder
	w := csv.NewWriter(&list) // in the flag's format
	_ = w.Write(refused.Paths())
	w.Flush()
	words := append(append([]string{"acltrace"}, os.Args[1:]...), "--kernels="+strings.TrimSuffix(list.String(), "\n"))
	return &remedied{err, "To load them all the same, if you know where the trace comes from, or none of them with --kernels=:\n  " + shell.Command(words...)}
}

// limitFlags adds the limits for planning a replay.
func limitFlags(f *pflag.FlagSet, l *compile.Limits) {
	f.Uint64Var(&l.Tasks, "max-tasks", compile.DefaultTasks, "refuse a trace whose graphs run more tasks")
	f.IntVar(&l.Threads, "max-threads", compile.DefaultThreads, "refuse a trace with calls of more threads")
	f.IntVar(&l.Processes, "max-processes", compile.DefaultProcesses, "refuse a trace with calls of more processes")
}

// replayed converts a report to an exit code.
func replayed(rep *replay.Report) error {
	switch {
	case rep.Crash != nil || rep.Refused():
		return &exit{code: exitFailed}
	case rep.Verdict == verify.Different:
		return &exit{code: exitDiffers}
	case rep.Verdict == verify.Unproved, len(rep.Lost) > 0:
		return &exit{code: exitLacks}
	case rep.DifferingTotal > 0:
		return &exit{code: exitFailed} // not compared, and calls returned other errors
	}
	return nil
}
