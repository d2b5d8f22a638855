package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// kept is the content of a file with the results of a package's tests without a mutant.
type kept struct {
	Key   string // hash of the programs and the data
	Alone *alone
}

// baseline returns the results of a package's tests without a mutant. It runs them, unless an earlier run has kept the results: each by itself if
// all together would take long.
func (t *tester) baseline(ctx context.Context, path string) (*alone, error) {
	key, err := t.key(ctx, path)
	if err != nil {
		return nil, err
	}
	t.keys[path] = key
	of, _, _ := strings.Cut(path, " ")
	isSlow := t.m.path[of].slow
	k := kept{}
	if b, err := os.ReadFile(t.keptFile(path)); err == nil && json.Unmarshal(b, &k) == nil && k.Key == key && !k.Alone.Failed && len(k.Alone.Marks) == len(t.number)+1 {
		t.alone[path] = k.Alone
	} else if isSlow {
		t.alone[path] = &alone{Marks: make([]byte, len(t.number)+1)}
	} else if _, err := t.runAlone(ctx, path); err != nil {
		return nil, err
	}
	if isSlow {
		if err := t.runEach(ctx, path); err != nil {
			return nil, err
		}
	}
	return t.alone[path], t.keep(path)
}

// keep writes the results of a package's tests for a later run.
func (t *tester) keep(path string) error {
	b, err := json.Marshal(kept{t.keys[path], t.alone[path]})
	if err != nil {
		return err
	}
	return os.WriteFile(t.keptFile(path), b, 0o600)
}

func (t *tester) keptFile(path string) string {
	return filepath.Join(t.tmp, strings.ReplaceAll(path, "/", "+")+".json")
}

// key returns a hash of a package's tests, of their data, and of the libraries and programs with mutants.
func (t *tester) key(ctx context.Context, path string) (string, error) {
	of, _, _ := strings.Cut(path, " ")
	if err := t.build(ctx, t.shared, of); err != nil {
		return "", err
	}
	if _, err := t.built(ctx, t.shared); err != nil {
		return "", err
	}
	h := sha256.New()
	add := func(file string) error {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		defer f.Close()
		fmt.Fprintf(h, "%s\n", file)
		_, err = io.Copy(h, f)
		return err
	}
	for _, file := range []string{t.shared.binaries[of], filepath.Join(t.shared.dir, "lib", engineFile), filepath.Join(t.shared.dir, "bin", filepath.Base(program))} {
		if err := add(file); err != nil {
			return "", err
		}
	}
	err := filepath.WalkDir(filepath.Join(t.m.path[of].Dir, "testdata"), func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil || !d.Type().IsRegular() {
			return err
		}
		return add(file)
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}
