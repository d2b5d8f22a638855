package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// allRuntimes is the source in the marker of shared files.
const allRuntimes = "the runtimes in api"

// A sharedOutput is a generated file that covers all runtimes.
type sharedOutput struct {
	path string
	gen  func([]*runtime, *writer)
}

var sharedOutputs = []sharedOutput{
	{"api/runtimes.mk", genMakefile},
	{"api/runtimes/runtimes_gen.go", genRuntimes},
	{"probe/shim/libraries_gen.h", genLibraries},
	{"replay/player/call_gen.h", genPlayer},
	{"replay/player/place_gen.h", genPlaces},
}

// genMakefile writes the Makefile variables for each runtime's parts.
func genMakefile(all []*runtime, w *writer) {
	w.f("# "+marker+"\n", allRuntimes)
	var names []string
	for _, r := range all {
		names = append(names, r.name)
	}
	w.f("RUNTIMES := %s", strings.Join(names, " "))
	for _, r := range all {
		sim := &r.Build.Simulator
		w.f("")
		for _, v := range []struct{ name, value string }{
			{"include", r.Include},
			{"shim", r.Shim},
			{"shim_c", r.Outputs.Shim + " " + strings.Join(r.Build.Shim.Sources, " ")},
			{"shim_flags", r.Build.Shim.Flags},
			{"sim", r.Simulator.Library},
			{"sim_c", wildcard(sim.Sources)},
			{"sim_flags", sim.Flags},
			{"sim_links", strings.Join(sim.Links, " ")},
			{"engine", sim.Engine.Library},
			{"engine_go", sim.Engine.Package},
		} {
			w.f("%s", strings.TrimSpace(fmt.Sprintf("%s_%s := %s", r.name, v.name, v.value)))
		}
		var names []string
		for _, l := range sim.Libraries {
			names = append(names, l.Name)
		}
		w.f("%s", strings.TrimSpace(fmt.Sprintf("%s_libraries := %s", r.name, strings.Join(names, " "))))
		for _, l := range sim.Libraries {
			w.f("%s_c := %s", l.Name, wildcard(l.Sources))
			w.f("%s", strings.TrimSpace(fmt.Sprintf("%s_flags := %s", l.Name, l.Flags)))
			w.f("%s", strings.TrimSpace(fmt.Sprintf("%s_needs := %s", l.Name, strings.Join(l.Needs, " "))))
			w.f("%s", strings.TrimSpace(fmt.Sprintf("%s_links := %s", l.Name, strings.Join(l.Links, " "))))
		}
	}
}

func wildcard(patterns []string) string {
	if len(patterns) == 0 {
		return ""
	}
	return "$(wildcard " + strings.Join(patterns, " ") + ")"
}

// genRuntimes writes the Go list of runtimes.
func genRuntimes(all []*runtime, w *writer) {
	w.f("// "+marker+"\n\npackage runtimes\n\nimport (\n\"github.com/acltrace/acltrace/api\"", allRuntimes)
	for _, r := range all {
		w.f("%q", "github.com/acltrace/acltrace/api/"+r.name)
	}
	w.f(")\n\n// All are the runtimes, the default one first.\nvar All = []*api.Model{")
	for _, r := range all {
		w.f("%s.Model,", r.name)
	}
	w.f("}")
}

// genLibraries writes the names of libraries for C code that searches for them.
func genLibraries(all []*runtime, w *writer) {
	w.f("/* "+marker+" */\n", allRuntimes)
	w.f("/* File names without versions. Libraries of composite layers and of marks are not among the runtime's. */")
	list := func(macro string, of func(*runtime) []string) {
		var names []string
		for _, r := range all {
			for _, n := range of(r) {
				names = append(names, fmt.Sprintf("\t%q", n))
			}
		}
		w.f("#define %s \\\n%s\n", macro, strings.Join(names, ", \\\n"))
	}
	list("RUNTIME_LIBRARIES", func(r *runtime) []string { return r.model.Libraries() })
	w.f("/* Libraries under and beside the runtimes. */")
	list("BESIDE_LIBRARIES", func(r *runtime) []string {
		names := slices.Clone(r.Below.Libraries)
		for _, l := range r.model.Layers {
			if l.Composite {
				names = append(names, l.Libraries...)
			}
		}
		return names
	})
	list("OPERATOR_LIBRARIES", func(r *runtime) []string { return r.Operators })
}

// genPlaces writes the list of placement functions: see replay/player/place.h.
func genPlaces(all []*runtime, w *writer) {
	w.f("/* "+marker+" */\n", allRuntimes)
	w.f("#include <stddef.h>\n\n#include \"place.h\"\n")
	var names []string
	for _, r := range all {
		if place := r.Build.Player.Place; place != "" {
			w.f("place_function %s;", place)
			names = append(names, place)
		}
	}
	w.f("static place_function *const places[] = {%s};", strings.Join(append(names, "NULL"), ", "))
}

// joined returns a model with all runtimes' functions and structures, for the player.
func joined(all []*runtime) *model {
	m := newModel("api")
	for _, r := range all {
		m.Funcs, m.structs = append(m.Funcs, r.model.Funcs...), append(m.structs, r.model.structs...)
	}
	slices.SortFunc(m.Funcs, func(a, b api.Func) int { return int(a.ID) - int(b.ID) })
	m.Funcs = slices.CompactFunc(m.Funcs, func(a, b api.Func) bool { return a.ID == b.ID })
	return m
}
