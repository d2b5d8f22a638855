package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/shell"
	"github.com/acltrace/acltrace/replay/compile"
)

// A Bundle is a plan in a folder that can be built and run with only a C compiler and the runtime library. The folder contains the plan
// with all payloads, the files that the program loaded, the player's source and a Makefile.
type Bundle struct {
	Plan    *compile.Plan // was compiled into the folder, with relative paths
	Trace   string        // trace path
	Meta    *format.Meta  // of the trace
	Kernels []string      // paths of the simulator's kernel libraries, nil for those in the environment
	Player  fs.FS         // player source
}

// Write adds all other files to the plan's folder. It refuses a plan with a call that can't be replayed.
func (b *Bundle) Write(dir string) error {
	found := &b.Plan.Found
	if us := found.Unsupported; len(us) > 0 {
		return fmt.Errorf("%s: %w: %s", b.Trace, compile.ErrMissing, listUnsupported(us))
	}
	if found.Calls == 0 {
		return fmt.Errorf("%s: %w: it has no calls", b.Trace, compile.ErrMissing)
	}
	w := &bundler{p: b.Plan, dir: dir}
	units := w.sources(b.Player)
	w.environment(b.Meta, b.Kernels)
	for _, f := range b.Plan.Files {
		w.files = append(w.files, f.Hash+"  "+f.Name)
	}
	library := b.Plan.Model.Libraries()[0]
	w.file("Makefile", fmt.Sprintf(bundleMakefile, library, b.Plan.Model.Simulator.Symbol, strings.Join(units, " ")))
	w.file("README", fmt.Sprintf(bundleReadme, filepath.Base(b.Trace), found.Calls, threads(len(b.Plan.Threads)), w.shortcomings(), library, w.listing()))
	return w.err
}

func listUnsupported(us []compile.Unsupported) string {
	var s []string
	for _, u := range us {
		s = append(s, u.String())
	}
	return strings.Join(s, "; ")
}

type bundler struct {
	p   *compile.Plan
	dir string
	// files are the loaded files' hashes and names.
	files []string
	err   error
}

func (b *bundler) file(name, text string) {
	if b.err == nil {
		b.err = os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600)
	}
}

// sources writes the player's source and returns its C files' names.
func (b *bundler) sources(player fs.FS) []string {
	var units []string
	names, err := fs.Glob(player, "*")
	for _, name := range names {
		var text []byte
		if text, err = fs.ReadFile(player, name); err != nil {
			break
		}
		b.file(name, string(text))
		if path.Ext(name) == ".c" {
			units = append(units, name)
		}
	}
	b.err = errors.Join(b.err, err)
	return units
}

// environment writes the simulator's variables, and copies its kernel libraries. Other libraries ignore both.
func (b *bundler) environment(meta *format.Meta, libraries []string) {
	sim := &b.p.Model.Simulator
	vars, _ := compile.RecordedVariables(sim, meta)
	var own []string
	for i, l := range libraries {
		name := path.Join("kernels", fmt.Sprintf("%d-%s", i+1, compile.PlainName(l)))
		hash, err := b.kernels(l, name)
		if err != nil {
			b.err = errors.Join(b.err, fmt.Errorf("copy kernel library: %w", err))
			return
		}
		b.files = append(b.files, fmt.Sprintf("%s  %s, a copy of %q", hash, name, l))
		own = append(own, name)
	}
	if libraries != nil {
		vars = append(vars, sim.Kernels+"="+strings.Join(own, ":"))
	}
	if sim.Beside != "" {
		vars = append(vars, sim.Beside+"=")
	}
	if sim.Uninitialised != "" {
		vars = append(vars, sim.Uninitialised+"=1")
	}
	vars = slices.AppendSeq(vars, maps.Values(b.p.Env))
	var text strings.Builder
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&text, "export %s=%s\n", name, shell.Quote(value))
	}
	b.file("env", text.String())
}

// kernels copies a kernel library into the bundle and returns its hash.
func (b *bundler) kernels(from, name string) (hash string, err error) {
	if symbol := b.p.Model.Simulator.KernelSymbol; !kernellib.Exports(from, symbol) {
		return "", fmt.Errorf("%q is not a kernel library: want a regular ELF file of at most %d bytes that exports %s", from, kernellib.MaxSize, symbol)
	}
	in, err := kernellib.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), io.LimitReader(in, kernellib.MaxSize))
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, out.Close())
}

// shortcomings returns the limitations for the README.
func (b *bundler) shortcomings() string {
	var s strings.Builder
	f := &b.p.Found
	for _, u := range f.Unproved() {
		fmt.Fprintf(&s, "Unproved: %s.\n", &u)
	}
	if s.Len() == 0 {
		return ""
	}
	return "\nLimits\n\n" + s.String()
}

// listing lists the loaded files.
func (b *bundler) listing() string {
	if len(b.files) == 0 {
		return ""
	}
	return "\nFiles that are loaded, with their SHA-256\n\n\t" + strings.Join(b.files, "\n\t") + "\n"
}

const bundleMakefile = `# make run LIB=/path/to/%[1]s
CC     ?= cc
CFLAGS ?= -O2 -g
LIB    ?= %[1]s

# A simulator needs only files below this folder.
SANDBOX ?= $(shell grep -qs %[2]s "$(LIB)" && echo --sandbox --partial)

SOURCES := %[3]s

player: $(SOURCES) $(wildcard *.h)
	$(CC) -std=c11 $(CFLAGS) -o $@ $(SOURCES) -ldl -lpthread

# 0: identical, 3: something differs, 4: some results are unproved, 1: it could not be run, or did not reach its end.
run: player
	. ./env && ./player $(SANDBOX) plan "$(LIB)"

debug: player
	. ./env && gdb -ex 'set follow-fork-mode child' --args ./player $(SANDBOX) --names plan "$(LIB)"

.PHONY: run debug
`

func threads(n int) string {
	if n == 1 {
		return "one thread"
	}
	return fmt.Sprintf("%d threads", n)
}

const bundleReadme = `Building or running this bundle runs its author's code with your rights: do it only if you know its origin.

Recorded runtime calls of a program: %s, %d calls on %s.

	make run LIB=/path/to/%[5]s

builds the player, and makes every call with the recorded data on the runtime library LIB. It runs the program's kernels, and
compares each result from the device with the recorded one. Exit codes: 0 all results are proved, 3 a result differs, 4 nothing
differs but some results are unproved, 1 it could not be run, or crashed in the printed call. "make debug" runs it under gdb.

	plan      instructions and payloads (plan.h describes the file)
	env       variables for the simulator, which other libraries ignore
	play*.c   make the calls
	sandbox.c isolates a simulator from the rest of the machine, with Landlock and seccomp
	place_*.c put device memory at its recorded addresses, on a device
	N-NAME    files that the program had loaded
	kernels/  kernel libraries for the simulator
%[6]s%[4]s`
