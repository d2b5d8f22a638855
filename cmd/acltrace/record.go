package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) recordCmd() *cobra.Command {
	o := record.Options{Model: acl.Model, Version: version, Stdout: a.stdout, Stderr: a.stderr}
	var payload, policy, maxSize, ringSize, ring, deviceTime string
	var flight record.Ring
	var quiet bool
	var live liveFlags
	c := &cobra.Command{
		Use:   "record [flags] -- PROGRAM [ARGUMENT …]",
		Short: "run a program and record its calls",
		Long: `Runs a program and writes every call that it makes to the runtime into a trace.

The program's own exit code is passed on. 125 means that it was not run: recording could not start.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("acltrace record needs a program: acltrace record -o run.aclt -- ./app")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.Command = args
			switch o.Payload = record.Payload(payload); o.Payload {
			case record.Small, record.Full, record.Hash, record.None:
			default:
				return usage("--payload %s: there are small, full, hash and none", payload)
			}
			switch policy {
			case "drop", "block":
				o.Block = policy == "block"
			default:
				return usage("--policy %s: there are drop and block", policy)
			}
			if o.Probe != "shim" && o.Probe != "ebpf" {
				return usage("--probe %s: there are shim and ebpf", o.Probe)
			}
			if o.Bind != "auto" && o.Bind != "preload" && o.Bind != "audit" {
				return usage("--bind %s: there are auto, preload and audit", o.Bind)
			}
			var err error
			if o.MaxSize, err = size(maxSize); err != nil {
				return usage("--max-size: %w", err)
			}
			n, err := size(ringSize)
			if err != nil || n > 1<<30 {
				return usage("--ring-size %s: give a size up to 1G, as 8M", ringSize)
			}
			o.RingBytes = int(n)
			if o.DeviceTime, o.DeviceTimeGap, err = sampled(deviceTime); err != nil {
				return usage("--device-time %w", err)
			}
			if ring == "" && (flight.Slow != 0 || len(flight.Codes) > 0) {
				return usage("--slow and --seal-on say when a ring is sealed: add --ring SIZE or --ring TIME")
			}
			if ring != "" {
				if flight.Bytes, flight.Time, err = sizeOrTime(ring); err != nil {
					return usage("--ring: %w", err)
				}
				o.Ring = &flight
			}
			follower, err := live.follow(a, &o)
			if err != nil {
				return err
			}
			res, err := record.Run(context.Background(), &o)
			follower.said(a)
			return a.recorded(&o, res, err, quiet)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	f.StringVarP(&o.Output, "output", "o", "run.aclt", "trace to write; %h, %p and %r in the name are the host, the process and the rank")
	f.BoolVar(&o.Sim, "sim", false, "run the program on the simulator")
	f.StringVar(&o.Probe, "probe", "shim", "how to capture: shim or ebpf")
	f.StringVar(&o.Bind, "bind", "auto", "with --probe shim: how it comes before the runtime: auto, preload or audit, which also sees what constructors of libraries loaded with RTLD_DEEPBIND or dlmopen call, and what the latter ask for by dlsym")
	f.StringVar(&o.Library, "library", "", "with --probe ebpf: path of the runtime library, for a program that is not linked to it")
	f.StringVar(&payload, "payload", "small", "what to keep of copies: small (up to 64 KiB), full, hash or none")
	f.StringVar(&policy, "policy", "drop", "when the recorder is too slow: drop calls, which are counted, or block the program")
	f.BoolVar(&o.Replayable, "replayable", false, "keep all that a replay needs: --payload full --policy block, no limit of size")
	f.StringVar(&maxSize, "max-size", "", "size of the trace at which payloads are no longer kept (default a tenth of the free space, at most 10G)")
	f.StringVar(&ring, "ring", "", "keep only the newest calls, this much of them (64M) or as far back (30s), and seal them into a trace at the first error of the device, a failed synchronization, a crash and the end")
	f.BoolVar(&o.Armed, "armed", false, "record nothing until acltrace ctl start")
	f.DurationVar(&o.For, "for", 0, "record only so long, as 30s; the program runs on, and acltrace ctl start begins anew")
	f.DurationVar(&flight.Slow, "slow", 0, "with --ring: also when a call takes longer than this")
	f.Int32SliceVar(&flight.Codes, "seal-on", nil, "with --ring: also when a call returns one of these error codes")
	f.IntVar(&flight.Most, "max-seals", 8, "with --ring: make no more traces than this, beside the one at the end")
	f.StringVar(&ringSize, "ring-size", "8M", "memory between each thread of the program and the recorder")
	f.IntVar(&o.Stacks, "stacks", 0, "keep this many frames of the stack that each call was made from (needs code with frame pointers)")
	f.BoolVar(&o.NoSmall, "no-small-copies", false, "do not keep the content of copies below 4 KiB: token ids and the like stay out of the trace")
	f.BoolVar(&o.NoTaskIDs, "no-task-ids", false, "do not ask the runtime for its ids of each task: saves a query a launch")
	f.StringVar(&deviceTime, "device-time", "", "measure tasks by the device's own clock, with an event before and behind each: all, one of N at random, or one of a thread every so often, as 5ms")
	f.Lookup("device-time").NoOptDefVal = "all"
	live.add(f)
	f.BoolVarP(&quiet, "quiet", "q", false, "say nothing at the end")
	return c
}

// sampled parses which tasks are to be measured: one of how many, and how long after the last one at least.
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

// recorded tells how a recording ended and makes the exit code of it.
func (a *app) recorded(o *record.Options, res *record.Result, err error, quiet bool) error {
	if err != nil {
		if errors.Is(err, record.ErrStart) {
			return &exit{exitStart, err}
		}
		return err
	}
	if !quiet {
		a.recordSummary(o, res)
	}
	if res.Incomplete != nil {
		fmt.Fprintf(a.err, "acltrace: recording ended before the program: %v\n", res.Incomplete)
	}
	if res.ExitCode != 0 {
		return &exit{code: res.ExitCode}
	}
	return nil
}

func (a *app) recordSummary(o *record.Options, res *record.Result) {
	defer a.unseen(res)
	if res.Calls == 0 && res.Processes == 0 && res.Refused == 0 {
		fmt.Fprintf(a.err, "acltrace: %s: no call was seen: the program did not call the runtime, or reached it by a way that the %s can't see\n", res.Output, o.Probe)
		return
	}
	if len(res.Sealed) > 0 {
		fmt.Fprintf(a.err, "acltrace: sealed %s, each with the newest calls at its time\n", strings.Join(res.Sealed, ", "))
	}
	s := fmt.Sprintf("acltrace: %s: %d calls", res.Output, res.Calls)
	if len(res.Sealed) > 0 {
		s = fmt.Sprintf("acltrace: %d calls seen", res.Calls)
	}
	if res.Failed > 0 {
		s += fmt.Sprintf(", %d failed", res.Failed)
	}
	if res.Unfinished > 0 {
		s += fmt.Sprintf(", %d unfinished", res.Unfinished)
	}
	if res.Lost > 0 {
		s += fmt.Sprintf(", %d LOST (--policy block waits instead)", res.Lost)
	}
	if res.Refused > 0 {
		s += fmt.Sprintf(", %d threads NOT RECORDED: no memory for their rings, or no right to make them", res.Refused)
	}
	s += ", " + report.Bytes(uint64(res.Bytes))
	if res.Signal != 0 {
		s += fmt.Sprintf("; the program was killed by signal %d", res.Signal)
	}
	fmt.Fprintln(a.err, s)
}

// unseen tells what went past the recorder.
func (a *app) unseen(res *record.Result) {
	var n uint64
	for _, k := range res.PassedBy {
		n += k
	}
	if n > 0 {
		fmt.Fprintf(a.err, "acltrace: %d functions passed by, counted by name alone (%d times): see acltrace info --json\n", len(res.PassedBy), n)
	}
	for i, u := range res.Unhooked {
		if i == 10 {
			fmt.Fprintf(a.err, "acltrace: NOT RECORDED: %d more\n", len(res.Unhooked)-i)
			break
		}
		fmt.Fprintf(a.err, "acltrace: NOT RECORDED: process %d, %s: %s\n", u.PID, u.Exe, u.Reason)
	}
}

// sizeOrTime parses a number of bytes or a time.
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

// size parses a number of bytes with an optional K, M, G or T.
func size(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	var n int64
	var unit string
	if k, err := fmt.Sscanf(s, "%d%s", &n, &unit); k == 0 || (err != nil && k < 1) || n < 0 {
		return 0, fmt.Errorf("%q is no size, as 512M is", s)
	}
	shift, ok := map[string]uint{"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]
	if !ok || n > 1<<(62-shift) {
		return 0, fmt.Errorf("%q is no size, as 512M is", s)
	}
	return n << shift, nil
}
