package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/internal/schema"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/statedir"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/sim/model"
)

// foreignTrace makes a stranger's trace of a program that looks up a kernel.
func foreignTrace(t *testing.T, change func(*format.Meta)) string {
	t.Helper()
	meta := &format.Meta{API: "acl"}
	change(meta)
	path := filepath.Join(t.TempDir(), "t.aclt")
	w, err := format.Create(path, meta, schema.Of(acl.Model), &format.WriterOptions{Compression: format.NoCompression})
	if err != nil {
		t.Fatal(err)
	}
	tw := &traceWriter{t: t, w: w, path: path, now: 100}
	tw.thread(tw.process(1), 1)
	tw.begin()
	object, err := os.ReadFile(testenv.Built(t, "bin/examples/vector_kernels.o"))
	if err != nil {
		t.Fatal(err)
	}
	const binary, function = 0x5000, 0x6000
	tw.call("aclrtBinaryLoadFromData", []uint64{0x1000, uint64(len(object)), 0, 0x1008}, in(0, object), out(3, binary))
	tw.call("aclrtBinaryGetFunction", []uint64{binary, 0x1010, 0x1018}, in(1, []byte("vector_add")), out(2, function))
	return tw.close()
}

// evil compiles a kernel library that makes a file when it is loaded, and returns both. The sandbox prevents that, so tests run it outside.
func evil(t *testing.T, flags ...string) (library, pwned string) {
	t.Helper()
	pwned = filepath.Join(t.TempDir(), "pwned")
	return testenv.CompileC(t, "evil.so", []string{"testdata/evil.c"}, append(flags, "-shared", "-fPIC", fmt.Sprintf("-DPWNED=%q", pwned))...), pwned
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// A replay loaded any library that a trace named, and ran its constructors.
func TestReplayLoadsNoForeignKernelLibrary(t *testing.T) {
	simulate(t)
	library, pwned := evil(t)
	t.Setenv("ACLSIM_KERNELS", "")
	paths := map[string]string{}
	for name, change := range map[string]func(*format.Meta){
		"absolute": func(m *format.Meta) { m.KernelLibraries = []string{library} },
		"relative": func(m *format.Meta) { m.KernelLibraries = []string{"./evil.so"} },
		"bare":     func(m *format.Meta) { m.KernelLibraries = []string{"evil.so"} },
	} {
		paths[name] = foreignTrace(t, change)
	}
	byName := foreignTrace(t, func(m *format.Meta) { m.Env = map[string]string{"ACLSIM_KERNELS=" + library + ":": "x"} })
	t.Chdir(filepath.Dir(library))
	for name, path := range paths {
		var refused *KernelError
		if _, err := Run(t.Context(), path, acl.Model, &Options{Trust: true}); !errors.As(err, &refused) || len(refused.Paths()) != 1 {
			t.Errorf("%s: replay: %v", name, err)
		}
		if _, err := Bundle(path, acl.Model, filepath.Join(t.TempDir(), "bundle"), nil); !errors.As(err, &refused) {
			t.Errorf("%s: bundle: %v", name, err)
		}
		if r := run(t, path, &Options{KernelLibraries: []string{}, Trust: true}); r.Refused() || len(r.KernelLibraries) > 0 {
			t.Errorf("%s: without libraries: %+v", name, r)
		}
		if exists(pwned) {
			t.Fatalf("%s: the library was loaded", name)
		}
		// The user's flag loads it. A name without a slash is a file of the current folder.
		r := run(t, path, &Options{KernelLibraries: []string{"evil.so"}, Trust: true})
		if !exists(pwned) || len(r.KernelLibraries) != 1 || r.KernelLibraries[0].Path != library || !strings.HasPrefix(r.KernelLibraries[0].Hash, "sha256:") {
			t.Errorf("%s: with the user's word: %+v", name, r.KernelLibraries)
		}
		if err := os.Remove(pwned); err != nil {
			t.Fatal(err)
		}
	}
	// A variable name with "=" in it passed as another variable, even with no kernel libraries.
	if r := run(t, byName, &Options{KernelLibraries: []string{}, Trust: true}); exists(pwned) || len(r.IgnoredVariables) != 1 {
		t.Errorf("by a variable: loaded %v, ignored %+v", exists(pwned), r.IgnoredVariables)
	}
}

// A library without kernels ran its constructors before the check.
func TestSimulatorLoadsOnlyKernelLibraries(t *testing.T) {
	simulate(t)
	library, pwned := evil(t, "-DNO_KERNELS")
	run(t, foreignTrace(t, func(*format.Meta) {}), &Options{KernelLibraries: []string{library}, Trust: true})
	if exists(pwned) {
		t.Error("the library was loaded")
	}
}

// A replay of the user's own trace loads the recording's libraries: the same path or the same content, if no other user may write them.
func TestReplayLoadsOwnKernelLibraries(t *testing.T) {
	simulate(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("ACLSIM_KERNELS", "")
	own, pwned := evil(t)
	dir := t.TempDir()
	b, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copied.so")
	if err := os.WriteFile(copied, b, 0o700); err != nil {
		t.Fatal(err)
	}
	other, _ := evil(t, "-DOTHER")
	if err := kernellib.Remember(statedir.Path(), []kernellib.Library{{Path: own, BuildID: "1"}}); err != nil {
		t.Fatal(err)
	}
	try := func(library, want string) {
		t.Helper()
		path := foreignTrace(t, func(m *format.Meta) { m.KernelLibraries = []string{library} })
		_ = os.Remove(pwned)
		_, err := Run(t.Context(), path, acl.Model, &Options{Trust: true})
		if want == "" && (err != nil || !exists(pwned)) {
			t.Errorf("%s: %v, loaded %v", library, err, exists(pwned))
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || exists(pwned)) {
			t.Errorf("%s: %v, want %q", library, err, want)
		}
	}
	try(own, "")
	try(copied, "")
	try(other, "none of your recordings")
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(copied, 0o702)
	try(copied, "other users may write")
	chmod(copied, 0o700)
	chmod(dir, 0o777)
	try(copied, "other users may write")
	chmod(dir, 0o700)
	try(copied, "")
	list := filepath.Join(statedir.Path(), "libraries")
	if st, err := os.Stat(list); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the list: %v, %v", st, err)
	}
	chmod(list, 0o622)
	try(own, "other users may write")
}

// A kernel with the name of a libc function was that function, so a trace ran shell commands.
func TestKernelsAreOfTheKernelLibraryAlone(t *testing.T) {
	program := testenv.CUDA(t, "testdata/hostile.c", "-I"+filepath.Join(testenv.Root(t), "replay/testdata"))
	own := os.Getenv("FAKECUDA_KERNELS")
	libc, err := exec.Command("cc", "-print-file-name=libc.so.6").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{own, strings.TrimSpace(string(libc))} {
		cmd := exec.Command(program)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "FAKECUDA_KERNELS="+library, "LD_LIBRARY_PATH="+filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1")))
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", library, err, text)
		}
		if exists(filepath.Join(cmd.Dir, "pwned")) {
			t.Errorf("%s: a command of the program's dimensions was run", library)
		}
		if none := bytes.Contains(text, []byte("does not export fakecuda_kernels")); none != (library != own) {
			t.Errorf("%s:\n%s", library, text)
		}
	}
}

