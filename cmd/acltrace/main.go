// Command acltrace records every call that a program makes to an accelerator's runtime, shows it, and replays it.
//
// Each command has a file with its flags, named after the command or its group. Commands and export formats are tables:
// commands in this file, exportFormats in export.go. A command opens a trace, calls the library packages and passes
// their findings to package report. This package holds no analysis and no format. A command's file uses helpers
// (app.go, open.go, flags.go, exporter.go), never another command's file.
package main

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/acltrace/acltrace/internal/shell"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) root() *cobra.Command {
	cobra.EnableCommandSorting = false // the order of groups
	root := &cobra.Command{
		Use:           "acltrace",
		Short:         "record, show and replay a program's calls to an accelerator's runtime",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknown(c, args[0])
			}
			return nil
		},
		RunE: helps,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { _, _ = c.OutOrStdout().Write([]byte(helpText(c, false))) })
	root.SetHelpCommand(a.helpCmd())
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			made := c.make(a)
			made.GroupID = g.title
			if c.whole {
				made.Annotations = map[string]string{ofWhole: ""}
			}
			root.AddCommand(made)
		}
	}
	root.AddCommand(a.docsCmd())
	root.SetHelpCommandGroupID("Setup")
	root.SetCompletionCommandGroupID("Setup")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.Short, completion.Long, completion.Args = "print a completion script for a shell", "", subcommands("a shell")
	completion.RunE = helps
	completion.Example = "acltrace completion bash >/etc/bash_completion.d/acltrace\n" +
		"acltrace completion zsh >~/.zfunc/_acltrace"
	complete(root)
	for _, c := range completion.Commands() {
		c.Short = "print the script for " + c.Name()
	}
	return root
}

// flagError words an error about a flag as a usage error.
func flagError(c *cobra.Command, err error) error {
	var required *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	in := ""
	if c.HasParent() {
		in = name(c) + ": "
	}
	switch {
	case errors.As(err, &required):
		f := required.GetFlag()
		value, text := value(f)
		return usage("%s--%s needs a value: --%s %s: %s", in, f.Name, f.Name, value, text)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return usage("%s--%s %s: %w", in, f.Name, invalid.GetValue(), invalidValue(f, invalid.Unwrap()))
	}
	return usage("%s%w: see `%s --help`", in, err, c.CommandPath())
}

// invalidValue words the error of a value that pflag parses. Other errors are the flag's own.
func invalidValue(f *pflag.Flag, err error) error {
	switch f.Value.Type() {
	case "duration":
		return errors.New("want a time, for example 50ms or 1.5s")
	case "int", "uint64", "float64", "int32Slice":
		return errors.New("want a number")
	}
	return err
}

// A group is a heading in the list of commands.
type group struct {
	title    string
	commands []command
}

// A command is one row in the table of commands.
type command struct {
	make  func(*app) *cobra.Command
	whole bool // it reads a whole trace and ends with exitLacks if the trace lost calls
}

// ofWhole is the annotation for commands that read a whole trace.
const ofWhole = "of a whole trace"

func groups() []group {
	return []group{
		{"Record", []command{{(*app).recordCmd, false}, {(*app).attachCmd, false}, {(*app).collectCmd, false}, {(*app).ctlCmd, false}, {(*app).envCmd, false}}},
		{"Look", []command{{(*app).infoCmd, false}, {(*app).catCmd, false}, {(*app).statsCmd, false}, {(*app).topCmd, false}, {(*app).diffCmd, true},
			{(*app).exportCmd, true}, {(*app).importCmd, false}}},
		{"Explain", []command{{(*app).blameCmd, false}, {(*app).whereCmd, false}}},
		{"Replay", []command{{(*app).replayCmd, true}, {(*app).extractCmd, true}, {(*app).bundleCmd, true}}},
		{"Simulate", []command{{(*app).simCmd, false}}},
		{"Files", []command{{(*app).fsckCmd, false}, {(*app).recoverCmd, true}, {(*app).packCmd, true}, {(*app).mergeCmd, true}, {(*app).assembleCmd, false}}},
		{"Setup", []command{{(*app).doctorCmd, false}, {(*app).demoCmd, false}, {(*app).versionCmd, false}}},
	}
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(stdin, stdout, stderr)
	root := a.root()
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		describeFlags(root)
	}
	c, err := root.ExecuteC()
	a.line.wipe()
	for c.HasParent() && c.Parent() != root {
		c = c.Parent()
	}
	_, whole := c.Annotations[ofWhole]
	if a.lacking && err == nil && (a.strict || whole) {
		err = &exit{code: exitLacks}
	}
	if err == nil {
		return 0
	}
	var e *exit
	if !errors.As(err, &e) {
		e = &exit{exitFailed, err}
	}
	if e.err != nil {
		report.Printf(a.err, "acltrace: %v\n", advised(e.err))
	}
	var r *remedied
	if errors.As(e.err, &r) {
		report.Printf(a.err, "%s%s\n", report.Block(r.lead), shell.Command(r.command...))
	}
	return e.code
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
