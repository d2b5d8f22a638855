// Package shimtest tests how the shim gets between programs and the runtime: every split of the runtime into libraries that
// CANN has had, and every way in which programs reach them. It also tests C files of the shim on their own.
//
// The runtime's libraries are fakes, generated from the API model. The package contains tests only.
package shimtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record"
)

// bodies are the function bodies in the fake runtime.
var bodies = map[string]string{
	"aclrtSetDevice":                "return 0;",
	"aclrtMalloc":                   "*(void **)devPtr = malloc(size); return 0;",
	"aclrtMemcpy":                   "memcpy(dst, src, count); return 0;",
	"aclrtFree":                     "free(devPtr); errno = 77; return 0;",
	"aclrtLaunchKernelWithHostArgs": "return LAUNCH;",
}

// cParams returns a parameter list that needs no header: all pointers and handles are void pointers.
func cParams(t *testing.T, name string) (params, args string) {
	t.Helper()
	f := acl.Model.Lookup(name)
	if f == nil || !f.Modelled {
		t.Fatalf("%s is not modelled", name)
	}
	enums := map[string]bool{}
	for _, e := range acl.Model.Enums {
		enums[e.Type] = true
	}
	var ps, as []string
	for _, p := range f.Params {
		ctype := p.Type
		switch {
		case enums[ctype]:
			ctype = "int"
		case strings.HasSuffix(ctype, "*") || !strings.HasSuffix(ctype, "_t") && ctype != "int" || strings.HasPrefix(ctype, "rt"):
			ctype = "void *"
		}
		ps, as = append(ps, ctype+" "+p.Name), append(as, p.Name)
	}
	return strings.Join(ps, ", "), strings.Join(as, ", ")
}

// shape is a split of the runtime into libraries. Each is linked to the next.
type shape struct {
	name string
	libs []library
	cc   string // compiler and flags, "" for the default
}

type library struct {
	file string
	// layer lists the contents: "all" (aclrtX with code), "wrap" (aclrtX calls aclrtXImpl), "impl" (aclrtXImpl with code), "rt"
	// (the functions that launches use).
	layer string
	flags []string
}

var shapes = []shape{
	{name: "8.1", libs: []library{{"libascendcl.so", "all", nil}, {"libruntime.so", "rt", nil}}},
	{name: "8.3", libs: []library{{"libascendcl.so", "wrap", nil}, {"libascendcl_impl.so", "impl", nil}, {"libruntime.so", "rt", nil}}},
	{name: "8.5", libs: []library{{"libacl_rt.so", "wrap", []string{"-Wl,-Bsymbolic"}}, {"libacl_rt_impl.so", "impl", []string{"-Wl,-Bsymbolic"}}, {"libruntime.so", "rt", []string{"-Wl,-Bsymbolic"}}}},
	{name: "9.2", libs: []library{{"libacl_rt.so", "wrap", []string{"-Wl,-Bsymbolic"}}, {"libruntime.so", "impl rt", []string{"-Wl,-Bsymbolic"}}}},
}

func (s *shape) main() string { return s.libs[0].file }

const launch = "rtKernelLaunch"

// source returns the C code for a library. Each library counts the calls of its outermost functions. When it is unloaded it
// writes the count to the file in FAKE_LOG, for comparison with the trace.
func source(t *testing.T, l library, top bool, extra string) string {
	var b strings.Builder
	b.WriteString("#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n")
	rt := acl.Model.Lookup(launch) != nil
	if rt {
		params, _ := cParams(t, launch)
		fmt.Fprintf(&b, "__attribute__((visibility(\"default\"))) int %s(%s);\n#define LAUNCH %s(funcHandle, numBlocks, hostArgs, (uint32_t)argsSize, 0, stream)\n", launch, params, launch)
	} else {
		b.WriteString("#define LAUNCH 0\n")
	}
	if top {
		b.WriteString(`static int calls;
#define COUNT __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
__attribute__((destructor)) static void tell(void)
{
	const char *log = getenv("FAKE_LOG");
	char s[32];
	int fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
	if (fd >= 0 && write(fd, s, (size_t)sprintf(s, "%d\n", calls)) > 0)
		close(fd);
}
`)
	} else {
		b.WriteString("#define COUNT\n")
	}
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		params, args := cParams(t, name)
		body := bodies[name]
		for _, p := range strings.Split(args, ", ") {
			body = "(void)" + p + "; " + body
		}
		switch {
		case l.layer == "all":
			fmt.Fprintf(&b, "int %s(%s) { COUNT %s }\n", name, params, body)
		case l.layer == "wrap":
			fmt.Fprintf(&b, "int %sImpl(%s);\nint %s(%s) { COUNT return %sImpl(%s); }\n", name, params, name, params, name, args)
		case strings.Contains(l.layer, "impl"):
			fmt.Fprintf(&b, "int %sImpl(%s) { COUNT %s }\n", name, params, body)
		}
	}
	if strings.Contains(l.layer, "rt") && rt {
		params, args := cParams(t, launch)
		fmt.Fprintf(&b, "int %s(%s) {", launch, params)
		for _, p := range strings.Split(args, ", ") {
			fmt.Fprintf(&b, " (void)%s;", p)
		}
		b.WriteString(" return 0; }\n")
	}
	b.WriteString(extra)
	return b.String()
}

