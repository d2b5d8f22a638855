package main

import (
	"io"

	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/internal/shell"
	"github.com/spf13/pflag"
)

type pprofExport struct{}

func (pprofExport) flags(*pflag.FlagSet) {}

func (pprofExport) check(*exporting, *pflag.FlagSet) error { return nil }

func (pprofExport) run(x *exporting) error {
	o := &pprof.Options{Select: &x.which.Selection, Progress: x.progress("calls")}
	res, err := file(x, func(w io.Writer) (*pprof.Result, error) { return pprof.Write(w, x.r, x.m, o) })
	if err != nil {
		return err
	}
	x.written(res.Calls, x.calls(res.Calls), x.out.path, shell.Command("go", "tool", "pprof", "-http=:", x.out.path), 0, 0)
	return nil
}
