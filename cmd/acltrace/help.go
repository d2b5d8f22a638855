package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sections are the headings of flags in help, and the flags below each, both in order. A flag has the same section in all
// commands, unless COMMAND/FLAG names another.
var sections = []struct {
	title string
	flags []string
}{
	{"Which processes", []string{"comm", "cgroup", "pid", "all", "session", "any-user"}},
	{"Which calls", []string{"call", "step", "from", "to", "kernel", "operator", "func", "failed", "longer-than", "stream", "thread", "task", "graph", "first", "tail", "addr",
		"map", "calls"}},
	{"What to record", []string{"payload", "no-small-copies", "replayable", "stacks", "device-time", "operators", "framework-marks", "no-task-ids", "sample"}},
	{"Which part of the run", []string{"steps", "step-marker", "for", "armed", "max-size", "until-gone"}},
	{"Flight recorder", []string{"ring", "slow", "seal-on", "max-seals"}},
	{"Where to replay", []string{"backend", "replay/kernels", "bundle/kernels", "place", "graphs", "guess", "pace", "trust", "stub-comm", "wrapper"}},
	{"Checks", []string{"verify", "tolerance", "repeat", "poison", "replay/strict"}},
	{"Virtual time", []string{"replay/model", "base", "replay/seed", "replay/output"}},
	{"Spans", []string{"layout", "brackets", "export otlp/device-as", "max-spans", "max-bytes", "no-steps", "slowest"}},
	{"Receiver", []string{"endpoint", "protocol", "export otlp/metrics", "resume", "ui"}},
	{"Sums", []string{"by", "top", "critical-path", "memory", "threshold", "slower"}},
	{"Output", []string{"output", "force", "keep", "blobs", "leave-blobs", "partition", "export perfetto/max-size", "compare", "no-args", "gpu", "zstd", "mindstudio",
		"wall", "raw", "json", "csv", "k8s", "image", "docker", "volume", "plan-only", "replay/keep", "once", "interval", "quiet", "verbose", "strict", "tokens"}},
	{"While recording", []string{"metrics", "sample-steps", "slow-step", "otlp", "otlp-protocol", "span-layout", "device-as"}},
	{"How to capture", []string{"api", "probe", "library", "bind", "policy", "ring-size", "no-guard", "install", "wait"}},
	{"Simulator", []string{"sim", "info", "root", "kernels", "clock", "model", "seed", "devices", "faults", "sim/strict"}},
	{"Limits", []string{"timeout", "max-memory", "max-tasks", "max-threads", "max-processes"}},
	{"Other flags", []string{"no-descriptions", "help", "version"}},
}

// explanation is the annotation of a flag that holds its explanation.
const explanation = "explanation"

// explain adds what one line can't hold to a flag. The text has paragraphs, as cobra's Long. `acltrace help COMMAND`, the man page and
// the reference show it.
func explain(f *pflag.FlagSet, flag, text string) {
	if err := f.SetAnnotation(flag, explanation, []string{text}); err != nil {
		panic(err) // no such flag
	}
}

// name returns a command's name without the program's: "export otlp".
func name(c *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
}

// A flagSection is a section of one command.
type flagSection struct {
	title string
	flags []*pflag.Flag
}

// sectionsOf returns a command's sections that have flags.
func sectionsOf(c *cobra.Command) []flagSection {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	c.Flags().Lookup("help").Usage = "show this help"
	if f := c.Flags().Lookup("version"); f != nil {
		f.Usage = "print the version"
	}
	at := make([]int, 0, 32)
	flags := map[int][]*pflag.Flag{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		s := section(name(c), f.Name)
		if flags[s] == nil {
			at = append(at, s)
		}
		flags[s] = append(flags[s], f)
	})
	slices.Sort(at)
	var all []flagSection
	for _, s := range at {
		list := sections[s].flags
		slices.SortStableFunc(flags[s], func(a, b *pflag.Flag) int { return place(list, name(c), a.Name) - place(list, name(c), b.Name) })
		all = append(all, flagSection{sections[s].title, flags[s]})
	}
	return all
}