// A trace set any variable with the simulator's prefix, including paths.
func TestTracesSetListedVariablesOnly(t *testing.T) {
	content, err := model.Content(writeModel(t))
	if err != nil || !strings.HasPrefix(content, "{") {
		t.Fatalf("%q, %v", content, err)
	}
	accepted := map[string][]string{
		"ACLSIM_CLOCK": {"real", "virtual"}, "ACLSIM_DEVICES": {"1", "16"}, "ACLSIM_SEED": {"0", "18446744073709551615"}, "ACLSIM_VA_BASE": {"0x120000000000"},
		"ACLSIM_FAULTS": {"copy:5=507013, fill:1=corrupt\nkernel:1-1000=freed"}, "ACLSIM_MODEL": append(model.Presets(), content),
	}
	for name, values := range accepted {
		for _, v := range values {
			if err := acl.Model.Simulator.CheckVariable(name, v); err != nil {
				t.Errorf("%s=%s: %v", name, v, err)
			}
		}
	}
	refused := [][2]string{
		{"ACLSIM_KERNELS", "/x.so"}, {"ACLSIM_KERNELS=/x.so:", "x"}, {"ACLSIM_X=1; id > pwned; export Y", "1"}, {"ACLSIM_STRICT_LOG", "/x"}, {"ACLSIM_BREAK", "x"},
		{"ACLSIM_PLACE", "/x"}, {"ACLSIM_KERNELS_BESIDE", "1"}, {"LD_PRELOAD", "/x.so"}, {"aclsim_seed", "1"}, {"", ""},
		{"ACLSIM_MODEL", "/dev/zero"}, {"ACLSIM_MODEL", "model"}, {"ACLSIM_MODEL", "h100/../x"}, {"ACLSIM_SEED", "1\n"}, {"ACLSIM_SEED", "x"}, {"ACLSIM_DEVICES", "17"},
		{"ACLSIM_CLOCK", "virtual "}, {"ACLSIM_FAULTS", "/etc/passwd"}, {"ACLSIM_MODEL", "{" + strings.Repeat(" ", 1<<20) + "}"},
	}
	env := map[string]string{}
	for _, v := range refused {
		if acl.Model.Simulator.CheckVariable(v[0], v[1]) == nil {
			t.Errorf("%s=%s is set", v[0], v[1])
		}
		env[v[0]] = v[1]
	}
	env["ACLSIM_SEED"] = "7"
	set, ignored := compile.RecordedVariables(&acl.Model.Simulator, &format.Meta{Env: env})
	if !slices.Equal(set, []string{"ACLSIM_SEED=7"}) {
		t.Errorf("set: %q", set)
	}
	for _, v := range ignored {
		if acl.Model.Simulator.Decides(v.Name) {
			t.Errorf("%s is the replay's own", v.Name)
		}
	}
	for _, m := range []*api.Model{acl.Model, cuda.Model} {
		for name := range m.Simulator.Replayed {
			if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || m.Simulator.Decides(name) {
				t.Errorf("%s may be set by a trace", name)
			}
			for _, path := range []string{"/x", "./x", "x", "../x", "x.json", "{}\n/x"} {
				if err := m.Simulator.CheckVariable(name, path); err == nil && name != "ACLSIM_FAULTS" {
					t.Errorf("%s=%s is set", name, path)
				}
			}
		}
	}
}

