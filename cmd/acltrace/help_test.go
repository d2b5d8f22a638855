package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// allCommands visits every command that help lists, and the program itself.
func allCommands(visit func(c *cobra.Command)) {
	walk(newApp(nil, new(bytes.Buffer), new(bytes.Buffer)).root(), visit)
}

func TestHelpListsCommandsInGroups(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"help"}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	got, group := map[string][]string{}, ""
	for _, l := range strings.Split(out.String(), "\n") {
		switch {
		case strings.HasSuffix(l, ":") && !strings.HasPrefix(l, " "):
			group = strings.TrimSuffix(l, ":")
		case strings.HasPrefix(l, "  "):
			got[group] = append(got[group], strings.Fields(l)[0])
		}
	}
	for _, g := range []struct{ title, commands string }{
		{"Record", "record attach collect ctl env"},
		{"Look", "info cat stats top diff export import"},
		{"Explain", "blame where"},
		{"Replay", "replay extract bundle"},
		{"Simulate", "sim"},
		{"Files", "fsck recover pack merge assemble"},
		{"Setup", "doctor demo version completion help"},
	} {
		if list := strings.Join(got[g.title], " "); list != g.commands {
			t.Errorf("group %s: %s; want %s", g.title, list, g.commands)
		}
	}
}

func TestUnknownCommandSuggestsSimilarNames(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"recrod", `acltrace: unknown command "recrod": did you mean record?`},
		{"help recrod", `unknown command "recrod": did you mean record?`},
		{"report run.aclt", `unknown command "report": did you mean stats?`},
		{"help stat", `unknown command "stat": did you mean stats?`},
		{"profile ./a.out", `unknown command "profile": did you mean record?`},
		{"help nonsense", "unknown command \"nonsense\": see `acltrace help`"},
		{"nonsense", "unknown command \"nonsense\": see `acltrace help`"},
		{"export oltp x.aclt", `acltrace: export: unknown command "oltp": did you mean otlp?`},
		{"help export oltp", `acltrace: export: unknown command "oltp": did you mean otlp?`},
		{"export paper x.aclt", `unknown command "paper": want one of otlp, perfetto, pprof, chrome, html, parquet`},
		{"export", "acltrace: export needs a format: otlp, perfetto, pprof, chrome, html, parquet"},
		{"import msprfo d", `acltrace: import: unknown command "msprfo": did you mean msprof?`},
		{"completion bsh", `did you mean bash`},
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(c.args), nil, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), c.want) || strings.HasPrefix(errs.String(), "acltrace: acltrace") || out.Len() > 0 {
			t.Errorf("acltrace %s: exit code %d, %q; want %q", c.args, code, &errs, c.want)
		}
	}
}

// Every flag has a section, and every entry of a section is a flag.
func TestFlagsHaveSections(t *testing.T) {
	used := map[string]bool{}
	allCommands(func(c *cobra.Command) {
		_ = sectionsOf(c) // adds --help and --version
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			at := sections[section(name(c), f.Name)].flags
			switch qualified := name(c) + "/" + f.Name; {
			case slices.Contains(at, qualified):
				used[qualified] = true
			case slices.Contains(at, f.Name):
				used[f.Name] = true
			default:
				t.Errorf("%s --%s has no section", c.CommandPath(), f.Name)
			}
		})
	})
	for _, s := range sections {
		for _, f := range s.flags {
			if !used[f] && !slices.Contains(planned, f) {
				t.Errorf("section %s: no command has --%s", s.title, f)
			}
		}
	}
}

// planned are flags that have a section and no command yet.
var planned = []string{"n", "failed", "longer-than", "kernel"}

func TestHelpFitsEightyColumns(t *testing.T) {
	allCommands(func(c *cobra.Command) {
		for _, long := range []bool{false, true} {
			for _, l := range strings.Split(helpText(c, long), "\n") {
				if utf8.RuneCountInString(l) > 80 {
					t.Errorf("help of %s: %q", c.CommandPath(), l)
				}
			}
		}
		// Lists of names from a table grow. Other flags take one line.
		help := helpText(c, false)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "api" && f.Name != "backend" && !f.Hidden && !strings.Contains(help, "  "+describe(f)+"\n") {
				t.Errorf("help of %s: --%s takes several lines", c.CommandPath(), f.Name)
			}
		})
	})
}

// A flag with a value begins with its type, and a switch has none.
func TestFlagsNameTheTypeOfTheirValue(t *testing.T) {
	typed := regexp.MustCompile("^`[A-Z][A-Z0-9:|\\[\\]]*`: [^`]+$")
	allCommands(func(c *cobra.Command) {
		_ = sectionsOf(c) // replaces the text of --help
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			isSwitch := f.Value.Type() == "bool"
			if isSwitch == typed.MatchString(f.Usage) || isSwitch && strings.Contains(f.Usage, "`") {
				t.Errorf("%s --%s: %q", c.CommandPath(), f.Name, f.Usage)
			}
		})
	})
}

