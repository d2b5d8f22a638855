package replay

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/whole"
)

// The player's source as bundles have it.
//
//go:embed player/player.c player/place.h player/plan.h player/call_gen.h
var source embed.FS

// ErrMissing is wrapped by the error about a trace that lacks what a bundle or an extract needs; the error lists it.
var ErrMissing = errors.New("the trace lacks what is needed")

// Bundle plans a trace into a folder that can be built and run with a C compiler and the runtime library alone: the plan
// with all payloads, the files that the program loaded, the player's source and a Makefile. The folder must be empty
// or not be there. A trace of which a call can't be replayed is refused.
func Bundle(trace string, m *api.Model, dir string, o *Options) (*Report, error) {
	opts, r, err := begin(trace, m, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	made, err := whole.Mkdir(dir)
	if err != nil {
		return nil, err
	}
	rep, err := bundle(trace, r, m, made.Name(), opts)
	if err == nil {
		err = made.Keep("Makefile")
	}
	if err = errors.Join(err, made.Drop()); err != nil {
		return nil, err
	}
	return rep, nil
}

// bundle writes into an empty folder.
func bundle(trace string, r *format.Reader, m *api.Model, dir string, opts *Options) (*Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	opts.relative, opts.Verify = true, true
	p, err := newPlan(r, m, dir, opts)
	if err != nil {
		return nil, naming(trace, err)
	}
	if us := p.found.unsupported; len(us) > 0 {
		return nil, fmt.Errorf("%s: %w: %s", trace, ErrMissing, listUnsupported(us))
	}
	if p.found.calls == 0 {
		return nil, fmt.Errorf("%s: %w: there are no calls in it", trace, ErrMissing)
	}
	b := &bundler{p: p, dir: dir}
	b.sources()
	b.environment(r.Meta(), opts)
	library := b.p.model.Libraries()[0]
	b.file("Makefile", fmt.Sprintf(bundleMakefile, library))
	b.file("README", fmt.Sprintf(bundleReadme, filepath.Base(trace), p.found.calls, threads(len(p.threads)), b.shortcomings(), library))
	return p.report(nil, opts, nil), b.err
}

func listUnsupported(us []Unsupported) string {
	var s []string
	for _, u := range us {
		s = append(s, u.String())
	}
	return strings.Join(s, "; ")
}

type bundler struct {
	p   *Plan
	dir string
	err error
}

func (b *bundler) file(name, text string) {
	if b.err == nil {
		b.err = os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600)
	}
}

func (b *bundler) sources() {
	player, err := fs.Sub(source, "player")
	if err == nil {
		err = os.CopyFS(b.dir, player)
	}
	b.err = err
}

// environment writes the variables that the simulator is set up with. Other libraries know nothing of them.
func (b *bundler) environment(meta *format.Meta, o *Options) {
	var text strings.Builder
	set := func(name, value string) {
		fmt.Fprintf(&text, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	names := make([]string, 0, len(meta.Env))
	for name := range meta.Env {
		if keeps(&b.p.model.Simulator, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		set(name, meta.Env[name])
	}
	libs := o.KernelLibraries
	if libs == nil {
		libs = meta.KernelLibraries
	}
	var own []string
	for i, l := range libs {
		lib, err := os.ReadFile(l)
		if errors.Is(err, fs.ErrNotExist) && o.KernelLibraries == nil {
			continue
		}
		name := path.Join("kernels", fmt.Sprintf("%d-%s", i+1, filepath.Base(l)))
		if err == nil {
			err = os.MkdirAll(filepath.Join(b.dir, "kernels"), 0o700)
		}
		if b.err = errors.Join(b.err, err); b.err != nil {
			return
		}
		b.file(name, string(lib))
		own = append(own, name)
	}
	if len(own) > 0 || o.KernelLibraries != nil {
		set(b.p.model.Simulator.Kernels, strings.Join(own, ":"))
	}
	if name := b.p.model.Simulator.Beside; name != "" {
		set(name, "")
	}
	if name := b.p.model.Simulator.Uninitialised; name != "" {
		set(name, "1")
	}
	for name, v := range b.p.env {
		set(name, strings.TrimPrefix(v, name+"="))
	}
	b.file("env", text.String())
}

// shortcomings is what the reader of a bundle must know.
func (b *bundler) shortcomings() string {
	var s strings.Builder
	f := &b.p.found
	for _, u := range f.unproved() {
		fmt.Fprintf(&s, "Unproved: %s.\n", &u)
	}
	if s.Len() == 0 {
		return ""
	}
	return "\nWhat it can't show\n\n" + s.String()
}

const bundleMakefile = `# make run LIB=/path/to/%[1]s
CC     ?= cc
CFLAGS ?= -O2 -g
LIB    ?= %[1]s

player: player.c call_gen.h place.h plan.h
	$(CC) -std=c11 $(CFLAGS) -o $@ player.c -ldl -lpthread

# 0: identical, 3: something differs, 4: some results are unproved, 1: it could not be run, or did not come to its end.
run: player
	. ./env && ./player plan "$(LIB)"

debug: player
	. ./env && gdb -ex 'set follow-fork-mode child' --args ./player plan "$(LIB)"

.PHONY: run debug
`

func threads(n int) string {
	if n == 1 {
		return "one thread"
	}
	return fmt.Sprintf("%d threads", n)
}

const bundleReadme = `A program's calls of the runtime, to be made again: %s, %d calls on %s.

	make run LIB=/path/to/%[5]s

builds the player, makes every call with the recorded data against the runtime library that LIB names, and compares each
result that the device returns with the recorded one. It runs the kernels that the program ran. Exit codes: 0 every result
is proved, 3 something differs, 4 nothing differs but some results are unproved, 1 it could not be run or the library took
it down; the call is named then. "make debug" does so under gdb.

	plan      what is to be done, with all payloads (plan.h says how it is laid out)
	env       variables for the simulator, where it is that; other libraries ignore them
	player.c  makes the calls
	N-NAME    files that the program had loaded
%[4]s`
