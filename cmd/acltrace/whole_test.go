package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/testenv"
)

// held runs acltrace and stops after all files are written but before they get their names.
func held() {
	atomicfile.Before = func() {
		if err := os.WriteFile(os.Getenv("HELD"), nil, 0o600); err != nil {
			panic(err)
		}
		for {
			time.Sleep(time.Hour)
		}
	}
	main()
}

// full runs acltrace on an almost full disk.
func full() {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: 100}); err != nil {
		panic(err)
	}
	main()
}

// tree returns a folder's files and contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// However a command ends, earlier files stay and no partial file looks complete. The next run succeeds.
func TestWritesAreWhole(t *testing.T) {
	in := writeInputs(t)
	at := func(name string) string { return filepath.Join(in, name) }
	trace := at("run.aclt")
	type command struct {
		name  string
		args  []string // OUT is the output folder
		files []string // files that are replaced; empty if a folder is created
		asks  bool     // polls for signals between steps
	}
	commands := []command{
		{"pack", []string{"pack", trace, "-o", "OUT/x.aclt"}, []string{"x.aclt"}, false},
		{"recover", []string{"recover", trace, "-o", "OUT/x.aclt"}, []string{"x.aclt"}, false},
		{"merge", []string{"merge", trace, at("other.aclt"), "-o", "OUT/x.aclt"}, []string{"x.aclt"}, false},
		{"assemble", []string{"assemble", at("text"), "-o", "OUT/x.aclt"}, []string{"x.aclt"}, false},
		{"extract", []string{"extract", trace, "--call", "13", "-o", "OUT/x.aclt"}, []string{"x.aclt"}, true},
		{"what-if", []string{"replay", "--backend", "virtual", trace, "-o", "OUT/x.aclt"}, []string{"x.aclt"}, true},
		{"import", []string{"import", "msprof", at("profile"), "-o", "OUT/x.aclt"}, []string{"x.aclt"}, false},
		{"bundle", []string{"bundle", trace, "-o", "OUT/bundle"}, nil, false},
		{"export perfetto --max-size", []string{"export", "perfetto", trace, "--max-size", "64K", "-o", "OUT/x.pftrace"}, []string{"x.001.pftrace"}, false},
		{"export chrome --mindstudio", []string{"export", "chrome", "--mindstudio", trace, "-o", "OUT/x.json"}, []string{"x.json"}, false},
		{"export parquet --partition", []string{"export", "parquet", "--partition", "job", trace, "-o", "OUT/tree"}, nil, false},
	}
	for i := range exportFormats {
		f := &exportFormats[i]
		to, files := "OUT/x", []string{"x"}
		if f.folder() {
			to, files = "OUT", []string{"calls.parquet", "tasks.parquet", "copies.parquet", "kernels.parquet"}
		}
		commands = append(commands, command{"export " + f.name, []string{"export", f.name, trace, "-o", to}, files, false})
	}
	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			before := map[string]string{}
			for _, f := range c.files {
				before[f] = "before"
				if err := os.WriteFile(filepath.Join(dir, f), []byte(before[f]), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := slices.Clone(c.args)
			for i := range args {
				args[i] = strings.Replace(args[i], "OUT", dir, 1)
			}
			args = append(args, "-f")
			// asBefore checks that the folder has the earlier files, and at most marked partial files if parts is set.
			asBefore := func(when string, parts bool) {
				t.Helper()
				found := 0
				for name, b := range tree(t, dir) {
					if was, ok := before[name]; ok {
						if b != was {
							t.Errorf("%s: %s has other content", when, name)
						}
						found++
					} else if !parts || !strings.HasSuffix(name, atomicfile.Suffix) && !strings.Contains(name, "acltrace-part") {
						t.Errorf("%s: there is %s", when, name)
					}
				}
				if found != len(before) {
					t.Errorf("%s: %d of %d files that were there are gone", when, len(before)-found, len(before))
				}
			}

			if out, err := exec.Command("acltrace-full", args...).CombinedOutput(); err == nil {
				t.Errorf("it came to its end without room:\n%s", out)
			}
			asBefore("no room", false)

			signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}
			if c.asks {
				signals = signals[:1]
			}
			for _, s := range signals {
				endHeld(t, args, s)
				asBefore(s.String(), s == syscall.SIGKILL)
			}

			if out, err := exec.Command("acltrace", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			after := tree(t, dir)
			for name := range after {
				if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s: %v, %v", name, st.Mode(), err)
				}
			}
			for name, b := range after {
				if b == "before" || strings.Contains(name, "acltrace-part") {
					t.Errorf("at the end there is %s, %d bytes", name, len(b))
				}
			}
			if len(after) == 0 || len(after) < len(c.files) {
				t.Errorf("%d files were made", len(after))
			}
		})
	}
}