func cc(t *testing.T, out string, args ...string) string {
	t.Helper()
	return compile(t, "", out, args...)
}

func compile(t *testing.T, compiler, out string, args ...string) string {
	t.Helper()
	flags := strings.Fields(compiler)
	if len(flags) == 0 {
		flags = []string{"cc"}
	}
	if _, err := exec.LookPath(flags[0]); err != nil {
		t.Skipf("no %s", flags[0])
	}
	for _, a := range args {
		_, _ = os.Stat(a) // makes the file an input for the cache of test results
	}
	if b, err := exec.Command(flags[0], slices.Concat(flags[1:], []string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", out}, args)...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, args, err, b)
	}
	return out
}

// build compiles the libraries into a folder. extra is C code for the first one.
func (s *shape) build(t *testing.T, extra string) string {
	t.Helper()
	dir := t.TempDir()
	for i := len(s.libs) - 1; i >= 0; i-- {
		l := s.libs[i]
		more := ""
		if i == 0 {
			more = extra
		}
		src := filepath.Join(dir, l.file+".c")
		if err := os.WriteFile(src, []byte(source(t, l, i == 0, more)), 0o644); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"-shared", "-fPIC", "-Wl,-soname," + l.file, src}, l.flags...)
		if i+1 < len(s.libs) {
			args = append(args, filepath.Join(dir, s.libs[i+1].file), "-Wl,--no-as-needed,-rpath,$ORIGIN")
		}
		compile(t, s.cc, filepath.Join(dir, l.file), args...)
	}
	return dir
}

func (s *shape) program(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	args := append([]string{"testdata/program.c"}, flags...)
	if slices.Contains(flags, "-DLINKED") {
		args = append(args, filepath.Join(dir, s.main()), "-Wl,-rpath,"+dir, "-Wl,--allow-shlib-undefined")
	}
	out := filepath.Join(t.TempDir(), "program")
	if slices.Contains(flags, "-shared") {
		out += ".so"
	}
	return compile(t, s.cc, out, append(args, "-ldl")...)
}

type result struct {
	*record.Result
	*format.Reader
	stdout, stderr string
	recorded       map[string]int
	made           int // calls counted by the fake runtime
}

// run records a command without the simulator. The command must succeed.
func run(t *testing.T, env []string, command ...string) *result {
	t.Helper()
	return bound(t, "", env, command...)
}

