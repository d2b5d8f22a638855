package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/acltrace/acltrace/api"
	"go.yaml.in/yaml/v3"
)

// A runtime is the content of a runtime.yaml, with the model of its layers.
type runtime struct {
	api.Runtime `yaml:",inline"`

	Layers []struct {
		Folder string // in api
		IDs    int    // first id of its functions
	}
	Include string   // folder for headers
	Header  string   // declares the first layer, relative to Include
	Trim    []string // prefixes of C names that Go names leave out
	Outputs outputs
	Build   build

	name  string
	model *model
}

// outputs are the files to generate for one runtime, "" for none. Layer headers are always generated.
type outputs struct {
	Table     string // Go tables
	Interface string // Go tables, and the interface of a simulator in Go
	Shim      string // wrappers
	Face      string // folder for the exports, if the simulator is in Go
	Fake      string // the generated exports of a simulator in C
	Coverage  string // document
}

// build lists a runtime's C parts for api/runtimes.mk. Sources are patterns.
type build struct {
	Shim struct {
		Sources []string // without the generated one
		Flags   string
	}
	Player struct {
		Place string // C function that places memory on the runtime's library, "" for none: see replay/player/place.h
	}
	Simulator struct {
		Sources []string
		Flags   string
		Links   []string // further names of the library
		Engine  struct{ Library, Package string }
		// Libraries of a toolkit, in the same folder.
		Libraries []library
	}
}

// library is a C library beside a simulator.
type library struct {
	Name    string   // of the file
	Sources []string // patterns
	Flags   string   // for the compiler
	Needs   []string // libraries that it is linked to
	Links   []string // further names of the library
}

// loadRuntimes reads all runtimes in root, ordered by their ids.
func loadRuntimes(root string) ([]*runtime, error) {
	files, err := filepath.Glob(filepath.Join(root, "*", "runtime.yaml"))
	if err != nil {
		return nil, err
	}
	var all []*runtime
	for _, file := range files {
		r, err := loadRuntime(root, filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *runtime) int { return a.Layers[0].IDs - b.Layers[0].IDs })
	return all, nil
}

// loadRuntime reads a runtime's runtime.yaml and layers.
func loadRuntime(root, name string) (*runtime, error) {
	file := filepath.Join(root, name, "runtime.yaml")
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &runtime{name: name}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	parts := &r.Build.Simulator
	if r.Simulator.Files = slices.Clone(parts.Links); parts.Engine.Library != "" {
		r.Simulator.Files = append(r.Simulator.Files, parts.Engine.Library)
	}
	for _, l := range parts.Libraries {
		r.Simulator.Files = append(append(r.Simulator.Files, l.Name), l.Links...)
	}
	if len(r.Layers) == 0 || r.Header == "" || r.Include == "" {
		return nil, fmt.Errorf("%s: layers, include and header are needed", file)
	}
	var ms []*model
	for i, l := range r.Layers {
		m := newModel(filepath.Join(root, l.Folder))
		if m.include = m.Name + "_gen.h"; i == 0 {
			m.include = r.Header
		}
		if m.trim = r.Trim; i > 0 {
			m.first = ms[0]
		}
		if err := m.load(l.IDs); err != nil {
			return nil, err
		}
		m.Runtime = r.Runtime
		ms = append(ms, m)
	}
	if r.model, err = join(ms...); err != nil {
		return nil, err
	}
	r.model.Name, r.model.Runtime = name, r.Runtime
	return r, nil
}

// An output is one generated file.
type output struct {
	path string
	gen  func(*model, *writer) error
	m    *model
}

// files lists a runtime's generated files.
func (r *runtime) files() ([]output, error) {
	all, upper := r.model, r.model.upper
	o := r.Outputs
	list := []output{
		{o.Table, genModel, all}, {o.Interface, genGo, all}, {o.Shim, genShim, all}, {o.Fake, genFake, upper}, {o.Coverage, genCoverage, all},
		{path.Join(r.Include, r.Header), genHeader, upper},
	}
	list = slices.DeleteFunc(list, func(o output) bool { return o.path == "" })
	for _, l := range all.headers() {
		list = append(list, output{path.Join(r.Include, l.include), genHeader, l})
	}
	further, err := upper.furtherHeaders()
	if err != nil {
		return nil, err
	}
	var own []string
	for _, h := range further.further {
		own = append(own, h.include)
		list = append(list, output{path.Join(r.Include, h.include), genHeader, h})
	}
	for _, h := range slices.Compact(slices.Sorted(maps.Values(upper.header))) {
		if h != r.Header && !slices.Contains(own, h) {
			list = append(list, output{path.Join(r.Include, h), genForward, upper})
		}
	}
	if o.Face == "" {
		return list, nil
	}
	for _, l := range all.layers {
		if l.layer.Simulated {
			list = append(list, output{path.Join(o.Face, l.Name+"_gen.c"), genFace, l})
		}
	}
	return append(list, output{path.Join(o.Face, "headers_gen.c"), genFace, further}), nil
}
