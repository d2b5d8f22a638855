package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// outputFlags name the output of a command. It replaces an existing file only with --force.
type outputFlags struct {
	path  string
	force bool
}

func (o *outputFlags) add(f *pflag.FlagSet, usage string) {
	f.StringVarP(&o.path, "output", "o", "", usage)
	f.BoolVarP(&o.force, "force", "f", false, "overwrite existing output")
}

// free fails if a file has the name path, unless it may be overwritten.
func (o *outputFlags) free(path string) error {
	if err := atomicfile.Free(path); err != nil && !o.force {
		return fmt.Errorf("%w: -f overwrites it", err)
	}
	return nil
}

// trace checks the name of a trace that is made of inputs. Packages refuse an output that is an input.
func (o *outputFlags) trace(c *cobra.Command, inputs ...string) error {
	switch {
	case o.path == "":
		return usage("%s needs a file to write: -o FILE", name(c))
	case slices.ContainsFunc(inputs, func(in string) bool { return format.SameFile(in, o.path) }):
		return nil
	}
	return errors.Join(seekable(c, o.path), o.free(o.path))
}

// seekable refuses standard output for a trace, which is not written from its beginning to its end.
func seekable(c *cobra.Command, path string) error {
	if path == "-" {
		return usage("%s -o -: a trace can't be written to standard output: name a file", name(c))
	}
	return nil
}

// create creates an output file. It refuses to overwrite the trace being read.
func (o *outputFlags) create(path string, of *format.Reader) (*atomicfile.File, error) {
	if format.SameFile(path, of.Path()) {
		return nil, usage("--output %s is the trace itself", path)
	}
	if err := o.free(path); err != nil {
		return nil, err
	}
	return atomicfile.Create(path)
}

// write passes the new file to use, or standard output for "-".
func (o *outputFlags) write(a *app, of *format.Reader, use func(io.Writer) error) error {
	defer a.endOnSignals()()
	if o.path == "-" {
		return use(a.raw)
	}
	f, err := o.create(o.path, of)
	if err != nil {
		return err
	}
	if err = use(f); err == nil {
		err = f.Keep()
	}
	return errors.Join(err, f.Drop())
}

// writeAll passes use a function that creates files. All files get their names together.
func (o *outputFlags) writeAll(a *app, of *format.Reader, use func(create func(path string) (io.WriteCloser, error)) error) error {
	defer a.endOnSignals()()
	var files []*atomicfile.File
	err := use(func(path string) (io.WriteCloser, error) {
		f, err := o.create(path, of)
		if err == nil {
			files = append(files, f)
		}
		return f, err
	})
	if err == nil {
		err = atomicfile.KeepTogether(files...)
	}
	for _, f := range files {
		err = errors.Join(err, f.Drop())
	}
	return err
}

// notEmpty words an error about a folder for a bundle.
func (o *outputFlags) notEmpty(err error) error {
	if !errors.Is(err, fs.ErrExist) { // ENOTEMPTY is one
		return err
	}
	if o.force {
		return fmt.Errorf("%w, and it has no bundle: name a new folder", err)
	}
	return fmt.Errorf("%w: -f replaces an earlier bundle", err)
}
