package main

func genCoverage(m *model, w *writer) error {
	modelled, simulated := 0, 0
	for _, f := range m.Funcs {
		if f.Modelled {
			modelled++
		}
		if f.Simulated {
			simulated++
		}
	}
	w.f("<!-- "+marker+" -->\n# Coverage\n", m.Name)
	w.f("%d functions of AscendCL are known by signature. %d of them are modelled: recorded with arguments and payloads. %d are simulated.", len(m.Funcs), modelled, simulated)
	w.f("The others pass through a recorder untouched; on the simulator they return 207000 and say their name once on stderr.\n")
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