// section returns the index of a flag's section, the last one if no section has the flag.
func section(command, flag string) int {
	for _, name := range []string{command + "/" + flag, flag} {
		for i := range sections {
			if slices.Contains(sections[i].flags, name) {
				return i
			}
		}
	}
	return len(sections) - 1
}

// place returns a flag's index in a section's list.
func place(list []string, command, flag string) int {
	return max(slices.Index(list, flag), slices.Index(list, command+"/"+flag))
}

// value returns the type of a flag's value, "" for none, and the flag's text. The usage of a flag with a value is "`TYPE`: text".
func value(f *pflag.Flag) (name, text string) {
	name, text = pflag.UnquoteUsage(f)
	return name, strings.TrimPrefix(text, name+": ")
}

// signature returns a flag as a user types it: "-o, --output FILE".
func signature(f *pflag.Flag) string {
	s := "    --" + f.Name
	if f.Shorthand != "" {
		s = "-" + f.Shorthand + ", --" + f.Name
	}
	value, _ := value(f)
	switch {
	case value == "":
	case f.NoOptDefVal != "":
		s += "[=" + value + "]"
	default:
		s += " " + value
	}
	return s
}

// describe returns a flag's line of help: its text and its default.
func describe(f *pflag.Flag) string {
	_, text := value(f)
	switch f.DefValue {
	case "", "0", "-1", "0s", "false", "[]":
		return text
	}
	return fmt.Sprintf("%s (default %s)", text, f.DefValue)
}

// helpWidth is the longest line of help.
const helpWidth = 80

// helpText returns a command's help. The long one has the command's Long and the explanations of its flags.
func helpText(c *cobra.Command, long bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n", sentence(c.Short))
	for _, l := range usageLines(c) {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	if long && c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", fill(c.Long, 0))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", indent(c.Example))
	}
	b.WriteString(commandsText(c))
	all := sectionsOf(c)
	column := 0
	for _, s := range all {
		for _, f := range s.flags {
			column = max(column, utf8.RuneCountInString(signature(f)))
		}
	}
	explained := false
	for _, s := range all {
		fmt.Fprintf(&b, "\n%s:\n", s.title)
		for _, f := range s.flags {
			fmt.Fprintf(&b, "  %-*s  %s\n", column, signature(f), strings.TrimSpace(fill(describe(f), column+4)))
			if text := f.Annotations[explanation]; text != nil && long {
				fmt.Fprintf(&b, "%s\n", fill(text[0], 8))
			}
			explained = explained || f.Annotations[explanation] != nil
		}
	}
	switch {
	case !c.HasParent():
		fmt.Fprintf(&b, "\n`%[1]s COMMAND --help` lists flags. `%[1]s help COMMAND` explains them.\n", c.Name())
	case !long && (c.Long != "" || explained):
		fmt.Fprintf(&b, "\n`%s help %s` explains more.\n", c.Root().Name(), name(c))
	}
	return b.String()
}

// usageLines returns how to call a command.
func usageLines(c *cobra.Command) []string {
	if c.HasAvailableSubCommands() {
		return []string{c.CommandPath() + " COMMAND [flags]"}
	}
	return []string{c.UseLine()}
}

// commandsText lists a command's commands, in groups.
func commandsText(c *cobra.Command) string {
	var b strings.Builder
	column := 0
	for _, s := range c.Commands() {
		if listed(s) {
			column = max(column, len(s.Name()))
		}
	}
	list := func(title, group string) {
		heading := title
		for _, s := range c.Commands() {
			if s.GroupID == group && listed(s) {
				if heading != "" {
					fmt.Fprintf(&b, "\n%s:\n", heading)
					heading = ""
				}
				fmt.Fprintf(&b, "  %-*s  %s\n", column, s.Name(), s.Short)
			}
		}
	}
	for _, g := range c.Groups() {
		list(g.Title, g.ID)
	}
	list("Commands", "")
	return b.String()
}

