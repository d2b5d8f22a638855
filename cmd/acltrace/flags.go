package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/kernellib"
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
	policy, ring, steps, api string
	operators, marks         string
	maxSize, ringSize        optional[int64]
	deviceTime               optional[sampling]
	slow                     []string
	flight                   record.Ring
}

func (r *recordFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&r.Output, "output", "o", "run.aclt", "`FILE`: trace to write")
	explain(f, "output", "%h, %p and %r in the name are the host, the process and the rank of a job. Around a launcher such as torchrun, "+
		"`acltrace record` writes a trace of each rank if the name has %r.")
	apiFlag(f, &r.api)
	r.content(f)
	r.part(f)
	r.flightRecorder(f)
	choose(f, &r.policy, "policy", "`NAME`: full buffer: drop calls or block", "drop", "block")
	explain(f, "policy", "drop counts the dropped calls in the trace. block makes the program wait for the recorder.")
	sizeFlag(f, &r.ringSize, "ring-size", "8M", "`SIZE`: buffer of each thread")
	explain(f, "ring-size", "Each thread of the program writes into a buffer, which the recorder drains.")
}

// content adds the flags that select the recorded data.
func (r *recordFlags) content(f *pflag.FlagSet) {
	payloadFlag(f, r.Options)
	f.BoolVar(&r.Capture.NoSmall, "no-small-copies", false, "leave out the content of copies below 4 KiB")
	explain(f, "no-small-copies", "Token ids and other small inputs stay out of the trace.")
	f.BoolVar(&r.Capture.Replayable, "replayable", false, "keep all data that a replay needs")
	explain(f, "replayable", "The same as `--payload full --policy block` without a size limit, and with the content of managed memory.")
	f.IntVar(&r.Capture.Stacks, "stacks", 0, "`N`: keep N stack frames of each call")
	explain(f, "stacks", "The program's code needs frame pointers: a stack ends at code without them, and names it. `blame`, pprof and Jaeger show the stacks.")
	r.deviceTime.parse = parseSampling
	f.Var(&r.deviceTime, "device-time", "`WHICH`: time tasks on the device: all, N or TIME")
	explain(f, "device-time", "By default a task's time is a bracket from its call to the wait for it. With this flag, an event before and after "+
		"the task measures its time on the device. all measures each task. N measures one task in N at random. TIME, for example 5ms, measures a task of each "+
		"thread in every 5 ms.")
	choose(f, &r.operators, "operators", "`LEVEL`: names, shapes, all, none", "names", "shapes", "all", "none")
	explain(f, "operators", operatorNames+" shapes adds "+
		"the kernel type, the data types and the shapes of the tensors of each launch, with CANN 8.5 or newer and the shim: it tells operators that the runtime wants them. "+
		"all adds the calls that make the operators' arguments, with the shim: tensors with addresses and strides, scalars, and look-ups of kept executors, 7 to 20 calls an operator.")
	f.BoolVar(&r.Capture.NoTaskIDs, "no-task-ids", false, "do not query the runtime's id of each task")
	explain(f, "no-task-ids", "Saves a query per launch. Ids connect calls with the tasks in the runtime's logs.")
}

// operatorNames explains the level names of --operators.
const operatorNames = "names records where operators (aclnn…) begin and end, and their names. It costs about 25 ns at each boundary, and 1 to 2 us by eBPF."

// part adds the flags that select the recorded part of the run.
func (r *recordFlags) part(f *pflag.FlagSet) {
	f.StringVar(&r.steps, "steps", "", "`A:B`: record steps A to B only, counted from 0")
	explain(f, "steps", "Calls that make or name objects are recorded from the beginning. The program runs on unrecorded after step B.")
	stepMarker(f, r.Options)
	forFlag(f, r.Options)
	f.BoolVar(&r.Capture.Armed, "armed", false, "wait for acltrace ctl start")
	explain(f, "armed", "Until then nothing is recorded, and a call costs one branch.")
	sizeFlag(f, &r.maxSize, "max-size", "", "`SIZE`: end at this size (default: 10% of free space)")
	explain(f, "max-size", "The size includes payloads. Payloads end at nine tenths of it. The default is at most 10G.")
}

// flightRecorder adds the flags for recording the newest calls only.
func (r *recordFlags) flightRecorder(f *pflag.FlagSet) {
	f.StringVar(&r.ring, "ring", "", "`SIZE|TIME`: keep only the newest calls")
	explain(f, "ring", "Keeps calls in memory: 64M of them, or the last 30s. They are saved as a trace at a device error, when "+
		"a synchronization fails with a code for the first time, at a crash, at `acltrace ctl snapshot` and at the end.")
	f.StringSliceVar(&r.slow, "slow", nil, "`TIME`: save the ring if a call takes longer")
	explain(f, "slow", "50ms applies to all functions, and aclrtProcessReport=30s to one function. A call that has not returned counts as well.")
	f.Int32SliceVar(&r.flight.Codes, "seal-on", nil, "`CODE`: save the ring if a call returns CODE")
	f.IntVar(&r.flight.Most, "max-seals", 8, "`N`: save the ring at most N times")
	explain(f, "max-seals", "The trace at the end does not count. The second trace is called NAME-2.aclt, and so on.")
}

