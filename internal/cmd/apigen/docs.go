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
			w.f("%d are simulated; on the simulator, others return an error and print their name once on stderr.", simulated)
		}
		w.f("")
		forms := map[string][]string{} // functions by their list of forms
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
			w.f("The functions `%s` depend on a tag in a structure: they are recorded as NAME:TAG, with one of `%s`.\n", strings.Join(forms[all], "`, `"), all)
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
				w.f("`%s` is not recorded, only counted by name: %s.\n", names[0], why)
			} else {
				w.f("%d functions are not recorded, only counted by name: %s. They are `%s`.\n", len(names), why, strings.Join(names, "`, `"))
			}
		}
		if l == m.upper && len(m.Declared) > 0 {
			w.f("%d functions of further headers are not recorded, only counted by name: their libraries profile, dump and move data. They are `%s`.\n",
				len(m.Declared), strings.Join(m.Declared, "`, `"))
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
			w.f("The size of these descriptors is not documented, so calls are recorded without their content: %s.\n", strings.Join(blind, ", "))
		}
		coverageTable(l, w, simulated > 0)
	}
	return nil
}

// coverageTable writes a row for each function of a layer.
func coverageTable(l *model, w *writer, simulated bool) {
	played := !simulated && slices.ContainsFunc(l.Funcs, func(f api.Func) bool { return f.SkipOnReplay })
	column := "simulated"
	if played {
		column = "replayed"
	}
	w.f("| function | since | modelled | %s | puts on a stream | completes |\n|---|---|---|---|---|---|", column)
	for _, f := range l.Funcs {
		task := f.Task.String()
		if f.Composite && f.Stream >= 0 {
			task = "its inner calls"
		}
		third := yes(f.Simulated || slices.Contains(l.alone, f.Name))
		if played {
			third = replayed(&f)
		}
		w.f("| %s | %s | %s | %s | %s | %s |", f.Name, f.Since, yes(f.Modelled), third, task, f.Sync)
	}
	w.f("")
}

// replayed describes how a replay treats a function's calls.
func replayed(f *api.Func) string {
	switch {
	case f.SkipOnReplay:
		return "left out: it changes nothing"
	case f.ReplayError != "":
		return "no: " + f.ReplayError
	case f.Composite:
		return "its inner calls"
	}
	return yes(f.Modelled)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