// listed reports whether help lists a command. For cobra, the command help is not available.
func listed(c *cobra.Command) bool { return c.IsAvailableCommand() || c.Name() == "help" }

// sentence returns a text with a capital letter and a full stop.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// indent returns text with lines that begin with two spaces.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

// fill breaks the paragraphs of a text into lines of helpWidth with an indentation. Indented lines stay as they are.
func fill(text string, spaces int) string {
	var b strings.Builder
	margin := strings.Repeat(" ", spaces)
	column := 0
	for l := range strings.Lines(strings.TrimSpace(text) + "\n") {
		l = strings.TrimRight(l, "\n")
		if l == "" || strings.HasPrefix(l, "  ") || strings.HasPrefix(l, "\t") {
			if column > 0 {
				b.WriteString("\n")
			}
			column = 0
			b.WriteString(strings.TrimRight(margin+l, " ") + "\n")
			continue
		}
		for _, w := range strings.Fields(l) {
			n := utf8.RuneCountInString(w)
			switch {
			case column == 0:
				b.WriteString(margin)
				column = spaces
			case column+1+n > helpWidth:
				b.WriteString("\n" + margin)
				column = spaces
			default:
				b.WriteString(" ")
				column++
			}
			b.WriteString(w)
			column += n
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// helpCmd is the command help. It prints the long help.
func (a *app) helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "list commands, or explain one",
		Example: "acltrace help\n" +
			"acltrace help record",
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err == nil && len(rest) > 0 && !of.HasAvailableSubCommands() {
				return usage("help takes one command: acltrace help %s", name(of))
			}
			if err != nil || len(rest) > 0 {
				return unknown(of, append(rest, args...)[0])
			}
			_, err = a.out.Write([]byte(helpText(of, true)))
			return err
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			of, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, s := range of.Commands() {
				if listed(s) && strings.HasPrefix(s.Name(), prefix) {
					names = append(names, cobra.CompletionWithDesc(s.Name(), s.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// helps is the function of a command that has only commands: cobra checks the arguments of commands with a function.
func helps(c *cobra.Command, _ []string) error { return c.Help() }

// subcommands checks the arguments of a command that has only commands. what names a command, for an error.
func subcommands(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(c, args[0])
		}
		return usage("%s needs %s: %s", name(c), what, names(c))
	}
}

// names lists a command's commands.
func names(c *cobra.Command) string {
	var list []string
	for _, s := range c.Commands() {
		list = append(list, s.Name())
	}
	return strings.Join(list, ", ")
}

// otherNames has commands by the names that they have in other tools, such as perf, nsys and strace.
var otherNames = map[string]string{
	"report": "stats", "stat": "stats", "analyze": "stats", "analyse": "stats", "summary": "stats",
	"profile": "record", "trace": "record", "run": "record", "capture": "record", "start": "record",
	"script": "cat", "dump": "cat", "show": "cat", "list": "cat", "print": "cat",
	"compare": "diff", "convert": "export", "simulate": "sim", "check": "fsck", "verify": "replay --verify", "annotate": "blame",
}

// unknown is the error for a word that is no command of c. It suggests commands with similar names.
func unknown(c *cobra.Command, word string) error {
	c.SuggestionsMinimumDistance = min(2, len(word)/2)
	in, remedy := "", "see `acltrace help`"
	if c.HasParent() {
		in, remedy = name(c)+": ", "want one of "+names(c)
	}
	if same := otherNames[word]; same != "" && !c.HasParent() {
		remedy = fmt.Sprintf("did you mean %s?", same)
	} else if near := c.SuggestionsFor(word); len(near) > 0 {
		remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage("%sunknown command %q: %s", in, word, remedy)
}
