// Command apigen generates everything that follows from the API model in api/.
//
// It runs in the root of the repository, by `make generate`. For each runtime it reads runtime.yaml and the tables of the
// runtime's layers, and writes the Go tables, C headers, shim wrappers, simulator exports and the coverage document. For
// all runtimes together it writes the player's dispatch, the list of libraries, the list of runtimes in Go and
// api/runtimes.mk for the Makefile. From sim/opapi/operators.tsv it
// writes the functions of the operators. It appends the ids of new functions to ids.lock and changes no other input.
package main

import (
	"fmt"
	"os"
)

func run() error {
	all, err := loadRuntimes("api")
	if err != nil {
		return err
	}
	for _, g := range sharedOutputs {
		var w writer
		g.gen(all, &w)
		if err := w.save(g.path); err != nil {
			return err
		}
	}
	for _, r := range all {
		files, err := r.files()
		if err != nil {
			return err
		}
		for _, g := range files {
			var w writer
			if err := g.gen(g.m, &w); err != nil {
				return fmt.Errorf("%s: %w", g.path, err)
			}
			if err := w.save(g.path); err != nil {
				return err
			}
		}
	}
	return saveOperators()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "apigen:", err)
		os.Exit(1)
	}
}
