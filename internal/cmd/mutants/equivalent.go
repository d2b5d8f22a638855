package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// equivalentFile lists mutants that someone has looked at, and that mean the same as the code: file, line, change and reason, separated by tabs.
// A line of code stands for all equal lines of the file. It is without the white space around it.
const equivalentFile = "internal/cmd/mutants/equivalent.tsv"

// readEquivalent marks the mutants of the list, and collects the entries without a mutant.
func (m *module) readEquivalent() error {
	b, err := os.ReadFile(filepath.Join(m.dir, equivalentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	of := map[string][]*mutant{}
	for _, p := range m.all {
		for _, x := range p.mutants {
			file := filepath.Join(strings.TrimPrefix(p.ImportPath, m.name), filepath.Base(x.file))
			key := file + "\t" + x.code + "\t" + x.change()
			of[key] = append(of[key], x)
		}
	}
	for n, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		i := strings.LastIndexByte(line, '\t')
		if strings.Count(line, "\t") != 3 || i == len(line)-1 {
			return fmt.Errorf("parse %s:%d: want file, line, change and reason, separated by tabs", equivalentFile, n+1)
		}
		if of[line[:i]] == nil {
			m.stale = append(m.stale, line[:i])
		}
		for _, x := range of[line[:i]] {
			x.equivalent = line[i+1:]
		}
	}
	return nil
}
