package main

import (
	"io"

	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/pflag"
)

type pprofExport struct{}

func (pprofExport) flags(*pflag.FlagSet) {}

func (pprofExport) check(*exporting, *pflag.FlagSet) error { return nil }

func (pprofExport) run(x *exporting) error {
	o := &pprof.Options{Progress: x.progress("calls")}
	if err := x.write(x.out, x.r, func(w io.Writer) error { return pprof.Write(w, x.r, x.m, o) }); err != nil {
		return err
	}
	report.Printf(x.err, "acltrace: %s written; look at it with: go tool pprof -http=: %s\n", x.out, x.out)
	return nil
}
