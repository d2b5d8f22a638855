// Command acltrace records every call that a program makes to an accelerator's runtime, shows it, and runs it again.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the build.
var version = "unknown"

// Exit codes that scripts may rely on.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitDiffers = 3
	exitLacks   = 4   // all was done that can be, and the trace lacks something
	exitStart   = 125 // record: the program was not run
)

// exit is an error with the code that the program ends with. A nil err ends it without a word.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// remedied is an error with what to do about it, which is printed in lines of its own.
type remedied struct {
	error
	remedy string
}

func (r *remedied) Unwrap() error { return r.error }

func usage(format string, args ...any) error { return &exit{exitUsage, fmt.Errorf(format, args...)} }

// app is what the commands share.
type app struct {
	in             io.Reader
	raw            io.Writer      // standard output, for files and for text that programs read
	out, err       *report.Screen // text for people
	stdout, stderr *os.File       // for programs that are started, and terminals; nil in tests
	shown          bool           // a line of progress is on the terminal
	strict         bool           // calls that a trace has lost decide on the exit code
	lacking        bool           // a trace has lost calls
	instead        string         // replaces lost calls in the output
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "acltrace",
		Short:         "record, show and replay what a program asks of an accelerator's runtime",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%s: %w; see `%s --help`", c.CommandPath(), err, c.CommandPath())
	})
	root.AddCommand(a.recordCmd(), a.attachCmd(), a.envCmd(), a.collectCmd(), a.ctlCmd(), a.simCmd(), a.infoCmd(), a.catCmd(), a.statsCmd(), a.topCmd(), a.diffCmd(), a.whereCmd(), a.blameCmd(), a.replayCmd(), a.extractCmd(), a.bundleCmd(), a.exportCmd(), a.importCmd(),
		a.fsckCmd(), a.recoverCmd(), a.packCmd(), a.mergeCmd(), a.assembleCmd(), a.doctorCmd(), a.demoCmd())
	return root
}

// ofWhole are the commands that make something of a whole trace: they end with exitLacks if the trace has lost calls.
var ofWhole = []string{"export", "replay", "bundle", "extract", "merge", "pack", "recover", "diff"}

// strictFlag has calls that a trace has lost, which is said in any case, decide on the exit code of the other commands.
func (a *app) strictFlag(f *pflag.FlagSet) {
	f.BoolVar(&a.strict, "strict", false, "end with 4 if the trace has lost calls: some were not recorded, its end is missing, or it is damaged")
}

// arguments checks the number of a command's arguments.
func arguments(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s needs %s; see `%s --help`", c.CommandPath(), what, c.CommandPath())
		}
		return nil
	}
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{in: stdin, raw: stdout, out: report.NewScreen(stdout), err: report.NewScreen(stderr)}
	a.stdout, _ = stdout.(*os.File)
	a.stderr, _ = stderr.(*os.File)
	return a
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(stdin, stdout, stderr)
	root := a.root()
	root.SetArgs(args)
	c, err := root.ExecuteC()
	a.endProgress()
	for c.HasParent() && c.Parent() != root {
		c = c.Parent()
	}
	if a.lacking && err == nil && (a.strict || slices.Contains(ofWhole, c.Name())) {
		err = &exit{code: exitLacks}
	}
	if err == nil {
		return 0
	}
	var e *exit
	if !errors.As(err, &e) {
		code := exitFailed
		if c, _, ferr := root.Find(args); ferr != nil || c == root {
			code = exitUsage // an unknown command
		}
		e = &exit{code, err}
	}
	if e.err != nil {
		report.Printf(a.err, "acltrace: %v\n", e.err)
	}
	var r *remedied
	if errors.As(e.err, &r) {
		report.Printf(a.err, "%s\n", report.Block(r.remedy))
	}
	return e.code
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
