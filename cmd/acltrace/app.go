package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/shell"
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
	shown          bool           // a progress line is on the terminal
	strict         bool           // lost calls set the exit code
	lacking        bool           // a trace lost calls
	instead        string         // replaces lost calls in the output
}

// strictFlag adds --strict: lost calls, which are always reported, also set the exit code.
func (a *app) strictFlag(f *pflag.FlagSet) {
	f.BoolVar(&a.strict, "strict", false, "end with 4 if calls were lost")
}

// arguments requires n arguments.
func arguments(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s needs %s; see `%s --help`", c.CommandPath(), what, c.CommandPath())
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
			return usage("%s: %s exclude each other", c.CommandPath(), strings.Join(given, " and "))
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{in: stdin, raw: stdout, out: report.NewScreen(stdout), err: report.NewScreen(stderr)}
	a.stdout, _ = stdout.(*os.File)
	a.stderr, _ = stderr.(*os.File)
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
	report.Printf(a.err, "acltrace: next: %s\n", shell.Command(words...))
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// same reports whether two paths name one file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return errors.Join(err, err2) == nil && os.SameFile(x, y)
}

// progress returns a function that updates a progress line. It is nil if stderr is not a terminal.
func (a *app) progress(what string) func(done, total int) {
	f := a.stderr
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	last := time.Now() // short work shows no line
	return func(done, total int) {
		switch {
		case done >= total:
			a.endProgress()
		case time.Since(last) >= progressEvery:
			last, a.shown = time.Now(), true
			fmt.Fprintf(f, "\r%s of %s %s", human.Count(done), human.Count(total), what)
		}
	}
}

// progressEvery is the update interval, and the shortest duration that shows a line.
var progressEvery = 100 * time.Millisecond

// endProgress clears the progress line, if shown.
func (a *app) endProgress() {
	if a.shown {
		fmt.Fprint(a.stderr, wipe)
		a.shown = false
	}
}

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

// wipe clears the current line.
const wipe = "\r\x1b[K"

// above returns stdout for output above a progress line on the same terminal.
func (a *app) above() io.Writer {
	if a.stdout == nil || !term.IsTerminal(int(a.stdout.Fd())) {
		return a.raw
	}
	return wiping{a}
}

type wiping struct{ a *app }

func (w wiping) Write(b []byte) (int, error) {
	fmt.Fprint(w.a.stderr, wipe)
	return w.a.stdout.Write(b)
}

// bytes is progress for byte counts.
func (a *app) bytes() func(done, total int64) {
	show := a.progress("MiB")
	if show == nil {
		return nil
	}
	return func(done, total int64) { show(int(done>>20), int(total>>20)) }
}