func payloadFlag(f *pflag.FlagSet, o *record.Options) {
	choose(f, &o.Capture.Payload, "payload", "`LEVEL`: copies: small, full, hash, none", record.Small, record.Full, record.Hash, record.None)
	explain(f, "payload", "small keeps the content of copies up to 64 KiB. full keeps the content of all copies. hash keeps a hash and the length, "+
		"which is enough to compare two copies. none keeps neither.")
}

func forFlag(f *pflag.FlagSet, o *record.Options) {
	f.DurationVar(&o.Limits.For, "for", 0, "`TIME`: stop recording after this time")
	explain(f, "for", "The time, for example 30s, counts from the start of recording. The program runs on. `acltrace ctl start` records again.")
}

// noGuard adds the flag that turns off a shared session's crash guard.
func noGuard(f *pflag.FlagSet, off *bool) {
	f.BoolVar(off, "no-guard", false, "record a program that crashed in code of acltrace")
	explain(f, "no-guard", "A program that crashed within a minute in code of acltrace is not recorded again without this flag.")
}

// replacing adds the flags for an existing trace.
func replacing(f *pflag.FlagSet, o *record.Options) {
	f.BoolVarP(&o.Overwrite, "force", "f", false, "overwrite the earlier trace")
	explain(f, "force", "By default an earlier trace of this name is moved aside: run.aclt becomes run.1.aclt.")
	f.IntVar(&o.Keep, "keep", 10, "`N`: keep N earlier traces")
	explain(f, "keep", "Of the traces that were moved aside, the oldest are removed.")
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
	f.StringVar(&o.Steps.Marker, "step-marker", "", "`NAME`: range, mark or function that separates steps")
	explain(f, "step-marker", "For --steps, --sample-steps and --slow-step. A step begins at each mstx range or mark whose name begins with NAME, or ends at "+
		"each call of the function NAME. By default --steps counts ranges with step or iter in their names, or else waits for the "+
		"device, or copies of inputs. The other flags find steps by repetition.")
}

// program adds the flags for starting a program.
func (r *recordFlags) program(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&r.Sim, "sim", false, "run the program on the simulator")
	explain(f, "sim", "No device and no runtime are needed. See docs/reference/simulator.md.")
	choose(f, &r.Capture.Bind, "bind", "`HOW`: load the shim: auto, preload, audit", "auto", "preload", "audit")
	choose(f, &r.marks, "framework-marks", "`WHAT`: marks of PyTorch: ranges, memory", "none", "ranges", "memory")
	explain(f, "framework-marks", "torch_npu makes marks only if a library of Huawei's tools is preloaded, by its name. ranges preloads an empty library with the name libmspti.so: "+
		"ranges of torch_npu.npu.mstx and around collectives. memory takes libascend_kernel_hook.so: the regions of the caching allocator, and no ranges.")
	explain(f, "bind", "preload, the default, uses LD_PRELOAD. audit uses LD_AUDIT, and also sees calls from libraries that were loaded with "+
		"RTLD_DEEPBIND or dlmopen.")
}

// operatorLevels are the values of --operators.
var operatorLevels = map[string]record.Operators{"names": record.OperatorNames, "shapes": record.OperatorShapes, "all": record.OperatorsAll, "none": record.NoOperators}

