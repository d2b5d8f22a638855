package uprobe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
)

// The libraries and the program of these tests. The runtime has two libraries. Both, and the operator library that is no part of
// the runtime, are in one folder.
const (
	callbackRuntime = `
#include <cstddef>
#include <unistd.h>
extern "C" {
int rtMemset(void *, unsigned long, unsigned, unsigned long);
typedef void (*callback)(void *);
static callback next, state;
static void *argument;
int aclrtMemset(void *p, size_t max, int value, size_t n) { int rc = rtMemset(p, max, value, n); asm volatile(""); return rc; }
int aclrtLaunchCallback(callback fn, void *data, int, void *) { next = fn, argument = data; return 0; }
static int run(int)
{
	aclrtMemset(0, 1, 0, 1);
	if (callback fn = next) {
		next = 0;
		fn(argument);
	}
	rtMemset(0, 1, 0, 1);
	return 0;
}
int aclrtProcessReport(int timeout) { int rc = run(timeout); asm volatile(""); return rc ? 107000 : 0; }
/* Jumps through a pointer, so no return instruction is known. */
static int (*volatile hidden)(int) = run;
int aclrtProcessHostFunc(int timeout) { return hidden(timeout); }
int aclrtRegStreamStateCallback(const char *, callback fn, void *) { state = fn; return 0; }
/* A wrapper that jumps to its implementation. */
__attribute__((noinline)) int aclrtCreateStreamImpl(void **stream)
{
	*stream = (void *)0x57;
	if (state)
		state(0);
	rtMemset(0, 1, 0, 1);
	return 0;
}
int aclrtCreateStream(void **stream) { return aclrtCreateStreamImpl(stream); }
/* Calls the program, although it is not known to. */
int aclrtFree(void *) { int rc = run(0); asm volatile(""); return rc; }
int aclrtSynchronizeStream(void *) { int rc = pause(); asm volatile(""); return rc; }
}`
	callbackLayer     = `extern "C" int rtMemset(void *, unsigned long max, unsigned, unsigned long n) { return n > max; }`
	callbackOperators = `
extern "C" {
int aclrtMemset(void *, unsigned long, int, unsigned long);
void operators(void *) { for (int i = 0; i < 3; i++) aclrtMemset(0, 100, 1, 10); }
}`
	callbackProgram = `
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
extern "C" {
int aclrtMemset(void *, unsigned long, int, unsigned long);
int aclrtLaunchCallback(void (*)(void *), void *, int, void *);
int aclrtProcessReport(int);
int aclrtProcessHostFunc(int);
int aclrtRegStreamStateCallback(const char *, void (*)(void *), void *);
int aclrtCreateStream(void **);
int aclrtFree(void *);
int aclrtSynchronizeStream(void *);
void operators(void *);
}
struct cleanup { ~cleanup() { puts("cleaned up"); } };
static void *waits(void *) { cleanup c; aclrtSynchronizeStream(0); return 0; }
static void cancel()
{
	pthread_t t;
	pthread_create(&t, 0, waits, 0);
	pthread_cancel(t);
	pthread_join(t, 0);
}
static void call() { aclrtMemset(0, 100, 2, 10); }
static void throws(void *) { call(); call(); throw std::runtime_error("through the runtime"); }
static void returns(void *) { call(); call(); }
static void again(void *) { call(); aclrtLaunchCallback(returns, 0, 0, 0); aclrtProcessReport(1); }
template <class F> static bool caught(F f) { try { f(); } catch (std::runtime_error &) { return true; } return false; }
int main(int, char **argv)
{
	void *stream;
	int exceptions = 0;
	auto mode = [&](const char *name) { return !strcmp(argv[1], name); };
	auto run = [&](int (*poll)(int), void (*fn)(void *)) {
		aclrtLaunchCallback(fn, 0, 0, 0);
		exceptions += caught([&] { poll(5); });
		call();
	};
	auto fn = mode("throws") || mode("hidden throws") || mode("create throws") ? throws : mode("operators") ? operators : mode("again") ? again : returns;
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < 5; i++) {
		if (!strncmp(argv[1], "create", 6)) {
			aclrtRegStreamStateCallback("test", fn, 0);
			exceptions += caught([&] { aclrtCreateStream(&stream); });
			call();
		} else if (mode("unknown"))
			run([](int) { return aclrtFree(0); }, fn);
		else if (mode("cancel"))
			cancel();
		else
			run(strncmp(argv[1], "hidden", 6) ? aclrtProcessReport : aclrtProcessHostFunc, fn);
	}
	printf("%d exceptions\n", exceptions);
	puts("done");
	fflush(stdout);
	getchar();
}`
)

// buildCallbacks returns a folder with the libraries and the program.
func buildCallbacks(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("c++"); err != nil {
		t.Skip("no C++ compiler")
	}
	dir := t.TempDir()
	for _, f := range []struct{ name, text string }{
		{"libruntime.so", callbackLayer}, {"libascendcl.so", callbackRuntime}, {"libopapi.so", callbackOperators}, {"main", callbackProgram}} {
		source := filepath.Join(dir, f.name+".cc")
		if err := os.WriteFile(source, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"-O2", "-fPIC", "-pthread", "-o", f.name, source}, branchTargets...)
		if strings.HasSuffix(f.name, ".so") {
			args = append(args, "-shared")
		}
		for _, lib := range []string{"libruntime.so", "libascendcl.so", "libopapi.so"} {
			if _, err := os.Stat(filepath.Join(dir, lib)); err == nil && lib != f.name {
				args = append(args, "./"+lib)
			}
		}
		cc := exec.Command("c++", args...)
		cc.Dir = dir
		if out, err := cc.CombinedOutput(); err != nil {
			t.Fatalf("c++: %v\n%s", err, out)
		}
	}
	return dir
}

