package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

func genCoverage(m *model, w *writer) error {
	w.f("<!-- "+marker+" -->\n# Coverage\n", m.dir)
	for _, l := range m.layers {
		modelled, simulated := 0, 0
		for i := range l.Funcs {
			if l.Funcs[i].Modelled {
				modelled++
			}
			if l.Funcs[i].Simulated {
				simulated++
			}
		}
		title := strings.Join(l.layer.Libraries, ", ")
		if l.layer.HostCallback {
			title = "The program's own"
		}
		w.f("## %s\n\n%s\n", title, strings.TrimSpace(l.layer.Covers))
		if l.layer.HostCallback {
			continue
		}
		w.f("%d functions are known by signature, and %d of them are modelled: recorded with arguments and payloads.", len(l.Funcs), modelled)
		if simulated > 0 {
			w.f("%d are simulated; on the simulator the others return an error and say their name once on stderr.", simulated)
		}
		w.f("")
		forms := map[string][]string{} // the functions that have them, by all of them
		for i := range l.Funcs {
			var names []string
			for k := range l.forms {
				if form, ok := strings.CutPrefix(l.forms[k].Name, l.Funcs[i].Name+":"); ok {
					names = append(names, form)
				}
			}
			if all := strings.Join(names, "`, `"); all != "" {
				forms[all] = append(forms[all], l.Funcs[i].Name)
			}
		}
		for _, all := range slices.Sorted(maps.Keys(forms)) {
			w.f("A tag in a structure says what `%s` do: each is recorded under its own name and `:`, with one of `%s`.\n", strings.Join(forms[all], "`, `"), all)
		}
		reasons := map[string][]string{}
		for i := range l.Funcs {
			f := &l.Funcs[i]
			if f.Modelled {
				continue
			}
			if l.why[f.Name] == "" {
				return fmt.Errorf("%s is not modelled, and nothing says why", f.Name)
			}
			reasons[l.why[f.Name]] = append(reasons[l.why[f.Name]], f.Name)
		}
		for _, why := range slices.Sorted(maps.Keys(reasons)) {
			if names := reasons[why]; len(names) == 1 {
				w.f("`%s` passes through a recorder and is counted by name: %s.\n", names[0], why)
			} else {
				w.f("%d functions pass through a recorder and are counted by name: %s. They are `%s`.\n", len(names), why, strings.Join(names, "`, `"))
			}
		}
		if len(l.unsimulated) > 0 {
			w.f("Not simulated, and why:\n")
			for _, why := range slices.Sorted(maps.Keys(l.unsimulated)) {
				w.f("* %s: `%s`", why, strings.Join(l.unsimulated[why], "`, `"))
			}
			w.f("")
		}
		var blind []string
		for i := range l.Funcs {
			for _, p := range l.Funcs[i].Params {
				if p.Role == api.Opaque && l.Funcs[i].Task != api.NoTask && strings.HasSuffix(p.Type, "*") && strings.HasSuffix(strings.ToLower(p.Name), "info") {
					blind = append(blind, fmt.Sprintf("`%s` (%s)", l.Funcs[i].Name, p.Name))
				}
			}
		}
		if len(blind) > 0 {
			w.f("Nothing public tells how large these descriptors are, so a call is recorded without what is in them: %s.\n", strings.Join(blind, ", "))
		}
		played := simulated == 0 && slices.ContainsFunc(l.Funcs, func(f api.Func) bool { return f.SkipOnReplay })
		column := "simulated"
		if played {
			column = "replayed"
		}
		w.f("| function | since | modelled | %s | puts on a stream | completes |\n|---|---|---|---|---|---|", column)
		for _, f := range l.Funcs {
			task := f.Task.String()
			if f.Composite && f.Stream >= 0 {
				task = "what it calls"
			}
			third := yes(f.Simulated)
			if played {
				third = replayed(&f)
			}
			w.f("| %s | %s | %s | %s | %s | %s |", f.Name, f.Since, yes(f.Modelled), third, task, f.Sync)
		}
		w.f("")
	}
	return nil
}

// replayed says what becomes of a function's calls in a replay.
func replayed(f *api.Func) string {
	switch {
	case f.SkipOnReplay:
		return "left out: it changes nothing"
	case f.ReplayError != "":
		return "no: " + f.ReplayError
	}
	return yes(f.Modelled)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