// bound is run with a way to bind the shim.
func bound(t *testing.T, bind string, env []string, command ...string) *result {
	t.Helper()
	return recorded(t, &record.Options{Capture: record.Capture{Bind: bind}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, env, command...)
}

// recorded is run with options.
func recorded(t *testing.T, o *record.Options, env []string, command ...string) *result {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	o.Model, o.Output, o.Command, o.Env = acl.Model, filepath.Join(dir, "run.aclt"), command, append(append(os.Environ(), "FAKE_LOG="+log), env...)
	files := [2]*os.File{}
	for i := range files {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	o.Stdout, o.Stderr = files[0], files[1]
	res, err := record.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r := &result{Result: res, recorded: map[string]int{}}
	out, _ := os.ReadFile(files[0].Name())
	errs, _ := os.ReadFile(files[1].Name())
	r.stdout, r.stderr = string(out), string(errs)
	if res.ExitCode != 0 || res.Incomplete != nil || res.Lost != 0 || !strings.HasSuffix(r.stdout, "done\n") {
		t.Fatalf("exit code %d, %d lost, %v\n%s%s", res.ExitCode, res.Lost, res.Incomplete, r.stdout, r.stderr)
	}
	if r.Reader, err = format.Open(o.Output, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		r.recorded[r.Schema().FuncName(c.Func)]++
	}
	if b, err := os.ReadFile(log); err == nil {
		for line := range strings.Lines(string(b)) {
			n, _ := strconv.Atoi(strings.TrimSpace(line))
			r.made += n
		}
	}
	return r
}

// each returns n calls for every function.
func each(n int) map[string]int {
	m := map[string]int{}
	for name := range bodies {
		m[name] = n
	}
	return m
}

// exactly checks that the trace has every call of n rounds once, and that no call passed by the shim.
func (r *result) exactly(t *testing.T, n int) {
	t.Helper()
	if r.made != n*len(bodies) {
		t.Fatalf("the runtime counted %d calls of %d", r.made, n*len(bodies))
	}
	if !maps.Equal(r.recorded, each(n)) {
		t.Errorf("recorded %v, want %d of each", r.recorded, n)
	}
	if m := r.Meta().Coverage; len(m.Unhooked) > 0 || len(m.PassedBy) > 0 {
		t.Errorf("coverage %+v", m)
	}
}

const rounds = 7

// Every way to reach the runtime, in each shape, gives one record for a call.
func TestEachWayRecordsCallsOnce(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			dir := s.build(t, "")
			path, env := filepath.Join(dir, s.main()), []string{"LD_LIBRARY_PATH=" + dir}
			linked, other := s.program(t, dir, "-DLINKED"), s.program(t, dir)
			n := strconv.Itoa(rounds)
			t.Run("linked", func(t *testing.T) { run(t, nil, linked, "linked", n).exactly(t, rounds) })
			t.Run("no PLT", func(t *testing.T) {
				run(t, nil, s.program(t, dir, "-DLINKED", "-fno-plt", "-Wl,-z,now"), "linked", n).exactly(t, rounds)
			})
			t.Run("before main", func(t *testing.T) {
				run(t, nil, s.program(t, dir, "-DLINKED", "-DEARLY"), "linked", n).exactly(t, rounds+3)
			})
			for _, way := range []string{"default", "next", "program"} {
				t.Run(way, func(t *testing.T) { run(t, nil, linked, way, n).exactly(t, rounds) })
			}
			t.Run("by name", func(t *testing.T) { run(t, env, other, "global", n, s.main()).exactly(t, rounds) })
			t.Run("by path, local", func(t *testing.T) { run(t, nil, other, "local", n, path).exactly(t, rounds) })
			t.Run("plugin, local", func(t *testing.T) {
				plugin := s.program(t, dir, "-DLINKED", "-DPLUGIN", "-shared", "-fPIC")
				run(t, nil, other, "plugin", n, plugin).exactly(t, rounds)
			})
			// The loader binds these references past all preloaded libraries.
			for name, flags := range map[string][]string{"lazy": {"-fplt", "-Wl,-z,lazy"}, "at once": {"-fplt", "-Wl,-z,now,-z,relro"}, "no PLT": {"-fno-plt", "-Wl,-z,now,-z,relro"}} {
				plugin := s.program(t, dir, append([]string{"-DLINKED", "-DPLUGIN", "-shared", "-fPIC"}, flags...)...)
				for _, way := range []string{"deepbind", "namespace"} {
					t.Run(way+", "+name, func(t *testing.T) { run(t, nil, other, way, n, plugin).exactly(t, rounds) })
				}
				t.Run("deepbind, linked, "+name, func(t *testing.T) { run(t, nil, linked, "deepbind", n, plugin).exactly(t, rounds) })
			}
			t.Run("deepbind, by path", func(t *testing.T) {
				run(t, nil, other, "deepbind", n, s.program(t, dir, `-DASKS="`+path+`"`, "-shared", "-fPIC")).exactly(t, rounds)
			})
			t.Run("linked and by path", func(t *testing.T) { run(t, nil, linked, "local", n, path).exactly(t, rounds) })
			t.Run("errno and dlerror", func(t *testing.T) { run(t, nil, other, "errors", n, path) })
			t.Run("ctypes", func(t *testing.T) {
				python, err := exec.LookPath("python3")
				if err != nil {
					t.Skip("no python3")
				}
				r := run(t, nil, python, "testdata/program.py", path, n)
				r.exactly(t, rounds)
			})
		})
	}
}

// Two copies of a library both get their own calls.
func TestTwoCopies(t *testing.T) {
	for _, s := range shapes[:1] {
		a, b := s.build(t, ""), s.build(t, "")
		run(t, nil, s.program(t, a), "copies", "3", filepath.Join(a, s.main()), filepath.Join(b, s.main())).exactly(t, 6)
		// The linked copy comes first in any order of requests.
		run(t, nil, s.program(t, a, "-DLINKED"), "copies", "3", filepath.Join(b, s.main()), filepath.Join(a, s.main())).exactly(t, 6)
		// Calls to a third copy are not seen, and the trace reports that.
		c := s.build(t, "")
		r := run(t, nil, s.program(t, a), "copies", "3", filepath.Join(a, s.main()), filepath.Join(b, s.main()), filepath.Join(c, s.main()))
		delete(r.recorded, launch) // the third copy calls it in the first copy's libruntime.so
		if passed := r.Meta().Coverage.PassedBy; !maps.Equal(r.recorded, each(6)) || r.made != 9*len(bodies) || passed["aclrtMalloc"] != 1 {
			t.Errorf("recorded %v, passed by %v", r.recorded, passed)
		}
	}
}

// A library that is unloaded and loaded again, or replaced by another, is found again.
func TestReloadedLibraryIsFoundAgain(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			a, b := filepath.Join(s.build(t, ""), s.main()), filepath.Join(s.build(t, ""), s.main())
			run(t, nil, s.program(t, ""), "again", "3", a, b, a).exactly(t, 9)
		})
	}
}

// A function that this runtime version lacks is not found, as without the shim. The program gets the error.
func TestMissingFunctionsStayMissing(t *testing.T) {
	s := shapes[0]
	path := filepath.Join(s.build(t, ""), s.main())
	program := s.program(t, "")
	for _, name := range []string{"aclrtCreateStream", "aclrtCreateStreamImpl", "nothing_at_all", "aclrtNothingAtAll"} {
		run(t, nil, program, "missing", "1", path, name)
	}
	run(t, nil, program, "version", "1", path)
}

