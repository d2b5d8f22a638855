package replay

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
)

// The player's source for bundles.
//
//go:embed player/*.c player/*.h
var source embed.FS

// Bundle writes a plan as a lab.Bundle into a folder, which must be empty or not exist, or hold a bundle if Options.Replace is
// set. It refuses a trace with a call that can't be
// replayed.
func Bundle(trace string, m *api.Model, dir string, o *Options) (*Report, error) {
	opts, r, err := begin(trace, m, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	kernels, err := chooseKernels(opts, m, r.Meta())
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", trace, err)
	}
	var earlier []string
	if opts.Replace {
		earlier = []string{"Makefile", "README", "plan"}
	}
	made, err := atomicfile.Remake(dir, earlier...)
	if err != nil {
		return nil, err
	}
	rep, err := bundle(trace, r, m, made.Name(), opts, kernels)
	if err == nil {
		err = made.Keep("Makefile")
	}
	if err = errors.Join(err, made.Drop()); err != nil {
		return nil, err
	}
	return rep, nil
}

// bundle writes into an empty folder.
func bundle(trace string, r *format.Reader, m *api.Model, dir string, opts *Options, kernels []string) (*Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	opts.Verify = true
	compiling := opts.forCompiler(m)
	compiling.Relative = true
	p, err := compile.Trace(r, m, dir, compiling)
	if err != nil {
		return nil, compile.InFile(trace, err)
	}
	defer p.Close()
	player, err := fs.Sub(source, "player")
	if err != nil {
		return nil, err
	}
	b := &lab.Bundle{Plan: p, Trace: trace, Meta: r.Meta(), Kernels: kernels, Player: player}
	return (&judge{p, opts, compiling.Backend}).report(nil, nil), b.Write(dir)
}
