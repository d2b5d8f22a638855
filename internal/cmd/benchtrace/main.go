// Command benchtrace writes a trace of as many calls as asked for, to measure what stands on large files with.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/stream"
	"github.com/acltrace/acltrace/record"
)

func run(args []string) error {
	source := stream.Shapes["decode"]
	if len(args) == 3 {
		source = stream.Shapes[args[2]]
	}
	if len(args) < 2 || len(args) > 3 || source == nil {
		return errors.New("usage: benchtrace CALLS FILE [decode|train]")
	}
	n, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	schema := record.Schema(acl.Model)
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
	for range n {
		s.Next(&c)
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