// Functions outside the model are counted by name and get all their arguments.
func TestPassedBy(t *testing.T) {
	s := shapes[0]
	const body = "(int a, double b, const char *c, uint64_t d) { return b == a + 0.5 && d == 1ULL << 40 ? a + c[0] : -1; }\n"
	known := []string{"aclprofStart", "acltdtSendTensor"} // declared only: their calls were not counted
	for i := range acl.Model.Funcs {
		if f := &acl.Model.Funcs[i]; !f.Modelled && !f.HostCallback {
			known = append(known, f.Name)
			break
		}
	}
	extra := "int aclrtOfTheFuture" + body + "int aclprofOfTheFuture" + body
	for _, name := range known {
		extra += "int " + name + body
	}
	path := filepath.Join(s.build(t, extra), s.main())
	program := s.program(t, "")
	for _, name := range []string{"aclrtOfTheFuture", "aclprofOfTheFuture"} {
		r := run(t, nil, program, "unknown", "5", path, name)
		if got := r.Meta().Coverage.PassedBy; !maps.Equal(got, map[string]uint64{name: 1}) || acl.Model.Counted(name) {
			t.Errorf("asked for a function without a model: passed by %v", got)
		}
	}
	for _, name := range known {
		r := run(t, nil, program, "unknown", "5", path, name)
		if got := r.Meta().Coverage.PassedBy; !maps.Equal(got, map[string]uint64{name: 5}) || !acl.Model.Counted(name) {
			t.Errorf("5 calls of %s: passed by %v", name, got)
		}
	}
}

// A library whose references were bound to the shim is otherwise unchanged: read-only pages stay read-only, and a thread that
// calls through the references at the same time succeeds.
func TestLateBinding(t *testing.T) {
	s := shapes[0] // without a lower layer that the shim would see
	dir := s.build(t, "")
	other := s.program(t, dir, "-DLINKED", "-Wl,-z,now")
	plugin := func(flags ...string) string {
		return s.program(t, dir, append([]string{"-DLINKED", "-DPLUGIN", "-shared", "-fPIC"}, flags...)...)
	}
	for name, flags := range map[string][]string{"PLT": {"-fplt"}, "no PLT": {"-fno-plt"}} {
		flags = append(flags, "-Wl,-z,now,-z,relro")
		t.Run("read-only, "+name, func(t *testing.T) {
			run(t, nil, other, "guarded", strconv.Itoa(rounds), plugin(flags...)).exactly(t, rounds)
		})
		t.Run("called meanwhile, "+name, func(t *testing.T) {
			const rounds = 30
			r := run(t, nil, other, "contended", strconv.Itoa(rounds), plugin(append(flags, "-DTHREAD")...))
			for f := range bodies {
				if r.recorded[f] < rounds {
					t.Errorf("%d calls of %s recorded", r.recorded[f], f)
				}
			}
		})
	}
	t.Run("forked meanwhile", func(t *testing.T) {
		if runtime.GOARCH != "amd64" {
			t.Skip("stops at the shim's system calls in a way that this kernel has for amd64 alone")
		}
		lib := plugin()
		r := run(t, nil, other, "forks", strconv.Itoa(rounds), lib, plugin())
		// The parent waits in the middle of binding for its child. If that takes long, the look from outside names the parent.
		c := &r.Meta().Coverage
		c.Unhooked = slices.DeleteFunc(c.Unhooked, func(u format.Unhooked) bool { return strings.HasPrefix(u.Reason, lib+" calls ") })
		r.exactly(t, 2*rounds)
	})
	t.Run("called meanwhile, lazy", func(t *testing.T) {
		// The loader may fill a reference after the shim did. Calls through it are then not seen.
		r := run(t, nil, other, "contended", "30", plugin("-fplt", "-Wl,-z,lazy", "-DTHREAD"))
		if n := r.recorded["aclrtMalloc"]; n == 0 || n > r.made/len(bodies) {
			t.Errorf("recorded %v of %d calls", r.recorded, r.made)
		}
	})
}

// seen runs a program that lingers at its end, so that the recorder can look at it from outside. It lingers longer if the
// machine is busy.
func seen(run func(linger []string) *result) *result {
	for ms := 500; ; ms *= 4 {
		r := run([]string{fmt.Sprintf("LINGER=%d", ms)})
		if len(r.Meta().Coverage.Unhooked) > 0 || time.Duration(ms)*time.Millisecond > testenv.Patience/2 {
			return r
		}
	}
}

