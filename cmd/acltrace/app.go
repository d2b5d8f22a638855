package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Documented exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitDiffers = 3
	exitLacks   = 4   // done, but the trace lacks calls or results
	exitUnclear = 5   // diff: a large change may be chance
	exitStart   = 125 // record and sim: the program did not start
)

// exit is an error with an exit code. A nil err prints no message.
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

// remedied is an error with the command that helps, printed below the error.
type remedied struct {
	error
	lead    string // printed before the command
	command []string
}

func (r *remedied) Unwrap() error { return r.error }

func usage(format string, args ...any) error { return &exit{exitUsage, fmt.Errorf(format, args...)} }

// app is the state that commands share.
type app struct {
	in             io.Reader
	raw            io.Writer      // standard output, for files and machine-readable text
	out, err       *report.Screen // text for people
	stdout, stderr *os.File       // for child processes and terminals; nil in tests
	line           progressLine
	strict         bool   // lost calls set the exit code
	lacking        bool   // a trace lost calls
	instead        string // replaces lost calls in the output
}

// strictFlag adds --strict: lost calls, which are always reported, also set the exit code.
func (a *app) strictFlag(f *pflag.FlagSet) {
	f.BoolVar(&a.strict, "strict", false, "end with 4 if calls were lost")
}

// arguments requires n arguments.
func arguments(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s needs %s: see `%s --help`", name(c), what, c.CommandPath())
		}
		return nil
	}
}

// exclusive makes flags of a command exclude each other.
func exclusive(c *cobra.Command, flags ...string) {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		var given []string
		for _, name := range flags {
			if c.Flags().Changed(name) {
				given = append(given, "--"+name)
			}
		}
		if len(given) > 1 {
			return usage("%s: %s exclude each other", name(c), strings.Join(given, " and "))
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{in: stdin}
	a.stdout, _ = stdout.(*os.File)
	a.stderr, _ = stderr.(*os.File)
	if a.stderr != nil && term.IsTerminal(int(a.stderr.Fd())) {
		a.line.to = a.stderr
	}
	a.raw = a.line.above(stdout)
	a.out, a.err = report.NewScreen(a.raw), report.NewScreen(a.line.above(stderr))
	a.out.Color, a.err.Color = colors(a.stdout), colors(a.stderr)
	return a
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(report.NewJSON(a.raw))
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// next prints the command to type next, for commands that print their summary on stderr.
func (a *app) next(words ...string) {
	report.NextMessage(a.err, words...)
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// colors reports whether f is a terminal that shows colors, and whose user wants them: see no-color.org.
func colors(f *os.File) bool {
	return f != nil && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// text returns options with the terminal's width.
func (a *app) text() *report.TextOptions {
	if f := a.stdout; f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return &report.TextOptions{Width: width}
		}
	}
	return nil
}
