package main

import (
	"io"

	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/internal/shell"
	"github.com/spf13/pflag"
)

type pprofExport struct{ which selectFlags }

func (e *pprofExport) flags(f *pflag.FlagSet) { e.which.add(f) }

func (e *pprofExport) check(*exporting, *pflag.FlagSet) error { return e.which.check() }

func (e *pprofExport) run(x *exporting) error {
	o := &pprof.Options{Select: &e.which.Selection, Progress: x.progress("calls")}
	res, err := file(x, func(w io.Writer) (*pprof.Result, error) { return pprof.Write(w, x.r, x.m, o) })
	if err != nil {
		return err
	}
	x.written(e.which.calls(res.Calls, recorded(x.r)), x.out.path, "look at it with: "+shell.Command("go", "tool", "pprof", "-http=:", x.out.path))
	return nil
}