// A program whose callback throws an exception through a call of the runtime runs on, though probes were added while it ran. Its
// callbacks' calls are recorded, and the runtime's own are not: also those of another library of the runtime, and not those of a
// library in the runtime's folder. The kernel's return probes ended the program by SIGABRT, and calls inside callbacks were taken
// for the runtime's by their stack position.
func TestUprobeCallbacks(t *testing.T) {
	dir := buildCallbacks(t)
	for _, c := range []struct {
		mode, poll                          string
		polls, unfinished, inside, excepted int
		lost                                uint64
	}{
		{mode: "returns", poll: "aclrtProcessReport", polls: 5, inside: 10},
		{mode: "throws", poll: "aclrtProcessReport", polls: 5, unfinished: 5, inside: 10, excepted: 5},
		{mode: "operators", poll: "aclrtProcessReport", polls: 5, inside: 15},
		{mode: "hidden returns", poll: "aclrtProcessHostFunc", polls: 5, unfinished: 5, inside: 10},
		{mode: "hidden throws", poll: "aclrtProcessHostFunc", polls: 5, unfinished: 5, inside: 10, excepted: 5},
		{mode: "create returns", poll: "aclrtCreateStream", polls: 5, inside: 10},
		{mode: "create throws", poll: "aclrtCreateStream", polls: 5, unfinished: 5, inside: 10, excepted: 5},
		{mode: "unknown", poll: "aclrtFree", polls: 5, inside: 10},
		// Calls of a callback inside a callback's call are counted.
		{mode: "again", poll: "aclrtProcessReport", polls: 10, inside: 5, lost: 10},
	} {
		for _, old := range []bool{false, true} {
			if old && c.unfinished == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s, old kernel=%t", c.mode, old), func(t *testing.T) {
				program := startIn(t, dir, c.mode)
				said, s := watchIn(t, dir, program, &Options{OneByOne: old, noSleep: old, noCookie: old})
				if want := fmt.Sprintf("%d exceptions\n", c.excepted); said != want {
					t.Errorf("the program says %q, want %q", said, want)
				}
				polls, unfinished := s.of(c.poll), 0
				for _, p := range polls {
					if p.Unfinished() {
						unfinished++
					}
				}
				if len(polls) != c.polls || unfinished != c.unfinished {
					t.Errorf("%d calls of %s, %d unfinished; want %d and %d", len(polls), c.poll, unfinished, c.polls, c.unfinished)
				}
				if n := len(s.of("aclrtMemset")); n != c.inside+5 {
					t.Errorf("%d calls of aclrtMemset, want %d in callbacks and 5 after them", n, c.inside)
				}
				for _, call := range s.of("aclrtMemset") {
					if call.Unfinished() || call.Words[1] != 100 {
						t.Errorf("%+v: not a call of the program that has ended", call)
					}
				}
				if n := len(s.of("rtMemset")); n != 0 {
					t.Errorf("%d calls of rtMemset, which only the runtime makes", n)
				}
				if strings.HasPrefix(c.mode, "create ") && c.unfinished == 0 {
					for _, call := range polls {
						wantBytes(t, call, "stream", probe.Out, uint64(0x57))
					}
				}
				var lost uint64
				for _, g := range s.gaps {
					if lost += g.Calls; g.Reason != probe.Nested {
						t.Errorf("gap %+v", g)
					}
				}
				if lost != c.lost {
					t.Errorf("%d calls counted, want %d", lost, c.lost)
				}
			})
		}
	}
}

// watchIn records a run of the program with the libraries in a folder.
func watchIn(t *testing.T, dir string, program *target, opts *Options) (said string, s *seen) {
	t.Helper()
	opts.PIDs = []int{program.Process.Pid}
	u, err := Load(acl.Model, opts)
	testenv.Uprobes(t, err)
	defer u.Close()
	for _, lib := range []string{"libascendcl.so", "libruntime.so"} {
		if err := u.Add(filepath.Join(dir, lib)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	s, end := &seen{}, make(chan error)
	go func() { end <- u.Run(ctx, s) }()
	said = program.run(t)
	stop()
	if err := <-end; err != nil {
		t.Fatal(err)
	}
	return said, s
}

// A thread that is cancelled in a call runs its destructors. A return probe ended the unwinding of its stack.
func TestUprobeCancel(t *testing.T) {
	dir := buildCallbacks(t)
	said, s := watchIn(t, dir, startIn(t, dir, "cancel"), &Options{})
	if said != strings.Repeat("cleaned up\n", 5)+"0 exceptions\n" {
		t.Errorf("the program says %q", said)
	}
	for _, c := range s.of("aclrtSynchronizeStream") {
		if !c.Unfinished() {
			t.Errorf("%+v: has an end", c)
		}
	}
}