// Commands whose output has its name from the start left half of it on a full disk. The error names the file and a remedy.
func TestFullDiskLeavesNothing(t *testing.T) {
	hello := testenv.Example(t, "hello")
	in := writeInputs(t)
	for _, args := range [][]string{
		{"record", "--sim", "-o", "OUT/x.aclt", "--", hello},
		{"record", "--sim", "--blobs", "OUT/x.blobs", "-o", "OUT/x.aclt", "--", hello},
		{"env", "--install", "OUT/session"},
		{"collect", "--until-gone", "10ms", "-o", filepath.Join(in, "y.aclt"), "OUT"},
		{"replay", "--keep", "OUT/plan", filepath.Join(in, "run.aclt")},
		{"export", "parquet", filepath.Join(in, "run.aclt"), "-o", "OUT/tables"},
	} {
		t.Run(args[0], func(t *testing.T) {
			dir := t.TempDir()
			for i := range args {
				args[i] = strings.Replace(args[i], "OUT", dir, 1)
			}
			out, err := exec.Command("acltrace-full", args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), dir+"/") || !strings.HasSuffix(string(out), "file too large: raise the limit (ulimit -f), or write less\n") {
				t.Errorf("%v: %v\n%s", args, err, out)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%v leaves %v, %v", args, left, err)
			}
		})
	}
}

// endHeld runs a command until everything is written, then sends a signal.
func endHeld(t *testing.T, args []string, s syscall.Signal) {
	t.Helper()
	mark := filepath.Join(t.TempDir(), "held")
	var said bytes.Buffer
	cmd := exec.Command("acltrace-held", args...)
	cmd.Env = append(os.Environ(), "HELD="+mark)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	early := false
	testenv.Wait(t, "a command to have written all", func() bool {
		select {
		case err := <-ended:
			ended <- err
			early = true
		default:
		}
		_, err := os.Stat(mark)
		return early || err == nil
	})
	if early {
		t.Fatalf("%v ended with %v before it could be ended by %v:\n%s", args, <-ended, s, &said)
	}
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	err := <-ended
	var e *exec.ExitError
	if !errors.As(err, &e) || e.Sys().(syscall.WaitStatus).Signal() != s {
		t.Errorf("ended with %v by %v:\n%s", err, s, &said)
	}
}

// writeInputs writes the commands' inputs into a folder: two traces, a text form, a profile.
func writeInputs(t *testing.T) string {
	t.Helper()
	program := testenv.Example(t, "vector_add")
	dir := t.TempDir()
	acltrace := func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command("acltrace", args...)
		cmd.Dir = dir
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, &said)
		}
		return out
	}
	acltrace("record", "--sim", "--replayable", "-o", "run.aclt", "--", program, "--n", "100")
	acltrace("record", "--sim", "-o", "other.aclt", "--", program, "--n", "100")
	if err := os.WriteFile(filepath.Join(dir, "text"), acltrace("cat", "--raw", "run.aclt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "profile"), os.DirFS(filepath.Join(testenv.Root(t), "import", "msprof", "testdata"))); err != nil {
		t.Fatal(err)
	}
	return dir
}
