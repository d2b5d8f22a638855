package record

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/record/flight"
	"github.com/acltrace/acltrace/record/rows"
)

// Payload says how much of what is copied is kept.
type Payload string

const (
	Small Payload = "small" // copies up to 64 KiB
	Full  Payload = "full"  // all
	Hash  Payload = "hash"  // hash and length of all
	None  Payload = "none"
)

// SmallLimit is the size in bytes up to which payloads are kept at the level Small.
const SmallLimit = 64 << 10

// VisibleLimit is the size in bytes of managed memory and registered host memory up to which Options.Replayable keeps its content.
const VisibleLimit = 64 << 20

// SmallestCopy is the size in bytes below which copies are left out where small ones are not wanted.
const SmallestCopy = 4096

// Options are the parameters of Run. The zero value of each field is its default.
type Options struct {
	Model       *api.Model    // required
	Output      string        // file to write, required; %h, %p and %r in it are the host, the program's process and its rank
	Overwrite   bool          // write over a file that has the name of Output or BlobFile
	Keep        int           // without Overwrite, how many older files stay that were moved aside for Output; default 10
	Command     []string      // program and arguments, required
	Env         []string      // nil means the caller's own
	Sim         bool          // run the program on the simulator
	Probe       string        // "shim" (default) or "ebpf"
	Bind        string        // with shim: how it comes before the runtime: "auto" (default, is "preload"), "preload" or "audit"
	Library     string        // with ebpf: the runtime library, where the program does not name it itself
	Ring        *Ring         // keep the newest calls and seal them when something happens; nil records everything
	Armed       bool          // record nothing until somebody asks for it: see Ask
	Drop        bool          // with ebpf: give up the rights of this process that it does not need any more once the probes are there
	For         time.Duration // record only so long, from when recording starts; 0 for no limit
	Payload     Payload       // default Small
	Block       bool          // the program waits where the recorder is too slow, instead of losing calls
	Replayable  bool          // Full and Block, without a limit of size
	MaxSize     int64         // bytes of the trace, at which recording ends, and payloads at nine tenths of it; default a tenth of the free space, at most 10 GiB
	BlobFile    string        // file for the contents of payloads, "" to have them in Output; %h and %r as there
	RingBytes   int           // of each thread's ring; default 8 MiB
	MemoryLimit uint64        // bytes of all rings together; see ring.Options
	Steps       *StepRange    // record these steps alone, nil for all
	StepMarker  string        // what tells steps apart: see step.NewCounter
	State       string        // folder for the list of kernel libraries that were loaded; default statedir.Path
	Stacks      int           // frames to keep of the stack that each call was made from, 0 for none
	NoSmall     bool          // leave out copies below SmallestCopy
	NoTaskIDs   bool          // leave out the runtime's own ids of streams and tasks
	DeviceTime  int           // of how many tasks of a thread one is measured by the device's clock; 0 for none, 1 for all
	// DeviceTimeGap is the least time between two such tasks of a thread.
	DeviceTimeGap time.Duration
	Follower      Follower // is told what is recorded while that goes on; nil for nobody
	// Waiting is told what the recording waits for, where that may take long; nil where nobody asks.
	Waiting func(what string)
	Version string   // of acltrace, for the trace
	Stdin   *os.File // nil: the caller's own, as the next two
	Stdout  *os.File
	Stderr  *os.File
}

// defaults fills in what was not said.
func (o *Options) defaults() {
	if o.Replayable {
		o.Payload, o.Block = Full, o.Block || o.Probe != "ebpf" // a probe in the kernel can't wait
	}
	if o.Payload == "" {
		o.Payload = Small
	}
	if o.Probe == "" {
		o.Probe = "shim"
	}
	if o.Bind == "" || o.Bind == "auto" {
		o.Bind = "preload"
	}
}

// check says what does not go together.
func (o *Options) check() error {
	if o.DeviceTime != 0 && o.Probe != "shim" {
		return errors.New("--device-time puts events on the program's streams, which only --probe shim can")
	}
	if o.Block && o.Probe == "ebpf" {
		return errors.New("--policy block does not go with --probe ebpf: a probe in the kernel can't wait for the recorder; choose --probe shim, or a larger --ring-size")
	}
	switch o.Bind {
	case "preload":
	case "audit":
		if o.Probe != "shim" {
			return errors.New("--bind audit is a way to bind the shim: it does not go with --probe " + o.Probe)
		}
	default:
		return fmt.Errorf("no way %q to bind the shim: there are auto, preload and audit", o.Bind)
	}
	if o.Armed && o.Probe != "shim" {
		return errors.New("--armed goes with --probe shim: what eBPF records is attached when it is wanted")
	}
	if o.Ring != nil && (o.Probe != "shim" || o.Replayable) {
		return errors.New("a ring goes with --probe shim, and not with --replayable: what has left the ring can't be replayed")
	}
	if o.BlobFile != "" && o.Ring != nil {
		return errors.New("--blobs does not go with a ring, which is kept in memory")
	}
	if err := checkBlobFile(o); err != nil {
		return err
	}
	if o.Ring != nil && o.MaxSize != 0 {
		return errors.New("--max-size ends a recording of everything: a ring has its own size, and --max-seals says how many traces are made of it")
	}
	if o.Steps != nil && (o.Probe != "shim" || o.Ring != nil) {
		return errors.New("--steps goes with --probe shim, and not with a ring, which keeps the newest calls whatever the step")
	}
	return nil
}

func checkBlobFile(o *Options) error {
	if strings.Contains(o.BlobFile, "%p") {
		return errors.New("--blobs: %p is not known when that file is made; %h and %r are")
	}
	return nil
}

// Ring are the parameters of a flight recorder.
type Ring = flight.Options

// Follower receives what is recorded during the recording.
type Follower = rows.Follower

// limit returns the size in bytes up to which payloads are captured.
func (p Payload) limit() uint64 {
	switch p {
	case Small:
		return SmallLimit
	case Full, Hash:
		return ^uint64(0)
	}
	return 0
}

// window returns which part of the program's calls is recorded.
func (o *Options) window() format.Window {
	switch {
	case o.Ring != nil:
		return format.WindowRing
	case o.Steps != nil:
		return format.WindowSteps
	case o.Armed:
		return format.WindowArmed
	case len(o.Command) == 0:
		return format.WindowAttached
	}
	return format.WindowWhole
}
