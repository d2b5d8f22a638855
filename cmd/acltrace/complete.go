package main

import (
	"strings"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A valueSet are the values that a shell completes for a flag. A choice has its own.
type valueSet struct {
	flags string // names, or COMMAND/FLAG
	files bool   // a file is a value, too
	list  []string
}

func valueSets() []valueSet {
	backends, _ := backends()
	var apis []string
	for _, m := range runtimes.All {
		apis = append(apis, m.Name)
	}
	return []valueSet{
		{"api", false, append([]string{"auto"}, apis...)},
		{"device-time", false, []string{"all"}},
		{"record/metrics attach/metrics collect/metrics", false, []string{"otlp", "prometheus="}},
		{"protocol otlp-protocol", false, []string{"grpc", "http/protobuf"}},
		{"layout span-layout", false, []string{"nested", "lanes"}},
		{"brackets", false, []string{"earliest", "none"}},
		{"device-as", false, []string{"service", "attribute"}},
		{"by", false, stats.By},
		{"backend", true, backends},
		{"place", false, []string{"auto", "same", "move", "move:"}},
		{"pace", false, []string{"asap", "recorded", "scaled:"}},
		{"model base", true, model.Presets()},
		{"sim/strict", false, []string{"1", "abort"}},
		{"clock", false, []string{"real", "virtual"}},
	}
}

// describeFlags gives the flags the descriptions that shells show: cobra takes them from the usages.
func describeFlags(root *cobra.Command) {
	walk(root, func(c *cobra.Command) {
		for _, s := range sectionsOf(c) {
			for _, f := range s.flags {
				f.Usage = describe(f)
			}
		}
	})
}

// ofTraces are the commands whose arguments are traces.
const ofTraces = " info cat stats top diff blame where replay extract bundle fsck recover pack merge "

// complete adds completions to all commands. Cobra completes commands, formats of export and names of flags by itself.
func complete(root *cobra.Command) {
	sets := valueSets()
	walk(root, func(c *cobra.Command) {
		if strings.Contains(ofTraces, " "+c.Name()+" ") || c.HasParent() && c.Parent().Name() == "export" {
			c.ValidArgsFunction = cobra.FixedCompletions([]string{"aclt"}, cobra.ShellCompDirectiveFilterFileExt)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			own := sets
			if few, ok := f.Value.(interface{ values() []string }); ok {
				own = []valueSet{{f.Name, false, few.values()}}
			}
			for _, s := range own {
				list := strings.Fields(s.flags)
				if place(list, name(c), f.Name) < 0 {
					continue
				}
				directive := cobra.ShellCompDirectiveNoFileComp
				if s.files {
					directive = cobra.ShellCompDirectiveDefault
				}
				if err := c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(s.list, directive)); err != nil {
					panic(err) // completed twice
				}
			}
		})
	})
}
