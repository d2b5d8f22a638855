package main

import (
	"io"

	"github.com/acltrace/acltrace/export/html"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/pflag"
)

type htmlExport struct {
	step    optional[human.Numbers]
	compare string
}

// choosesItself: the page always shows the whole trace.
func (e *htmlExport) choosesItself() {}

func (e *htmlExport) flags(f *pflag.FlagSet) {
	e.step.parse = human.ParseNumbers
	f.Var(&e.step, "step", "`N[:M]`: draw step N, or steps N to M, too")
	f.StringVar(&e.compare, "compare", "", "`FILE`: show an earlier run beside this one, and what changed")
}

func (e *htmlExport) check(*exporting, *pflag.FlagSet) error { return nil }

func (e *htmlExport) run(x *exporting) error {
	o := &html.Options{Steps: e.step.value, Progress: x.writing()}
	if e.compare != "" {
		r, m, err := open(e.compare)
		if err != nil {
			return err
		}
		defer x.close(r)
		if m != x.m {
			return usage("%s and %s are of different runtimes", x.path, e.compare)
		}
		o.Compare = &html.Trace{Path: e.compare, Reader: r}
	}
	res, err := file(x, func(w io.Writer) (*html.Result, error) {
		return html.Write(w, &html.Trace{Path: x.path, Reader: x.r}, x.m, o)
	})
	if err != nil {
		return err
	}
	path, look := x.out.path, "open "+x.out.path+" in a browser"
	if path == "-" {
		path, look = "standard output", ""
	}
	report.Printf(x.err, "acltrace: page of %s, %s and %s written to %s\n", human.Plural(res.Calls, "call"), human.Plural(res.Steps, "step"), human.Plural(res.Pictures, "picture"), path)
	if look != "" {
		report.Printf(x.err, "acltrace: next: %s\n", look)
	}
	return nil
}
