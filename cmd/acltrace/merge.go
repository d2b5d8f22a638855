package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/import/kineto"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/report"
)

func (a *app) mergeCmd() *cobra.Command {
	var out outputFlags
	var wall bool
	c := &cobra.Command{
		Use:   "merge -o FILE TRACE|FOLDER|PROFILE …",
		Short: "join the traces of a job's ranks, and profiles of PyTorch",
		Long: "Joins traces, and all *.aclt in folders, into one trace with one clock. A trace's rank is in its environment (RANK and similar variables), or else " +
			"its place among the arguments. Ranks on one host have its clock. Clocks of hosts are aligned by wall clocks, and then by collectives. `acltrace stats` shows which rank waited.\n\n" +
			"PROFILE is the JSON file of torch.profiler or torch_npu.profiler, made in the recorded run. Its operators become ranges above the calls of their threads.",
		Example: "acltrace merge -o job.aclt rank0.aclt rank1.aclt\n" +
			"acltrace merge -o both.aclt run.aclt profile.json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || out.path == "" {
				return usage("merge needs traces and -o FILE: acltrace merge -o job.aclt rank0.aclt rank1.aclt")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			profiles, traces := profilesAmong(args)
			if len(traces) == 0 {
				return usage("merge %s: a profile is merged with the recording of its run: acltrace merge -o both.aclt run.aclt %s", profiles[0], profiles[0])
			}
			files, err := ranks.Files(traces)
			if err != nil {
				return err
			}
			if err := out.trace(c, append(files, profiles...)...); err != nil {
				return err
			}
			defer a.endOnSignals()()
			g := &merging{app: a, out: out.path, wall: wall}
			defer g.close()
			if err := g.open(files); err != nil {
				return err
			}
			if len(profiles) > 0 {
				if done, err := g.profiles(profiles); done || err != nil {
					return err
				}
			}
			return g.ranks()
		},
	}
	out.add(c.Flags(), "`FILE`: trace to write")
	c.Flags().BoolVar(&wall, "wall", false, "align clocks by wall clocks only")
	return c
}

// profilesAmong separates profiles from traces and folders.
func profilesAmong(args []string) (profiles, traces []string) {
	for _, arg := range args {
		if strings.HasSuffix(arg, ".json") || strings.HasSuffix(arg, ".json.gz") {
			profiles = append(profiles, arg)
		} else {
			traces = append(traces, arg)
		}
	}
	return profiles, traces
}

// merging is one run of merge.
type merging struct {
	*app
	out     string
	wall    bool
	m       *api.Model
	readers []*format.Reader
	dir     string // of traces with operators, "" for none
}

func (g *merging) open(files []string) error {
	for _, f := range files {
		if format.SameFile(f, g.out) {
			return fmt.Errorf("%s is an input; name another file", g.out)
		}
		r, m, err := open(f)
		if err != nil {
			return err
		}
		g.readers = append(g.readers, r)
		if g.m = runtimes.Named(g.readers[0].Meta().API); m != g.m {
			return fmt.Errorf("%s has another runtime than %s", f, files[0])
		}
	}
	return nil
}

func (g *merging) close() {
	for _, r := range g.readers {
		g.app.close(r)
	}
	if g.dir != "" {
		_ = os.RemoveAll(g.dir)
	}
}

// profiles adds profiles to their recordings. If there is one recording, it writes the output and is done.
func (g *merging) profiles(paths []string) (done bool, err error) {
	of := map[*format.Reader][]*kineto.Profile{}
	for _, path := range paths {
		p, err := kineto.Read(path)
		if err != nil {
			return false, err
		}
		r, err := p.Of(g.readers)
		if err != nil {
			return false, err
		}
		of[r] = append(of[r], p)
	}
	if len(g.readers) == 1 {
		if err := g.add(g.readers[0], of[g.readers[0]], g.out); err != nil {
			return false, err
		}
		g.next("acltrace", "export", "perfetto", g.out)
		return true, nil
	}
	if g.dir, err = os.MkdirTemp(filepath.Dir(g.out), ".acltrace-merge-"); err != nil {
		return false, err
	}
	for i, r := range g.readers {
		if len(of[r]) == 0 {
			continue
		}
		made := filepath.Join(g.dir, fmt.Sprint(i, ".aclt"))
		if err := g.add(r, of[r], made); err != nil {
			return false, err
		}
		with, err := format.Open(made, nil)
		if err != nil {
			return false, err
		}
		g.readers[i] = with
		if err := g.app.close(r); err != nil {
			return false, err
		}
	}
	return false, nil
}

// add writes a recording with the operators of profiles.
func (g *merging) add(r *format.Reader, profiles []*kineto.Profile, output string) error {
	rep, err := kineto.Add(r, g.m, profiles, output)
	if err != nil {
		return err
	}
	report.Printf(g.err, "acltrace: %s: %s on %s", r.Path(), human.Plural(rep.Operators, "operator"), human.Plural(rep.Threads, "thread"))
	if rep.Outside > 0 {
		report.Printf(g.err, "; %s of other processes or times left out", human.Count(rep.Outside))
	}
	if rep.Shift != 0 {
		report.Printf(g.err, "; their clock set by %s, by %s", human.Plural(rep.Calls, "call"), human.Duration(max(rep.Shift, -rep.Shift)))
	}
	report.Printf(g.err, "\n")
	if rep.Crossing*10 > rep.Calls {
		report.Printf(g.err, "acltrace: %s of %s of these threads are partly inside an operator: the clocks differ; was the machine's clock set during the run?\n",
			human.Count(rep.Crossing), human.Plural(rep.Calls, "call"))
	}
	return nil
}

// ranks merges the ranks.
func (g *merging) ranks() error {
	meta, err := ranks.Merge(g.out, g.readers, g.m, &ranks.MergeOptions{WallOnly: g.wall, Progress: g.progress("traces")})
	if err != nil {
		return err
	}
	report.Printf(g.err, "acltrace: %s: %s\n", g.out, human.Plural(len(meta.Merged), "rank"))
	for _, p := range meta.Merged[1:] {
		how := "clock set by the wall clocks"
		switch {
		case p.OneClock:
			how = "clock of its host"
		case p.Matched > 0:
			how = fmt.Sprintf("clock set by %s, within %s", human.Plural(p.Matched, "collective"), human.Duration(p.ErrorNS))
		}
		report.Printf(g.err, "  rank %d on %s: %s\n", p.Rank, p.Host, how)
	}
	code := 0 // of the first rank that ended by an error: a rank that failed seldom ends well
	for _, r := range g.readers {
		if c := r.Meta().ExitCode; !report.InError(code) {
			code = c
		}
	}
	g.next("acltrace", report.FirstLook(0, 0, code), g.out)
	return nil
}
