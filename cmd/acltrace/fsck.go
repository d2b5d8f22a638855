package main

import (
	"errors"
	"github.com/acltrace/acltrace/internal/human"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) fsckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "fsck FILE",
		Short: "check every checksum and every payload of a trace",
		Args:  arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			rep, err := format.Check(args[0], &format.CheckOptions{Progress: a.bytes()})
			if err != nil {
				return err
			}
			for _, p := range rep.Problems {
				report.Printf(a.out, "%s: %v\n", p.File, p)
			}
			for what, n := range rep.Unknown {
				report.Printf(a.out, "%s: %d of a newer version: %s\n", args[0], n, what)
			}
			report.Printf(a.out, "%s: %d chunks, %d calls, %d payloads, %s\n", args[0], rep.Chunks, rep.Calls, rep.Blobs, human.Bytes(uint64(rep.Bytes)))
			if rep.Lost > 0 {
				report.Printf(a.out, "%s: %s could not be written when it was made\n", args[0], human.Plural(rep.Lost, "payload"))
			}
			if len(rep.Problems) > 0 {
				return &exit{exitFailed, errors.New(args[0] + ": damaged")}
			}
			if !rep.Complete {
				return &exit{exitFailed, errors.New(args[0] + ": not finished: the recorder was stopped before it wrote the end; what is there is sound")}
			}
			report.Printf(a.out, "%s: sound\n", args[0])
			return nil
		},
	}
}
