// Command benchtrace writes a trace with as many calls as requested, for benchmarks on large files. scripts/bench.sh runs it.
// The calls name no real objects, so the trace can't be replayed.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/internal/stream"
)

// burst counts the calls between two pauses.
const burst = 400

func run(args []string) error {
	source := stream.Shapes["decode"]
	if len(args) > 2 {
		source = stream.Shapes[args[2]]
	}
	if len(args) < 2 || len(args) > 4 || source == nil {
		return errors.New("usage: benchtrace CALLS FILE [decode|train [CALLS_A_MINUTE]]")
	}
	n, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	var pace time.Duration // per call, 0 for the pace of the stream
	if len(args) == 4 {
		minute, err := strconv.ParseUint(args[3], 10, 32)
		if err != nil || minute == 0 {
			return fmt.Errorf("%q calls a minute", args[3])
		}
		pace = time.Minute / time.Duration(minute)
	}
	schema := schema.Of(acl.Model)
	w, err := format.Create(args[1], &format.Meta{API: acl.Model.Name}, schema, nil)
	if err != nil {
		return err
	}
	if _, err := w.Process(format.Process{PID: 1}); err != nil {
		return err
	}
	for tid := range 2 {
		if _, err := w.Thread(format.Thread{TID: 1 + tid}); err != nil {
			return err
		}
	}
	s := source(schema)
	var c format.Call
	var idle, flushed int64
	for i := range n {
		s.Next(&c)
		// A slower job pauses between bursts, and its recorder writes to disk every second.
		if i%burst == 0 {
			idle = max(idle, int64(i)*pace.Nanoseconds()-c.Start)
		}
		c.Start, c.End = c.Start+idle, c.End+idle
		if pace > 0 && c.Start-flushed >= time.Second.Nanoseconds() {
			if err := w.Flush(); err != nil {
				return err
			}
			flushed = c.Start
		}
		if _, err := w.Call(&c); err != nil {
			return err
		}
	}
	return w.Close()
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchtrace:", err)
		os.Exit(1)
	}
}
