// Command apigen generates everything that follows from the model of a runtime: Go tables and the interface that an
// implementation satisfies, the public C header, the simulator's exports, the shim's wrappers, the player's dispatch
// and the table of docs/coverage.md. It is run by `make generate` in the root of the repository.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/acltrace/acltrace/api"
)

// folder is the folder of a layer, with the first number of its functions.
type folder struct {
	dir   string
	first int
}

// layers are the folders of each runtime's layers; programs call the first.
var layers = map[string][]folder{
	"acl":  {{"acl", 1}, {"rt", 1001}, {"hccl", 2001}, {"mstx", 3001}, {"program", 4001}},
	"cuda": {{"cuda", 5001}, {"program", 4001}},
}

// loadAll reads all layers of a runtime from the folder that they lie in.
func loadAll(root, runtime string) (*model, error) {
	var ms []*model
	for _, l := range layers[runtime] {
		m, err := load(filepath.Join(root, l.dir), l.first)
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	return join(ms...)
}

func run() error {
	all, err := loadAll("api", "acl")
	if err != nil {
		return err
	}
	cuda, err := loadAll("api", "cuda")
	if err != nil {
		return err
	}
	acl := all.upper
	both := &model{Model: api.Model{Name: "acl and api/cuda"}} // the player calls functions of any runtime
	both.Funcs, both.structs = append(slices.Clone(all.Funcs), cuda.Funcs...), append(slices.Clone(all.structs), cuda.structs...)
	slices.SortFunc(both.Funcs, func(a, b api.Func) int { return int(a.ID) - int(b.ID) })
	both.Funcs = slices.CompactFunc(both.Funcs, func(a, b api.Func) bool { return a.ID == b.ID })
	type output struct {
		path string
		gen  func(*model, *writer) error
		m    *model
	}
	outputs := []output{
		{"api/acl/acl_gen.go", genGo, all},
		{"api/acl/include/acl/acl.h", genHeader, acl},
		{"probe/shim/acl_gen.c", genShim, all},
		{"probe/shim/libraries_gen.h", genLibraries, &model{Model: api.Model{Name: all.Name, Layers: append(slices.Clone(all.Layers), cuda.Layers...)}}},
		{"replay/player/call_gen.h", genPlayer, both},
		{"docs/coverage.md", genCoverage, all},
		{"api/cuda/cuda_gen.go", genModel, cuda},
		{"api/cuda/include/cuda.h", genHeader, cuda.upper},
		{"probe/shim/cuda_gen.c", genShim, cuda},
		{"sim/cuda/cuda_gen.c", genFake, cuda.upper},
		{"docs/coverage-cuda.md", genCoverage, cuda},
	}
	for _, l := range all.layers {
		if l.layer.Simulated {
			outputs = append(outputs, output{"sim/libascendcl/" + l.Name + "_gen.c", genFace, l})
		}
	}
	further, err := acl.furtherHeaders()
	if err != nil {
		return err
	}
	outputs = append(outputs, output{"sim/libascendcl/headers_gen.c", genFace, further})
	for _, h := range slices.Compact(slices.Sorted(maps.Values(acl.header))) {
		outputs = append(outputs, output{"api/acl/include/" + h, genForward, acl})
	}
	for _, h := range further.further { // instead of those of the same name that forward
		outputs = append(outputs, output{"api/acl/include/" + h.include(), genHeader, h})
	}
	for _, l := range all.headers() {
		outputs = append(outputs, output{"api/acl/include/" + l.Name + "_gen.h", genHeader, l})
	}
	for _, g := range outputs {
		var w writer
		if err := g.gen(g.m, &w); err != nil {
			return fmt.Errorf("%s: %w", g.path, err)
		}
		if err := w.save(g.path); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "apigen:", err)
		os.Exit(1)
	}
}