// Calls of a library past the shim are reported.
func TestCallsPastTheShimAreReported(t *testing.T) {
	s := shapes[2]
	dir, all := s.build(t, ""), shapes[0].build(t, "")
	path := filepath.Join(dir, s.main())
	other := s.program(t, dir)
	t.Run("dlsym in a namespace", func(t *testing.T) {
		plugin := s.program(t, dir, `-DASKS="`+path+`"`, "-shared", "-fPIC")
		r := seen(func(linger []string) *result { return run(t, linger, other, "namespace", "3", plugin) })
		us := r.Meta().Coverage.Unhooked
		if r.made != 3*len(bodies) || len(r.recorded) != 0 || len(us) == 0 || us[0].PID == 0 || !strings.Contains(us[0].Reason, plugin+" asks for functions by dlsym past the shim") {
			t.Errorf("recorded %v of %d calls, the report is %+v", r.recorded, r.made, us)
		}
	})
	t.Run("deepbind behind the shim's back", func(t *testing.T) {
		// Loaded by a library in another namespace, without a request by the program.
		plugin := s.program(t, dir, "-DLINKED", "-DPLUGIN", "-shared", "-fPIC")
		r := seen(func(linger []string) *result { return run(t, linger, other, "hidden", "3", plugin) })
		us := r.Meta().Coverage.Unhooked
		if r.made != 3*len(bodies) || len(r.recorded) != 0 || len(us) == 0 || !strings.Contains(us[0].Reason, plugin+" calls 5 functions of the runtime past the shim") {
			t.Errorf("recorded %v of %d calls, the report is %+v", r.recorded, r.made, us)
		}
	})
	t.Run("linked statically", func(t *testing.T) {
		args := []string{"-static", "-DLINKED", "testdata/program.c"}
		for _, l := range shapes[0].libs {
			args = append(args, filepath.Join(all, l.file+".c"))
		}
		static := cc(t, filepath.Join(t.TempDir(), "static"), args...)
		r := seen(func(linger []string) *result { return run(t, linger, "/bin/sh", "-c", static+" linked 3") })
		us := r.Meta().Coverage.Unhooked
		if r.made != 3*len(bodies) || len(r.recorded) != 0 || len(us) != 1 || us[0].Exe != static || !strings.Contains(us[0].Reason, "6 runtime functions are linked into it (aclrtFree, …)") {
			t.Errorf("recorded %v of %d calls, the report is %+v", r.recorded, r.made, us)
		}
	})
	t.Run("LD_PRELOAD overwritten", func(t *testing.T) {
		r := seen(func(linger []string) *result {
			return run(t, linger, "/bin/sh", "-c", "LD_PRELOAD= "+other+" local 3 "+path)
		})
		us := r.Meta().Coverage.Unhooked
		if len(r.recorded) != 0 || len(us) != 1 || us[0].Exe != other || !strings.Contains(us[0].Reason, "LD_PRELOAD was changed") {
			t.Errorf("recorded %v, reported %+v", r.recorded, us)
		}
		if !slices.Equal(us, r.Unhooked) {
			t.Errorf("the result says %+v", r.Unhooked)
		}
	})
}