// Each command has at least two examples, which have flags and arguments that the command takes.
func TestExamplesParse(t *testing.T) {
	allCommands(func(c *cobra.Command) {
		if !c.HasParent() || c.Parent().Name() == "completion" {
			return
		}
		examples := strings.Split(c.Example, "\n")
		if len(examples) < 2 {
			t.Errorf("%s has %d examples", c.CommandPath(), len(examples))
		}
		named := false // one example is of the command itself
		for _, e := range examples {
			_, line, ok := strings.Cut(e, "acltrace ")
			line, _, _ = strings.Cut(line, ")\"") // the end of eval "$(…)"
			line, _, _ = strings.Cut(line, " >")
			root := newApp(nil, new(bytes.Buffer), new(bytes.Buffer)).root()
			of, args, err := root.Find(strings.Fields(line))
			if err == nil {
				err = of.ParseFlags(args)
			}
			if err == nil {
				err = of.ValidateArgs(of.Flags().Args())
			}
			if !ok || err != nil {
				t.Errorf("%s: example %q: %v", c.CommandPath(), e, err)
			}
			named = named || strings.HasPrefix(of.CommandPath(), c.CommandPath())
		}
		if !named {
			t.Errorf("%s: no example calls it", c.CommandPath())
		}
	})
}

func TestHelpExplains(t *testing.T) {
	c := &cobra.Command{Use: "c", Short: "do it", Long: "Does it well.\n\n  verbatim   text\n\n" + strings.Repeat("word ", 30), Run: func(*cobra.Command, []string) {}}
	c.Flags().String("ring", "8M", "`SIZE`: to keep")
	explain(c.Flags(), "ring", strings.Repeat("explained ", 12))
	short, long := helpText(c, false), helpText(c, true)
	if strings.Contains(short, "explained") || strings.Contains(short, "verbatim") || !strings.Contains(short, "--ring SIZE  to keep (default 8M)") {
		t.Errorf("short help:\n%s", short)
	}
	want := "      --ring SIZE  to keep (default 8M)\n" +
		"        explained explained explained explained explained explained explained\n" +
		"        explained explained explained explained explained\n"
	if !strings.Contains(long, want) || !strings.Contains(long, "\n  verbatim   text\n\nword ") {
		t.Errorf("long help:\n%s\nwant:\n%s", long, want)
	}
}

func TestCompletionOffersTheValues(t *testing.T) {
	backends, _ := backends()
	var formats, apis []string
	for _, m := range runtimes.All {
		apis = append(apis, m.Name)
	}
	for _, f := range exportFormats {
		formats = append(formats, f.name)
	}
	for _, c := range []struct{ args, want, directive string }{
		{"record --payload=", "small full hash none", ":4"}, // 4: no files
		{"record --device-as ", "service attribute", ":4"},
		{"attach --api ", "auto " + strings.Join(apis, " "), ":4"},
		{"stats --by ", "step thread stream kernel operator shape function", ":4"},
		{"replay --backend ", strings.Join(backends, " "), ":0"}, // and files
		{"replay --model ", "ascend310p ascend910b h100 instant", ":0"},
		{"replay --strict=", "off report fail", ":4"},
		{"sim --strict=", "1 abort", ":4"},
		{"export ", strings.Join(formats, " "), ":4"},
		{"export otlp --layout ", "nested lanes", ":4"},
		{"ctl ", "status start stop snapshot", ":4"},
		{"help r", "record replay recover", ":4"},
		{"stats ", "aclt", ":8"}, // 8: files with this extension
		{"export perfetto ", "aclt", ":8"},
		{"merge ", "aclt", ":8"},
	} {
		words := append([]string{"__complete"}, strings.Fields(c.args)...)
		if strings.HasSuffix(c.args, " ") {
			words = append(words, "")
		}
		var out, errs bytes.Buffer
		code := run(words, nil, &out, &errs)
		var got []string
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, l := range lines[:len(lines)-1] {
			l, _, _ = strings.Cut(l, "\t")
			if !strings.HasPrefix(l, "_activeHelp_") {
				got = append(got, l)
			}
		}
		if code != 0 || strings.Join(got, " ") != c.want || lines[len(lines)-1] != c.directive {
			t.Errorf("acltrace %s: exit code %d, %q, want %s and %s: %s", c.args, code, lines, c.want, c.directive, &errs)
		}
	}
}

// A flag with a list of values in its help completes them.
func TestFlagsWithListsComplete(t *testing.T) {
	lists := regexp.MustCompile(`: [a-z0-9]+, [a-z0-9]+|[a-z0-9]+ or [a-z0-9/]+$|^[a-z0-9]+ or [a-z0-9]`)
	allCommands(func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind, text := value(f)
			if _, completes := c.GetFlagCompletionFunc(f.Name); !completes && slices.Contains([]string{"NAME", "LEVEL", "HOW", "KIND", "PACE", "CLOCK", "MODE", "KEY"}, kind) && lists.MatchString(text) {
				t.Errorf("%s --%s completes no value of %q", c.CommandPath(), f.Name, text)
			}
		})
	})
}

// Regression: shells showed the type of a flag's value as "`TYPE`: " before the flag's description.
func TestCompletionDescribesFlags(t *testing.T) {
	seen := 0
	walk(newApp(nil, new(bytes.Buffer), new(bytes.Buffer)).root(), func(c *cobra.Command) {
		var out, errs bytes.Buffer
		args := slices.Concat([]string{"__complete"}, strings.Fields(name(c)), []string{"--"})
		if code := run(args, nil, &out, &errs); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, &errs)
		}
		for line := range strings.Lines(out.String()) {
			flag, said, found := strings.Cut(strings.TrimSpace(line), "\t")
			if f := c.Flags().Lookup(strings.TrimPrefix(flag, "--")); found && f != nil {
				seen++
				if said != describe(f) && flag != "--help" {
					t.Errorf("%v: %s is described as %q, want %q", args, flag, said, describe(f))
				}
			}
			if strings.Contains(line, "`: ") || strings.Contains(line, "help for") {
				t.Errorf("%v: %q", args, line)
			}
		}
	})
	if seen < 100 {
		t.Errorf("%d flags have descriptions", seen)
	}
}
