package main

import (
	"io"

	"github.com/acltrace/acltrace/export/chrome"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/spf13/pflag"
)

type chromeExport struct{ o chrome.Options }

func (e *chromeExport) flags(f *pflag.FlagSet) {
	f.BoolVar(&e.o.NoArgs, "no-args", false, "leave out call arguments and call numbers")
	explain(f, "no-args", "The file is smaller, and Speedscope sums up the calls of a function.")
	f.BoolVar(&e.o.MindStudio, "mindstudio", false, "write a trace_view.json for MindStudio Insight")
}

func (e *chromeExport) check(*exporting, *pflag.FlagSet) error { return nil }

func (e *chromeExport) run(x *exporting) error {
	e.o.Select, e.o.Progress = &x.which.Selection, x.writing()
	res, err := file(x, func(w io.Writer) (*chrome.Result, error) { return chrome.Write(w, x.r, x.m, &e.o) })
	if err != nil {
		return err
	}
	look := "open " + x.out.path + " at https://www.speedscope.app"
	if e.o.MindStudio {
		look = "open " + x.out.path + " in MindStudio Insight"
	}
	x.written(res.Calls, x.calls(res.Calls)+" and "+human.Plural(res.Tasks, "task"), x.out.path, look, res.Tasks, res.Bracketed)
	return nil
}
