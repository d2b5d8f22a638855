package main

func genCoverage(m *model, w *writer) error {
	modelled := 0
	for _, f := range m.Funcs {
		if f.Modelled {
			modelled++
		}
	}
	w.f("<!-- "+marker+" -->\n# Coverage\n", m.Name)
	w.f("%d functions of AscendCL are known by signature. %d of them are modelled: recorded with arguments and payloads, simulated, and replayed.", len(m.Funcs), modelled)
	w.f("The others pass through a recorder untouched; on the simulator they return 207000 and say their name once on stderr.\n")
	w.f("| function | since | modelled | puts on a stream | completes |\n|---|---|---|---|---|")
	for _, f := range m.Funcs {
		yes := ""
		if f.Modelled {
			yes = "yes"
		}
		w.f("| %s | %s | %s | %s | %s |", f.Name, f.Since, yes, f.Task, f.Sync)
	}
	return nil
}
