package main

import "github.com/acltrace/acltrace/api"

func genCoverage(m *model, w *writer) error {
	count := func(layer string, has func(*api.Func) bool) int {
		n := 0
		for i := range m.Funcs {
			if f := &m.Funcs[i]; f.Layer == layer && has(f) {
				n++
			}
		}
		return n
	}
	all := func(*api.Func) bool { return true }
	modelled := func(f *api.Func) bool { return f.Modelled }
	w.f("<!-- "+marker+" -->\n# Coverage\n", m.Name)
	w.f("%d functions of AscendCL are known by signature. %d of them are modelled: recorded with arguments and payloads. %d are simulated.",
		count("acl", all), count("acl", modelled), count("acl", func(f *api.Func) bool { return f.Simulated }))
	w.f("The others pass through a recorder and are counted by name; on the simulator they return 207000 and say their name once on stderr.\n")
	w.f("Of the library below it, %d functions are modelled that others than AscendCL call: to register, launch, copy, or order work.\n", count("rt", modelled))
	w.f("| function | since | modelled | simulated | puts on a stream | completes |\n|---|---|---|---|---|---|")
	for _, f := range m.Funcs {
		w.f("| %s | %s | %s | %s | %s | %s |", f.Name, f.Since, yes(f.Modelled), yes(f.Simulated), f.Task, f.Sync)
	}
	return nil
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
