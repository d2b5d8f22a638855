package main

import (
	"cmp"
	"io"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An exporter writes traces in one format. It holds the format's flag values.
type exporter interface {
	// flags adds the flags of the format, besides those that choose calls.
	flags(f *pflag.FlagSet)
	// check checks the flags before the trace is opened.
	check(x *exporting, f *pflag.FlagSet) error
	// run writes a trace and prints a summary on standard error.
	run(x *exporting) error
}

// A treeExporter can also add any number of traces to one output.
type treeExporter interface {
	exporter
	arguments(c *cobra.Command, args []string) error
	runTree(x *exporting, args []string) (done bool, err error)
}

// exporting is one run of an export command.
type exporting struct {
	*app
	out   outputFlags
	which selectFlags
	size  outputSize
	path  string // trace
	r     *format.Reader
	m     *api.Model
}

// file writes a format's output to x.out and returns its result.
func file[R any](x *exporting, write func(io.Writer) (R, error)) (res R, err error) {
	err = x.out.write(x.app, x.r, func(w io.Writer) (err error) {
		x.size.to = w
		res, err = write(&x.size)
		return err
	})
	return res, err
}

// announced is the size from which a file is announced while it is written. A smaller part than announceAfter shows no tendency.
var announced, announceAfter = int64(1 << 30), int64(16 << 20)

// outputSize counts the bytes of an output file.
type outputSize struct {
	to      io.Writer
	written int64
	said    bool
}

func (s *outputSize) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.written += int64(n)
	return n, err
}

// partFile is one of several output files, whose sizes are added up.
type partFile struct {
	io.WriteCloser
	size *outputSize
}

func (f *partFile) Write(b []byte) (int, error) {
	n, err := f.WriteCloser.Write(b)
	f.size.written += int64(n)
	return n, err
}

// writing is progress for a file. It says once that the file will be large.
func (x *exporting) writing() func(done, total int) {
	show := x.progress("calls")
	return func(done, total int) {
		if show != nil {
			show(done, total)
		}
		s := &x.size
		if s.said || done <= 0 || s.written < announceAfter {
			return
		}
		if size := int64(float64(s.written) / float64(done) * float64(max(done, total))); size >= announced {
			s.said = true
			report.Printf(x.err, "acltrace: %s will take about %s; choose a part with --step, or --from and --to\n", cmp.Or(strings.TrimPrefix(x.out.path, "-"), "the output"), human.Bytes(size))
		}
	}
}

// calls describes the number of exported calls.
func (x *exporting) calls(n int) string { return x.which.calls(n, recorded(x.r)) }

// written prints the content and the name of an output file with n calls, and how to look at it, unless no call matches.
func (x *exporting) written(n int, content, path, look string, tasks, bracketed int) {
	nothing := x.which.nothing(x.app, x.path, uint64(n))
	if x.out.path == "-" {
		path, look = "standard output", ""
	}
	report.Printf(x.err, "acltrace: %s written to %s\n", content, path)
	x.brackets(bracketed, tasks)
	if look != "" && !nothing {
		report.Printf(x.err, "acltrace: next: %s\n", look)
	}
}

// brackets prints how many tasks have no measured times.
func (a *app) brackets(bracketed, tasks int) {
	if bracketed > 0 {
		report.Printf(a.err, "acltrace: the times of %s of %s are brackets, not measured\n", human.Count(bracketed), human.Plural(tasks, "task"))
	}
}