// parse checks the flags and sets the options. program is the program to record, "" if unknown.
func (r *recordFlags) parse(c *cobra.Command, program string) error {
	var err error
	if err := seekable(c, r.Output); err != nil {
		return err
	}
	if r.Model, err = runtime(r.api, program); err != nil {
		return err
	}
	if r.Capture.Replayable && c.Flags().Changed("payload") && r.Capture.Payload != record.Full {
		return usage("--replayable excludes --payload %s: a replay needs all data", r.Capture.Payload)
	}
	r.Limits.Block = r.policy == "block"
	r.Capture.Operators = operatorLevels[r.operators]
	if r.marks != "none" {
		r.Capture.Marks = record.Marks(r.marks)
	}
	r.Limits.MaxSize = r.maxSize.or(0)
	n := r.ringSize.or(0)
	if n != 0 && n < 64<<10 || n > 1<<30 {
		return usage("--ring-size %s: want 64K to 1G", &r.ringSize)
	}
	r.Limits.RingBytes = int(n)
	if s := r.deviceTime.value; s != nil {
		r.Capture.DeviceTime, r.Capture.DeviceTimeGap = s.every, s.gap
	}
	if err := r.parseSlow(r.Model); err != nil {
		return usage("--slow %w", err)
	}
	if r.ring == "" && (len(r.slow) != 0 || len(r.flight.Codes) > 0 || c.Flags().Changed("max-seals")) {
		return usage("--slow, --seal-on and --max-seals need --ring SIZE or --ring TIME")
	}
	if r.Capture.Stacks < 0 {
		return usage("--stacks %d: want 0 or more", r.Capture.Stacks)
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
			return fmt.Errorf("%s: want for example 50ms, or aclrtProcessReport=30s for one function", s)
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

// choice is a flag with one of a few values, which shells complete.
type choice[T ~string] struct {
	to *T
	of []T
}

// choose adds a choice. The first value is the default.
func choose[T ~string](f *pflag.FlagSet, to *T, name, usage string, of ...T) {
	*to = of[0]
	f.Var(&choice[T]{to, of}, name, usage)
}

func (c *choice[T]) String() string { return string(*c.to) }

func (c *choice[T]) Type() string { return "value" }

func (c *choice[T]) Set(s string) error {
	if !slices.Contains(c.of, T(s)) {
		return fmt.Errorf("want %s", join(c.values(), " or "))
	}
	*c.to = T(s)
	return nil
}

func (c *choice[T]) values() (list []string) {
	for _, v := range c.of {
		list = append(list, string(v))
	}
	return list
}

// A sampling measures one in every tasks, and a thread's tasks at least gap apart.
type sampling struct {
	every int
	gap   time.Duration
}

// parseSampling parses --device-time.
func parseSampling(s string) (sampling, error) {
	if s == "all" {
		return sampling{every: 1}, nil
	}
	if n, err := strconv.ParseUint(s, 10, 30); err == nil && n > 0 {
		return sampling{every: int(n)}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 && d <= time.Second {
		return sampling{1, d}, nil
	}
	return sampling{}, errors.New("want all, or N for one task in N, or a time up to 1s, for example 5ms")
}

// sizeFlag adds a flag for a number of bytes. otherwise is its default.
func sizeFlag(f *pflag.FlagSet, size *optional[int64], name, otherwise, usage string) {
	size.parse = human.ParseBytes
	if otherwise != "" {
		if err := size.Set(otherwise); err != nil {
			panic(err) // not a size
		}
	}
	f.Var(size, name, usage)
}

// sizeOrTime parses a byte count or a time.
func sizeOrTime(s string) (int64, time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return 0, d, nil
	}
	n, err := human.ParseBytes(s)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%w, or a time like 30s", err)
	case n < 1<<20:
		return 0, 0, fmt.Errorf("invalid size %q: want at least 1M, or a time like 30s", s)
	}
	return n, 0, nil
}

// blobFile adds the flag for a payload file.
func blobFile(f *pflag.FlagSet, o *record.Options) {
	f.StringVar(&o.BlobFile, "blobs", "", "`FILE`: write payload contents to a second file")
	explain(f, "blobs", "The file can be on a larger disk, and the trace stays small. `acltrace pack` joins both.")
}

// taskForms explains flags that take a task.
const taskForms = "A task is STREAM:ID, or STREAM:FLIP:TASK as in the runtime's logs."

const kernelsUsage = "`LIBRARIES`: kernel libraries for the simulator"

func explainKernels(f *pflag.FlagSet) {
	explain(f, "kernels", "A list of shared objects, separated by colons. They are searched before the libraries beside the program's kernel binaries. \"\" "+
		"uses no library.")
}

// setKernels sets the kernel libraries for programs that this process starts. "" means none, including those beside the
// program's binaries.
func setKernels(m *api.Model, libraries string) error {
	list, err := kernelLibraries(m, []string{libraries})
	if err != nil {
		return err
	}
	os.Setenv(m.Simulator.Kernels, strings.Join(list, string(os.PathListSeparator)))
	if len(list) == 0 && m.Simulator.Beside != "" {
		os.Setenv(m.Simulator.Beside, "0")
	}
	return nil
}

// kernelLibraries checks the libraries of --kernels: the simulator would only warn, and run no kernel. It returns absolute
// paths, because programs change their folder.
func kernelLibraries(m *api.Model, lists []string) ([]string, error) {
	libraries := []string{}
	for _, list := range lists {
		for _, path := range filepath.SplitList(list) {
			if path == "" {
				continue
			}
			abs, err := kernellib.Resolve(path, m.Simulator.KernelSymbol)
			if err != nil {
				return nil, usage("--kernels %s: %w", path, err)
			}
			libraries = append(libraries, abs)
		}
	}
	return libraries, nil
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
	return &remedied{err, "If you know the origin of the trace, load them with this command (--kernels= loads none):\n  ", words}
}

// limitFlags adds the limits for planning a replay.
func limitFlags(f *pflag.FlagSet, l *compile.Limits) {
	f.Uint64Var(&l.Tasks, "max-tasks", compile.DefaultTasks, "`N`: refuse more tasks in graphs")
	f.IntVar(&l.Threads, "max-threads", compile.DefaultThreads, "`N`: refuse more threads")
	f.IntVar(&l.Processes, "max-processes", compile.DefaultProcesses, "`N`: refuse more processes")
}

// replayed converts a report to an exit code.
func replayed(rep *replay.Report) error {
	switch {
	case rep.Crash != nil || rep.Refused():
		return &exit{code: exitFailed}
	case rep.Verdict == verify.Different, rep.DifferingTotal > 0, len(rep.Findings) > 0:
		return &exit{code: exitDiffers}
	case rep.Verdict == verify.Unproved, len(rep.Lost) > 0:
		return &exit{code: exitLacks}
	}
	return nil
}