// With --bind audit these calls reach the shim as well, and none is recorded twice.
func TestAuditCatchesCallsPastTheShim(t *testing.T) {
	audited := func(t *testing.T, env []string, command ...string) *result {
		t.Helper()
		r := bound(t, "audit", env, command...)
		if b := r.Meta().Coverage.Binder; b != "audit" {
			t.Errorf("the trace says that the shim was bound by %q", b)
		}
		return r
	}
	n := strconv.Itoa(rounds)
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			dir := s.build(t, "")
			path := filepath.Join(dir, s.main())
			linked, other := s.program(t, dir, "-DLINKED"), s.program(t, dir)
			plugin := s.program(t, dir, "-DLINKED", "-DPLUGIN", "-shared", "-fPIC", "-fplt")
			asks := s.program(t, dir, `-DASKS="`+path+`"`, "-shared", "-fPIC")
			for _, way := range []string{"linked", "default", "next", "program"} {
				t.Run(way, func(t *testing.T) { audited(t, nil, linked, way, n).exactly(t, rounds) })
			}
			t.Run("no PLT", func(t *testing.T) {
				audited(t, nil, s.program(t, dir, "-DLINKED", "-fno-plt", "-Wl,-z,now"), "linked", n).exactly(t, rounds)
			})
			t.Run("before main", func(t *testing.T) {
				audited(t, nil, s.program(t, dir, "-DLINKED", "-DEARLY"), "linked", n).exactly(t, rounds+3)
			})
			t.Run("bound at start", func(t *testing.T) {
				audited(t, []string{"LD_BIND_NOW=1"}, linked, "linked", n).exactly(t, rounds)
			})
			t.Run("by path, local", func(t *testing.T) { audited(t, nil, other, "local", n, path).exactly(t, rounds) })
			t.Run("linked and by path", func(t *testing.T) { audited(t, nil, linked, "local", n, path).exactly(t, rounds) })
			t.Run("errno and dlerror", func(t *testing.T) { audited(t, nil, other, "errors", n, path) })
			for name, lib := range map[string]string{"linked": plugin, "asking": asks} {
				for _, way := range []string{"plugin", "deepbind", "namespace"} {
					t.Run(name+" "+way, func(t *testing.T) { audited(t, nil, other, way, n, lib).exactly(t, rounds) })
				}
				// The program itself has the runtime, too.
				t.Run(name+" deepbind beside", func(t *testing.T) { audited(t, nil, linked, "deepbind", n, lib).exactly(t, rounds) })
			}
			t.Run("ctypes", func(t *testing.T) {
				python, err := exec.LookPath("python3")
				if err != nil {
					t.Skip("no python3")
				}
				audited(t, nil, python, "testdata/program.py", path, n).exactly(t, rounds)
			})
			t.Run("loaded again", func(t *testing.T) { audited(t, nil, other, "again", "3", path, path).exactly(t, 6) })
		})
	}
	s := shapes[2]
	dir := s.build(t, "")
	linked, other, path := s.program(t, dir, "-DLINKED"), s.program(t, dir), filepath.Join(dir, s.main())
	t.Run("two copies", func(t *testing.T) {
		s := shapes[0]
		a, b := s.build(t, ""), s.build(t, "")
		audited(t, nil, s.program(t, a), "copies", "3", filepath.Join(a, s.main()), filepath.Join(b, s.main())).exactly(t, 6)
	})
	t.Run("not there", func(t *testing.T) {
		for _, name := range []string{"aclrtCreateStream", "nothing_at_all"} {
			audited(t, nil, other, "missing", "1", path, name)
		}
	})
	t.Run("passed by", func(t *testing.T) {
		const extra = "int aclrtOfTheFuture(int a, double b, const char *c, uint64_t d) { (void)b, (void)d; return a + c[0]; }\n"
		path := filepath.Join(s.build(t, extra), s.main())
		r := audited(t, nil, other, "unknown", "5", path, "aclrtOfTheFuture")
		if got := r.Meta().Coverage.PassedBy; !maps.Equal(got, map[string]uint64{"aclrtOfTheFuture": 1}) {
			t.Errorf("asked once for a function without a model: passed by %v", got)
		}
	})
	t.Run("a preloaded tool", func(t *testing.T) {
		tool := cc(t, filepath.Join(t.TempDir(), "tool.so"), "-shared", "-fPIC", "testdata/tool.c", "-ldl")
		r := audited(t, []string{"LD_PRELOAD=" + tool}, linked, "linked", n)
		r.exactly(t, rounds)
		if !strings.Contains(r.stderr, "tool: 7 calls of aclrtMalloc\n") {
			t.Errorf("the tool says %q", r.stderr)
		}
		r = audited(t, nil, "/bin/sh", "-c", "LD_PRELOAD="+tool+":$LD_PRELOAD exec "+linked+" linked "+n)
		if !maps.Equal(r.recorded, each(rounds)) || !strings.Contains(r.stderr, "tool: 7 calls of aclrtMalloc\n") {
			t.Errorf("recorded %v, the tool says %q", r.recorded, r.stderr)
		}
	})
	t.Run("another audit library", func(t *testing.T) {
		audit := cc(t, filepath.Join(t.TempDir(), "audit.so"), "-shared", "-fPIC", "testdata/audit.c")
		audited(t, []string{"LD_AUDIT=" + audit}, linked, "linked", n).exactly(t, rounds)
		audited(t, []string{"LD_AUDIT=" + audit}, other, "local", n, path).exactly(t, rounds)
	})
	t.Run("without the shim", func(t *testing.T) {
		plugin := s.program(t, dir, "-DLINKED", "-DPLUGIN", "-shared", "-fPIC")
		r := seen(func(linger []string) *result {
			return audited(t, linger, "/bin/sh", "-c", "LD_PRELOAD= exec "+other+" deepbind 3 "+plugin)
		})
		if us := r.Meta().Coverage.Unhooked; len(r.recorded) != 0 || r.made != 3*len(bodies) || len(us) == 0 {
			t.Errorf("recorded %v of %d calls, reported %+v", r.recorded, r.made, us)
		}
	})
}