func writeModel(t *testing.T) string {
	t.Helper()
	m, err := model.Load("h100")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(m, "", "  ")
	path := filepath.Join(t.TempDir(), "model.json")
	if err = errors.Join(err, os.WriteFile(path, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// Calls with file names opened and overwrote the recorded paths. Here every function with a path parameter is replayed, and no
// recorded path gets into a plan.
func TestNoRecordedPathReachesTheRuntime(t *testing.T) {
	const secret = "/recorded/secret"
	for _, m := range []*api.Model{acl.Model, cuda.Model} {
		tried := 0
		for i := range m.Funcs {
			f := &m.Funcs[i]
			at := slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Role == api.File || p.Role == api.Target })
			if at < 0 || !f.Modelled {
				continue
			}
			tried++
			for _, c := range []struct {
				ret     uint64
				content bool
			}{{0, true}, {0, false}, {1, true}, {1, false}} {
				path := filepath.Join(t.TempDir(), "t.aclt")
				w, err := format.Create(path, &format.Meta{API: m.Name}, schema.Of(m), &format.WriterOptions{Compression: format.NoCompression})
				if err != nil {
					t.Fatal(err)
				}
				tw := &traceWriter{t: t, w: w, path: path, now: 100}
				tw.thread(tw.process(1), 1)
				call := format.Call{Func: uint16(f.ID), Start: 100, End: 110, Args: make([]uint64, f.Words), Ret: c.ret}
				call.Args[f.Params[at].Word] = 0x1000
				in(uint8(at), []byte(secret))(&call)
				if c.content {
					item(uint8(at), 1, []byte(`{"dump": {"dump_path": "`+secret+`"}, "StackSize": {"aicore_stack_size":7}}`))(&call)
				}
				if _, err := w.Call(&call); err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				r, err := format.Open(tw.close(), nil)
				if err != nil {
					t.Fatal(err)
				}
				p, err := compile.Trace(r, m, dir, (&Options{Place: compile.PlaceAuto, Pace: PaceASAP}).forCompiler(m))
				r.Close()
				if err != nil {
					t.Fatalf("%s: %v", f.Name, err)
				}
				b, err := os.ReadFile(filepath.Join(dir, "plan"))
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(b, []byte(secret)) {
					t.Errorf("%s %+v: the recorded path is in the plan", f.Name, c)
				}
				for _, own := range p.Files {
					b, err := os.ReadFile(filepath.Join(dir, own.Name))
					if err != nil || f.Keeps != nil && bytes.Contains(b, []byte(secret)) || f.Keeps != nil && !bytes.Contains(b, []byte(`"aicore_stack_size":7`)) {
						t.Errorf("%s: content %q, %v", f.Name, b, err)
					}
				}
				if (c.content && f.Params[at].Role == api.File && !f.SkipOnReplay && !f.Composite && !f.Annotation && f.ReplayError == "" && c.ret == 0) != (len(p.Files) > 0) && c.ret == 0 {
					t.Errorf("%s %+v: %d files", f.Name, c, len(p.Files))
				}
			}
		}
		if tried < 4 {
			t.Errorf("%s: %d functions with paths", m.Name, tried)
		}
	}
}

// A replay wrote a debug call's graph to the recorded path.
func TestReplayWritesOnlyIntoItsFolder(t *testing.T) {
	simulate(t)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	tw := newTrace(t)
	tw.begin()
	const graph = 0x7000
	tw.call("aclmdlRIBuildBegin", []uint64{0x1000, 0}, out(0, graph))
	tw.call("aclmdlRIDebugJsonPrint", []uint64{graph, 0x2000, 0}, in(1, []byte(victim)))
	keep := t.TempDir()
	r := run(t, tw.close(), &Options{Keep: keep})
	if r.Refused() || r.Crash != nil || r.DifferingTotal > 0 {
		t.Fatalf("%+v", r)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" {
		t.Errorf("the recorded path has %q, %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(compile.OwnDir(keep), "1-victim")); err != nil || string(b) != "[]" {
		t.Errorf("the replay's own file has %q, %v", b, err)
	}
}

// "make run" executed the name of a recorded variable, a bundle copied any file that a trace named, and a pipe hung it.
func TestBundleOfForeignTrace(t *testing.T) {
	simulate(t)
	dir := t.TempDir()
	fifo, secret := filepath.Join(dir, "fifo.so"), filepath.Join(dir, "secret")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	plain := foreignTrace(t, func(*format.Meta) {})
	for _, l := range []string{fifo, secret, "/dev/zero", dir, filepath.Join(dir, "none")} {
		if _, err := Bundle(plain, acl.Model, filepath.Join(t.TempDir(), "bundle"), &Options{KernelLibraries: []string{l}}); err == nil || !strings.Contains(err.Error(), "is not a kernel library") {
			t.Errorf("%s: %v", l, err)
		}
		var refused *KernelError
		named := foreignTrace(t, func(m *format.Meta) { m.KernelLibraries = []string{l} })
		if _, err := Bundle(named, acl.Model, filepath.Join(t.TempDir(), "bundle"), nil); exists(l) && !errors.As(err, &refused) {
			t.Errorf("%s, named by the trace: %v", l, err)
		}
	}
	trace := foreignTrace(t, func(m *format.Meta) {
		m.Env = map[string]string{"ACLSIM_X=1; >pwned; export Y": "1", "ACLSIM_SEED": "7", "ACLSIM_MODEL": `{"name": "'; >pwned; echo '"}`}
	})
	library, _ := evil(t)
	bundle := filepath.Join(t.TempDir(), "it's a bundle")
	if _, err := Bundle(trace, acl.Model, bundle, &Options{KernelLibraries: []string{library}}); err != nil {
		t.Fatal(err)
	}
	runBundle(t, bundle, filepath.Join(lib, "libascendcl.so"))
	if exists(filepath.Join(bundle, "pwned")) {
		t.Error("the shell ran a word of the trace")
	}
	readme, err := os.ReadFile(filepath.Join(bundle, "README"))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := kernellib.Hash(library)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(readme), "\n")
	if !strings.Contains(first, "runs its author's code") || !strings.Contains(string(readme), strings.TrimPrefix(hash, "sha256:")+"  kernels/1-evil.so, a copy of \""+library+"\"") {
		t.Errorf("README:\n%s", readme)
	}
	if env, err := os.ReadFile(filepath.Join(bundle, "env")); err != nil || !bytes.Contains(env, []byte("export ACLSIM_SEED=7\n")) || bytes.Contains(env, []byte("ACLSIM_X")) {
		t.Errorf("env:\n%s%v", env, err)
	}
	var plan bytes.Buffer
	if _, err := Run(t.Context(), trace, acl.Model, &Options{PlanOnly: &plan}); err != nil || !strings.HasPrefix(plan.String(), "environment: ") || strings.Contains(plan.String(), "ACLSIM_X") {
		t.Errorf("plan: %v\n%s", err, plan.String())
	}
}

// Code of a library, and so of a kernel, had all rights of the user: here it makes a file outside the replay's folder when it is loaded.
func TestReplayRunsInSandbox(t *testing.T) {
	simulate(t)
	library, pwned := evil(t)
	path := foreignTrace(t, func(*format.Meta) {})
	r := run(t, path, &Options{KernelLibraries: []string{library}})
	if r.Sandbox == nil || !slices.Contains(r.Sandbox.Layers, "system calls") || len(r.KernelLibraries) != 1 {
		t.Errorf("sandbox %v, libraries %v", r.Sandbox, r.KernelLibraries)
	}
	if slices.Contains(r.Sandbox.Layers, "files") && exists(pwned) {
		t.Error("the library has left its file")
	}
	if r := run(t, path, &Options{KernelLibraries: []string{library}, Trust: true}); r.Sandbox != nil || !exists(pwned) {
		t.Errorf("outside the sandbox: %v, file left: %v", r.Sandbox, exists(pwned))
	}
}

// Regression: the refusal of a foreign trace blamed seccomp if the player had no /proc.
func TestReplayNamesTheMissingLayer(t *testing.T) {
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Skipf("no mount namespaces: %v", err)
	}
	simulate(t)
	library, _ := evil(t)
	script := filepath.Join(t.TempDir(), "noproc")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec unshare -m sh -c 'umount -l /proc && exec \"$@\"' sh \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), foreignTrace(t, func(*format.Meta) {}), acl.Model, &Options{KernelLibraries: []string{library}, Wrapper: []string{script}})
	if !errors.Is(err, ErrSandbox) || !strings.Contains(err.Error(), ": the kernel or the wrapper does not support /proc: ") {
		t.Errorf("%v", err)
	}
}

// A trace of 48 KB took 4 GiB. Here a kernel library allocates memory without end.
func TestReplayEndsAtMemoryLimit(t *testing.T) {
	simulate(t)
	library, _ := evil(t, "-DGREEDY")
	path := foreignTrace(t, func(*format.Meta) {})
	_, err := Run(t.Context(), path, acl.Model, &Options{KernelLibraries: []string{library}, MaxMemory: 256 << 20})
	if !errors.As(err, new(*MemoryError)) || !strings.Contains(err.Error(), "the limit is 256 MiB") {
		t.Errorf("%v", err)
	}
}