// If auditing would harm a program, the recorder refuses with a line that names the cause, and does not run the program.
func TestAuditRefused(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-audit.so")
	s := shapes[2]
	dir := s.build(t, "")
	linked := s.program(t, dir, "-DLINKED")
	refused := func(t *testing.T, env []string, want string, command ...string) {
		t.Helper()
		log := filepath.Join(t.TempDir(), "log")
		o := record.Options{Model: acl.Model, Output: filepath.Join(t.TempDir(), "run.aclt"), Command: command, Capture: record.Capture{Bind: "audit"},
			Env: append(append(os.Environ(), "FAKE_LOG="+log), env...)}
		_, err := record.Run(t.Context(), &o)
		if !errors.Is(err, record.ErrStart) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is %v, want %s", err, want)
		}
		for _, path := range []string{log, o.Output} {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("there is %s", path)
			}
		}
	}
	t.Run("static TLS", func(t *testing.T) {
		libs, _ := filepath.Glob("/usr/lib/*/libjemalloc.so.2")
		src := filepath.Join(t.TempDir(), "tls.c")
		if err := os.WriteFile(src, []byte("__thread char large[9000]; char *get(void) { return large; }\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		large := cc(t, filepath.Join(t.TempDir(), "tls.so"), "-shared", "-fPIC", "-ftls-model=initial-exec", src)
		for _, lib := range append(libs, large) {
			size := 4096
			if lib == large {
				size = 8192
			}
			remedy := fmt.Sprintf("GLIBC_TUNABLES=glibc.rtld.optional_static_tls=%d", size)
			preload := "LD_PRELOAD=" + lib
			refused(t, []string{preload}, lib+": cannot allocate memory in static TLS block: set "+remedy, linked, "linked", "3")
			bound(t, "audit", []string{preload, remedy}, linked, "linked", "3").exactly(t, 3)
			bound(t, "preload", []string{preload}, linked, "linked", "3").exactly(t, 3)
		}
		refused(t, []string{"LD_PRELOAD=" + large, "GLIBC_TUNABLES=glibc.malloc.check=0:glibc.rtld.optional_static_tls=1000"},
			"set GLIBC_TUNABLES=glibc.malloc.check=0:glibc.rtld.optional_static_tls=8192", linked, "linked", "3")
		// A library that the program is linked to has the same problem.
		refused(t, nil, "static TLS block", s.program(t, dir, "-DLINKED", "-Wl,--no-as-needed", large), "linked", "3")
	})
	t.Run("older C library", func(t *testing.T) {
		for answer, want := range map[string]string{
			"ld.so (GNU libc) stable release version 2.34.": "runs on glibc 2.34, older than 2.35",
			"--version: error while loading":                "runs on a C library older than glibc 2.35",
		} {
			loader := filepath.Join(t.TempDir(), "ld.so")
			if err := os.WriteFile(loader, []byte("#!/bin/sh\necho '"+answer+"'\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			old := s.program(t, dir, "-DLINKED", "-Wl,--dynamic-linker="+loader)
			refused(t, nil, want, old, "linked", "3")
			script := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(script, []byte("#! "+old+" linked\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			refused(t, nil, want, script)
		}
	})
	t.Run("musl", func(t *testing.T) {
		program := compile(t, "musl-gcc", filepath.Join(t.TempDir(), "hello"), "testdata/hello.c")
		refused(t, nil, "is linked to musl", program)
	})
}

// The shim works together with other preloaded and auditing libraries.
func TestShimBesideOtherPreloadedLibraries(t *testing.T) {
	s := shapes[2]
	dir := s.build(t, "")
	linked := s.program(t, dir, "-DLINKED")
	n := strconv.Itoa(rounds)
	t.Run("LD_PRELOAD", func(t *testing.T) {
		tool := cc(t, filepath.Join(t.TempDir(), "tool.so"), "-shared", "-fPIC", "testdata/tool.c", "-ldl")
		r := run(t, []string{"LD_PRELOAD=" + tool}, linked, "linked", n)
		r.exactly(t, rounds)
		if !strings.Contains(r.stderr, "tool: 7 calls of aclrtMalloc\n") {
			t.Errorf("the other tool says %q", r.stderr)
		}
		// A tool that comes first calls the shim, and the shim must not call back.
		r = run(t, nil, "/bin/sh", "-c", "LD_PRELOAD="+tool+":$LD_PRELOAD exec "+linked+" linked "+n)
		if !maps.Equal(r.recorded, each(rounds)) || !strings.Contains(r.stderr, "tool: 7 calls of aclrtMalloc\n") {
			t.Errorf("recorded %v, the other tool says %q", r.recorded, r.stderr)
		}
	})
	t.Run("jemalloc", func(t *testing.T) {
		libs, _ := filepath.Glob("/usr/lib/*/libjemalloc.so.2")
		if len(libs) == 0 {
			t.Skip("no libjemalloc2")
		}
		run(t, []string{"LD_PRELOAD=" + libs[0]}, linked, "linked", n).exactly(t, rounds)
		run(t, []string{"LD_PRELOAD=" + libs[0]}, s.program(t, dir), "local", n, filepath.Join(dir, s.main())).exactly(t, rounds)
	})
	t.Run("LD_AUDIT", func(t *testing.T) {
		audit := cc(t, filepath.Join(t.TempDir(), "audit.so"), "-shared", "-fPIC", "testdata/audit.c")
		run(t, []string{"LD_AUDIT=" + audit}, linked, "linked", n).exactly(t, rounds)
		run(t, []string{"LD_AUDIT=" + audit}, s.program(t, dir), "local", n, filepath.Join(dir, s.main())).exactly(t, rounds)
	})
}

// Programs without the runtime behave as without the shim.
func TestProgramsWithoutRuntimeAreUnharmed(t *testing.T) {
	s := shapes[0]
	plain := s.program(t, "")
	r := run(t, nil, plain, "none", "1")
	if len(r.recorded) != 0 || r.Result.Processes != 0 || r.stderr != "" {
		t.Errorf("recorded %v, stderr %q", r.recorded, r.stderr)
	}
	t.Run("static", func(t *testing.T) {
		static := cc(t, filepath.Join(t.TempDir(), "static"), "-static", "testdata/hello.c")
		if r := run(t, nil, "/bin/sh", "-c", static); r.stderr != "" {
			t.Errorf("stderr %q", r.stderr)
		}
	})
	t.Run("musl", func(t *testing.T) {
		program := compile(t, "musl-gcc", filepath.Join(t.TempDir(), "hello"), "testdata/hello.c", "-DDLSYM")
		if r := run(t, nil, program); r.stderr != "" {
			t.Errorf("stderr %q", r.stderr)
		}
	})
}

// On aarch64 the entry code differs. Programs pass through it unharmed.
func TestARM64(t *testing.T) {
	const compiler, root = "aarch64-linux-gnu-gcc", "/usr/aarch64-linux-gnu"
	shim := filepath.Join(testenv.Root(t), "lib/arm64/libacltrace.so")
	audit := filepath.Join(testenv.Root(t), "lib/arm64/libacltrace-audit.so")
	for _, need := range []string{shim, audit, filepath.Join(root, "lib/libc.so.6")} {
		if _, err := os.Stat(need); err != nil {
			t.Skipf("no %s: run `make cross`", need)
		}
	}
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip(err)
	}
	s := shapes[2]
	s.cc = compiler
	const body = "int aclAppLog(int a, double b, const char *c, uint64_t d) { return b == a + 0.5 && d == 1ULL << 40 ? a + c[0] : -1; }\n"
	dir := s.build(t, body)
	path := filepath.Join(dir, s.main())
	linked, other := s.program(t, dir, "-DLINKED"), s.program(t, dir)
	plugin := s.program(t, dir, "-DLINKED", "-DPLUGIN", "-shared", "-fPIC")
	asks := s.program(t, dir, `-DASKS="`+path+`"`, "-shared", "-fPIC")
	for _, args := range [][]string{{"deepbind", "3", plugin}, {"deepbind", "3", asks}, {"namespace", "3", plugin}, {"namespace", "3", asks}} {
		r := run(t, nil, append([]string{qemu, "-L", root, "-E", "LD_PRELOAD=" + shim, "-E", "LD_AUDIT=" + audit, other}, args...)...)
		if !maps.Equal(r.recorded, each(3)) || r.made != 3*len(bodies) {
			t.Errorf("%v: recorded %v of %d calls", args, r.recorded, r.made)
		}
	}
	for _, args := range [][]string{
		{linked, "linked", "3"}, {linked, "default", "3"}, {linked, "next", "3"}, {linked, "program", "3"},
		{other, "local", "3", path}, {other, "errors", "1", path}, {other, "version", "1", path}, {other, "again", "2", path, path},
		{other, "deepbind", "3", plugin}, {other, "namespace", "3", plugin},
		{other, "missing", "1", path, "aclrtCreateStream"}, {other, "missing", "1", path, "nothing"}, {other, "unknown", "5", path, "aclAppLog"},
	} {
		for _, flags := range [][]string{{"-E", "LD_PRELOAD=" + shim}, {"-E", "LD_PRELOAD=" + shim, "-E", "LD_AUDIT=" + audit}} {
			cmd := exec.Command(qemu, append(append([]string{"-L", root}, flags...), args...)...)
			if b, err := cmd.CombinedOutput(); err != nil || string(b) != "done\n" {
				t.Errorf("%v %v: %v\n%s", flags, args, err, b)
			}
		}
	}
}

// The trace has as many calls as the kernel counts in the library, on every way to reach it.
func TestAgainstUprobes(t *testing.T) {
	s := shapes[1]
	dir := s.build(t, "")
	path := filepath.Join(dir, s.main())
	u, err := uprobe.Load(acl.Model, &uprobe.Options{CountOnly: true})
	testenv.Uprobes(t, err)
	defer u.Close()
	testenv.Uprobes(t, u.Add(path))
	total := map[string]int{}
	add := func(r *result) {
		for f, n := range r.recorded {
			total[f] += n
		}
	}
	add(run(t, nil, s.program(t, dir, "-DLINKED"), "linked", "5"))
	add(run(t, nil, s.program(t, dir), "local", "11", path))
	seen, err := u.Counts()
	if err != nil {
		t.Fatal(err)
	}
	witnessed := map[string]int{}
	for f, n := range seen {
		if n > 0 {
			witnessed[f] = int(n)
		}
	}
	if !maps.Equal(total, witnessed) || total["aclrtMalloc"] != 16 {
		t.Errorf("recorded %v\nthe kernel counted %v", total, witnessed)
	}
}

// The shim and its audit library are linked to nothing. The shim has one constructor, which copies a path. It exports a name for
// the lower layer of every function that has one.
func TestShimItself(t *testing.T) {
	for file, exports := range map[string][]string{
		"lib/libacltrace.so":       {"aclrtMalloc", "aclrtMallocImpl", "dlsym", "dlvsym", "acltrace_bind"},
		"lib/libacltrace-audit.so": {"la_version", "la_objopen", "la_symbind64"},
	} {
		b, err := exec.Command("readelf", "-Wdl", "--dyn-syms", testenv.Built(t, file)).Output()
		if err != nil {
			t.Skipf("readelf: %v", err)
		}
		constructors := bytes.Count(b, []byte("(INIT_ARRAYSZ)"))
		one := constructors == 0 || constructors == 1 && strings.Contains(strings.Join(strings.Fields(string(b)), " "), "(INIT_ARRAYSZ) 8 (bytes)")
		if bytes.Contains(b, []byte("(NEEDED)")) || bytes.Contains(b, []byte("(INIT)")) || bytes.Contains(b, []byte("(FINI)")) || !one {
			t.Errorf("%s is linked to a library, or has more than one constructor:\n%s", file, b)
		}
		if strings.Contains(file, "audit") && bytes.Contains(b, []byte("  TLS ")) {
			t.Errorf("%s takes static TLS", file)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, " UND ") && strings.Contains(line, " GLOBAL ") {
				t.Errorf("%s needs %s", file, line)
			}
		}
		for _, name := range exports {
			if !bytes.Contains(b, []byte(" "+name+"\n")) {
				t.Errorf("%s does not export %s", file, name)
			}
		}
	}
}
