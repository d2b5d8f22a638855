package uprobe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
)

// The library and the program of these tests. To a probe the library looks like the runtime. The program waits for a line
// before it begins, and for the end of its input before it exits. It prints the arguments that it passed.
const testLibrary = `
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#ifdef __x86_64__
#define PUSHED "rbx"
#else
#define PUSHED "x19"
#endif

typedef struct { uint32_t x, y, z; } dim3;

int aclrtMemcpyImpl(void *dst, size_t max, const void *src, size_t n, int kind)
{
	if (kind < 0 || n > max)
		return 107000;
	memcpy(dst, src, n);
	return 0;
}
int aclrtMemcpy(void *dst, size_t max, const void *src, size_t n, int kind)
{
	int rc = aclrtMemcpyImpl(dst, max, src, n, kind);
	__asm__ volatile("");
	return rc;
}
int aclrtMemsetImpl(void *p, size_t max, int32_t value, size_t n) { return max < n ? 107000 : 0; }
/* Ends in a jump. */
int aclrtMemset(void *p, size_t max, int32_t value, size_t n) { return aclrtMemsetImpl(p, max, value, n); }
int aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, int kind) { return 0; }
int aclrtMalloc(void **p, size_t size, int policy) { *p = (void *)(0x124000000000 + size); return 0; }
int aclrtMemcpyBatchAsync(void **dsts, size_t *maxs, void **srcs, size_t *sizes, size_t n, void *attrs, size_t *indexes,
			  size_t nattrs, size_t *fail, void *stream) { *fail = SIZE_MAX; return 0; }
int aclrtLaunchKernelWithHostArgs(void *f, uint32_t blocks, void *s, void *cfg, void *args, size_t n, void *ph, size_t nph)
{
	__asm__ volatile("" ::: PUSHED);
	if (n >= 8)
		memset(args, 0xee, 8); /* patched */
	return 0;
}
int aclrtLaunchSIMTKernelWithHostArgs(void *f, dim3 grid, dim3 block, size_t ubuf, void *s, void *cfg, void *args, size_t n,
				      void *ph, size_t nph) { return 0; }
int aclrtBinaryGetFunction(void *bin, const char *name, void **f)
{
	*f = bin == (void *)0xb3 ? (void *)(0xf300 + (size_t)name[0]) : (void *)0xf00d;
	return name ? 0 : 107000;
}
int aclrtBinaryLoadFromData(const void *data, size_t n, void *options, void **bin) { *bin = (void *)0xb3; return 0; }
int aclrtBinaryUnLoad(void *bin) { return 0; }
int aclrtFunctionGetParamInfo(void *f, size_t i, size_t *offset, size_t *size)
{
	*offset = 8 * i;
	*size = 12 >> i;
	return i < 3 ? 0 : 107000;
}
int aclrtLaunchKernelWithArgsArray(void *f, uint32_t blocks, void *s, void *cfg, void **args) { return 0; }
int aclrtGetFunctionName(void *f, uint32_t max, char *name) { strncpy(name, "add_custom", max); return 0; }
int aclrtBinaryLoadFromFile(const char *path, void *options, void **bin) { *bin = (void *)0xb2; return 0; }
void *aclrtCreateBinary(const void *data, size_t n) { return (void *)0xb1; }
const char *aclrtGetSocName(void) { return "Ascend910B4"; }
struct condition { void *handle; int type; uint32_t size; void **graphs; };
int aclmdlRIAddCondTask(struct condition c, void *stream, uint32_t flags)
{
	for (uint32_t i = 0; i < c.size; i++)
		c.graphs[i] = (void *)(0x6000 + (size_t)i);
	return 0;
}
/* Begins with a push, like most functions. */
int aclrtRecordEvent(void *event, void *stream) { __asm__ volatile("" ::: PUSHED); return 0; }
int aclrtSynchronizeStream(void *s) { if (s == (void *)0xdead) pause(); return 0; }
/* Marks. */
void begin_one(const char *name, void **executor) __asm__("_Z19InitL2Phase1ContextPKcPP13aclOpExecutor");
void end(void *guard) __asm__("_ZN2op10OpDfxGuardD1Ev");
int run(void *workspace, uint64_t size, void *executor, void *stream) __asm__("_Z19CommonOpExecutorRunPvmP13aclOpExecutorS_");
void begin_one(const char *name, void **executor) {}
__attribute__((noinline)) void end(void *guard) { __asm__ volatile("" ::: PUSHED); }
int run(void *workspace, uint64_t size, void *executor, void *stream)
{
	end(0);
	__asm__ volatile("");
	return 0;
}
`

const testProgram = `
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct { uint32_t x, y, z; } dim3;
int aclrtMemcpy(void *, size_t, const void *, size_t, int);
int aclrtMemset(void *, size_t, int64_t, size_t); /* wider than the real type: bits above the value must not be recorded */
int aclrtMemcpy2d(void *, size_t, const void *, size_t, size_t, size_t, int);
int aclrtMalloc(void **, size_t, int);
int aclrtMemcpyBatchAsync(void **, size_t *, void **, size_t *, size_t, void *, size_t *, size_t, size_t *, void *);
int aclrtLaunchKernelWithHostArgs(void *, uint32_t, void *, void *, void *, size_t, void *, size_t);
int aclrtLaunchSIMTKernelWithHostArgs(void *, dim3, dim3, size_t, void *, void *, void *, size_t, void *, size_t);
int aclrtBinaryGetFunction(void *, const char *, void **);
int aclrtGetFunctionName(void *, uint32_t, char *);
int aclrtBinaryLoadFromFile(const char *, void *, void **);
int aclrtBinaryLoadFromData(const void *, size_t, void *, void **);
int aclrtBinaryUnLoad(void *);
int aclrtFunctionGetParamInfo(void *, size_t, size_t *, size_t *);
int aclrtLaunchKernelWithArgsArray(void *, uint32_t, void *, void *, void **);
void *aclrtCreateBinary(const void *, size_t);
const char *aclrtGetSocName(void);
struct condition { void *handle; int type; uint32_t size; void **graphs; };
int aclmdlRIAddCondTask(struct condition, void *, uint32_t);
int aclrtRecordEvent(void *, void *);
int aclrtSynchronizeStream(void *);
void begin_one(const char *, void **) __asm__("_Z19InitL2Phase1ContextPKcPP13aclOpExecutor");
void end(void *) __asm__("_ZN2op10OpDfxGuardD1Ev");
int run(void *, uint64_t, void *, void *) __asm__("_Z19CommonOpExecutorRunPvmP13aclOpExecutorS_");

struct attr { uint32_t id; uint32_t value[4]; };
static unsigned char big[300000], dst[300000];
static jmp_buf out;
static void jump(int sig) { (void)sig; siglongjmp(out, 1); }
static void ignore(int sig) { (void)sig; }

static void args(void)
{
	void *dsts[3] = {(void *)0x124000001000, (void *)0x124000002000, (void *)0x124000003000}, *srcs[3] = {big, big + 100, big + 200};
	size_t maxs[3] = {10, 20, 30}, sizes[3] = {1, 2, 3}, indexes[1] = {0}, fail = 7;
	uint32_t attrs[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	aclrtMemcpyBatchAsync(dsts, maxs, srcs, sizes, 3, attrs, indexes, 1, &fail, (void *)0x57);
	struct attr list[2] = {{1, {2, 3, 4, 5}}, {4, {0}}};
	struct { void *attrs; size_t n; } cfg = {list, 2};
	uint64_t block[4] = {1, 2, 3, 4};
	uint32_t ph[4] = {8, 16, 24, 32};
	aclrtLaunchKernelWithHostArgs((void *)0xf00d, 48, (void *)0x57, &cfg, block, sizeof block, ph, 2);
	aclrtLaunchSIMTKernelWithHostArgs((void *)0xf00e, (dim3){1, 2, 3}, (dim3){4, 5, 6}, 77, (void *)0x58, &cfg, block, sizeof block, ph, 1);
	printf("args %p %p %p %p %p %p %p %p %p %p\n", (void *)dsts, (void *)maxs, (void *)srcs, (void *)sizes, (void *)attrs, (void *)indexes, (void *)&fail, (void *)&cfg, (void *)block, (void *)ph);
}

static void memory(void)
{
	void *p = 0, *f = 0;
	char name[32];
	aclrtMalloc(&p, 64, 2);
	aclrtBinaryGetFunction((void *)0xb1, "matmul_0", &f);
	aclrtBinaryGetFunction((void *)0xb1, (char *)8, &f);
	aclrtGetFunctionName(f, sizeof name, name);
	aclrtGetSocName();
	aclrtBinaryLoadFromFile("main.c", 0, &f);
	aclrtBinaryLoadFromFile("none", 0, &f);
	aclrtMemcpy(p, 4, "host", 4, -1);
	void *graphs[3] = {0};
	aclmdlRIAddCondTask((struct condition){(void *)0xc0, 1, 3, graphs}, (void *)0x57, 0);
	/* Not touched before: the page must be read from the file. */
	FILE *file = tmpfile();
	char page[4096];
	memset(page, 'x', sizeof page);
	strcpy(page + 4090, "name");
	fwrite(page, 1, sizeof page, file);
	fflush(file);
	char *m = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fileno(file), 0);
	aclrtBinaryGetFunction((void *)0xb1, m + 4090, &f);
}

static void marks(void)
{
	void *executor = 0;
	begin_one("aclnnAdd", &executor);
	executor = (void *)0xe1;
	aclrtRecordEvent((void *)0xee, (void *)0x57);
	end(0);
	run(0, 16, executor, (void *)0x57);
}

static void payload(void)
{
	for (size_t i = 0; i < sizeof big; i++)
		big[i] = (unsigned char)(i * 7 + i / 251);
	aclrtMemcpy(dst, sizeof dst, big, 100, 0);
	aclrtMemcpy(dst, sizeof dst, big, 10000, 0);
	aclrtMemcpy(dst, sizeof dst, big, sizeof big, 0);
	aclrtMemcpy2d((void *)0x124000000000, 100, big, 5000, 4500, 3, 1);
	aclrtCreateBinary(big, 50000);
	aclrtMemcpy(dst, sizeof dst, (void *)0x124000000000, 0, 2);
}

/* Launches a kernel with 100 parameters. Byte k of parameter i is i + k. If asked to, waits for input before the launch. */
static void launch_with(void *f, int wait)
{
	static unsigned char values[100][6000];
	void *array[100];
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < 6000; k++)
			values[i][k] = (unsigned char)(i + k);
		array[i] = values[i];
	}
	if (wait) {
		puts("waits");
		fflush(stdout);
		getchar();
	}
	aclrtLaunchKernelWithArgsArray(f, 1, 0, 0, array);
}

static void launch_array(const char *name, int wait)
{
	void *f;
	aclrtBinaryGetFunction((void *)0xb3, name, &f);
	launch_with(f, wait);
}

static void arrays(void)
{
	static char text[10000] = ".visible .entry mixed(.param .u64 a, .param .u32 b, .param .align 8 .b8 c[1200], .param .u8 d) { ret; }\n"
		".visible .entry nothing() { ret; }\n.visible .entry large(.param .b8 a[5000], .param .u32 b) { ret; }\n.visible .entry several(.param .u32 first";
	static const char other[] = ".entry mixed(.param .u32 a, .param .u16 b) { ret; }";
	static const char *const names[] = {"mixed", "nothing", "large", "several", "unknown"};
	void *bin;
	for (int i = 1; i < 100; i++)
		sprintf(text + strlen(text), ", .param .u64 p%d", i);
	strcat(text, ") { ret; }\n");
	aclrtBinaryLoadFromData(text, strlen(text), 0, &bin);
	for (int wait = 0; wait < 2; wait++)
		for (int i = 0; i < 5; i++)
			launch_array(names[i], wait);
	aclrtBinaryUnLoad(bin);
	void *some[2] = {"1234", "1234"};
	aclrtLaunchKernelWithArgsArray((void *)(0xf300 + 'm'), 1, 0, 0, some); /* unloaded, and not returned again */
	aclrtBinaryLoadFromData(other, sizeof other, 0, &bin);
	for (int wait = 0; wait < 2; wait++)
		launch_array("mixed", wait);
	/* A handle from before the recording, whose parameters the program queries. */
	void *old = (void *)(0xf300 + 'o');
	launch_with(old, 0);
	for (size_t i = 0, at, size; aclrtFunctionGetParamInfo(old, i, &at, &size) == 0; i++)
		;
	launch_with(old, 1);
}

static int launches;

/* One of many calls: a launch if launches is set. */
static int call(long i)
{
	uint64_t block = (uint64_t)i;
	return launches ? aclrtLaunchKernelWithHostArgs((void *)i, 1, 0, 0, &block, 4, 0, 0) : aclrtRecordEvent((void *)i, 0);
}

static void *many(void *n)
{
	for (long i = 0; i < (long)n; i++)
		call(i);
	return 0;
}

static void threads(long n)
{
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], 0, many, (void *)n);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], 0);
}

static volatile int over;

static void *find(void *name)
{
	void *f;
	aclrtBinaryGetFunction((void *)0xb1, name, &f);
	over = 1;
	return 0;
}

/* A thread calls with a name whose page stays absent until another thread on the same processor has called, too. */
static void asleep(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_NONBLOCK);
	struct uffdio_api api = {.api = UFFD_API};
	char *name = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register area = {.range = {(uintptr_t)name, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	cpu_set_t one;
	sched_getaffinity(0, sizeof one, &one);
	for (int i = 0, n = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &one) && n++)
			CPU_CLR(i, &one);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &area) || sched_setaffinity(0, sizeof one, &one)) {
		perror("userfaultfd");
		puts("impossible");
		return;
	}
	pthread_t t;
	pthread_create(&t, 0, find, name);
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	while (!over && poll(&wait, 1, 10) == 0)
		;
	static char page[4096] = "slow";
	void *f;
	for (int i = 0; i < 100; i++)
		aclrtBinaryGetFunction((void *)0xb2, "quick", &f);
	struct uffdio_copy copy = {.dst = (uintptr_t)name, .src = (uintptr_t)page, .len = 4096};
	ioctl(fd, UFFDIO_COPY, &copy);
	pthread_join(t, 0);
}

static void *load(void *unused)
{
	for (long i = 0; !over; i++)
		if (call(i) != 0)
			abort();
	return unused;
}

int main(int argc, char **argv)
{
	launches = !strcmp(argv[argc - 1], "launches");
	if (strcmp(argv[1], "child")) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	if (!strcmp(argv[1], "args"))
		args();
	else if (!strcmp(argv[1], "memory"))
		memory();
	else if (!strcmp(argv[1], "marks"))
		marks();
	else if (!strcmp(argv[1], "payload"))
		payload();
	else if (!strcmp(argv[1], "asleep"))
		asleep();
	else if (!strcmp(argv[1], "arrays"))
		arrays();
	else if (!strcmp(argv[1], "threads"))
		threads(atol(argv[2]));
	else if (!strcmp(argv[1], "load")) {
		pthread_t t[4];
		for (int i = 0; i < 4; i++)
			pthread_create(&t[i], 0, load, 0);
		while (getchar() != EOF)
			;
		over = 1;
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], 0);
	} else if (!strcmp(argv[1], "nested")) {
		for (int i = 0; i < 10; i++) {
			aclrtMemcpy(dst, 4, big, 4, 0);
			aclrtMemset(dst, 8, 0x12345678ffffffff, 4);
		}
	} else if (!strcmp(argv[1], "fork")) {
		many((void *)2);
		if (fork() == 0) {
			many((void *)3);
			execl("/proc/self/exe", argv[0], "child", (char *)0);
		}
		wait(0);
	} else if (!strcmp(argv[1], "exec")) {
		many((void *)2);
		getchar();
		execl("/proc/self/exe", argv[0], "nested", (char *)0);
	} else if (!strcmp(argv[1], "hang")) {
		signal(SIGUSR1, ignore);
		many((void *)1);
		puts("done");
		fflush(stdout);
		aclrtSynchronizeStream((void *)0xdead);
	} else if (!strcmp(argv[1], "jump")) {
		signal(SIGALRM, jump);
		if (sigsetjmp(out, 1) == 0) {
			alarm(1);
			aclrtSynchronizeStream((void *)0xdead);
		}
		many((void *)3);
	}
	if (strcmp(argv[1], "child")) {
		puts("done");
		fflush(stdout);
		getchar();
	} else
		many((void *)4);
	return 0;
}
`

// branchTargets are the compiler flags for functions that begin with a branch target instruction, which distributions use.
var branchTargets = map[string][]string{"amd64": {"-fcf-protection=full"}, "arm64": {"-mbranch-protection=standard"}}[runtime.GOARCH]

// testLib compiles library and program, and returns the library's path.
func testLib(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("ACLTRACE_TEST_UPROBES"); dir != "" {
		return filepath.Join(dir, "libascendcl.so") // built elsewhere, for a machine without a compiler
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("uprobe.%d.%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", ".")))
	lib := filepath.Join(dir, "libascendcl.so")
	if err := os.Mkdir(dir, 0o755); errors.Is(err, os.ErrExist) {
		return lib
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, text := range map[string]string{"lib.c": testLibrary, "main.c": testProgram} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		append([]string{"-O2", "-fPIC", "-shared", "-s", "-o", "libascendcl.so", "lib.c"}, branchTargets...),
		{"-O1", "-o", "main", "main.c", "./libascendcl.so", "-lpthread"},
	} {
		cmd := exec.Command("cc", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cc: %v\n%s", err, out)
		}
	}
	return lib
}

// target is a running program that waits for its first line.
type target struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	seen   *seen // sink of watch
	probes *Probes
	first  uint64 // key of the call that returned its kernel
}

// waits returns when the program sleeps: in a call, or waiting for input.
func (c *target) waits(t *testing.T) {
	t.Helper()
	testenv.Wait(t, "a program that waits", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		return err != nil || bytes.Contains(b, []byte(") S "))
	})
}

func startTarget(t *testing.T, args ...string) *target {
	t.Helper()
	return startIn(t, filepath.Dir(testLib(t)), args...)
}

// startIn starts the program in a folder.
func startIn(t *testing.T, dir string, args ...string) *target {
	t.Helper()
	c := &target{Cmd: exec.Command(filepath.Join(dir, "main"), args...)}
	c.Dir, c.Stderr = dir, os.Stderr
	c.in, _ = c.StdinPipe()
	out, _ := c.StdoutPipe()
	c.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	if line, err := c.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("target says %q, %v", line, err)
	}
	return c
}

// run lets the program run to its end, and returns its output.
func (c *target) run(t *testing.T) string {
	t.Helper()
	fmt.Fprintln(c.in)
	var said strings.Builder
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			t.Fatalf("target: %v", err)
		}
		if line == "done\n" {
			return said.String()
		}
		said.WriteString(line)
	}
}

// seen is a sink that keeps all records. It adds a payload that comes in one part to the pieces of its call.
type seen struct {
	began     atomic.Int64 // processes and calls so far
	processes []probe.Process
	calls     []probe.Call
	payloads  []probe.Payload
	gaps      []probe.Gap
}

func (s *seen) Process(p *probe.Process) error {
	s.processes = append(s.processes, *p)
	s.began.Add(1)
	return nil
}
func (s *seen) Gap(g *probe.Gap) error         { s.gaps = append(s.gaps, *g); return nil }
func (s *seen) TaskTime(*probe.TaskTime) error { return nil }
func (s *seen) Call(c *probe.Call) error {
	d := *c
	d.Words, d.Pieces = slices.Clone(c.Words), slices.Clone(c.Pieces)
	for i := range d.Pieces {
		d.Pieces[i].Bytes = bytes.Clone(c.Pieces[i].Bytes)
	}
	s.calls = append(s.calls, d)
	s.began.Add(1)
	return nil
}
func (s *seen) Payload(p *probe.Payload) error {
	d := *p
	d.Bytes = bytes.Clone(p.Bytes)
	s.payloads = append(s.payloads, d)
	for i := range s.calls {
		if c := &s.calls[i]; c.TID == d.TID && c.Seq == d.Seq && (d.Missing != probe.Present || uint64(len(d.Bytes)) == d.Len) {
			c.Pieces = append(c.Pieces, d.Piece)
		}
	}
	return nil
}

func (s *seen) of(name string) []probe.Call {
	var cs []probe.Call
	for _, c := range s.calls {
		if acl.Model.Func(c.Func).Name == name {
			cs = append(cs, c)
		}
	}
	return cs
}

// attach loads probes for one library.
func attach(library string, opts *Options) (*Probes, error) {
	u, err := Load(acl.Model, opts)
	if err != nil {
		return nil, err
	}
	if err := u.Add(library); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

func attachUprobes(t *testing.T, opts *Options) *Probes {
	t.Helper()
	u, err := attach(testLib(t), opts)
	testenv.Uprobes(t, err)
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

// watch records a run of the program with the given options.
func watch(t *testing.T, opts Options, during func(*target), args ...string) (*seen, *Probes) {
	t.Helper()
	c := startTarget(t, args...)
	opts.PIDs = []int{c.Process.Pid}
	u := attachUprobes(t, &opts)
	ctx, stop := context.WithCancel(t.Context())
	s := &seen{}
	c.seen, c.probes = s, u
	end := make(chan error)
	go func() { end <- u.Run(ctx, s) }()
	during(c)
	stop()
	if err := <-end; err != nil {
		t.Fatal(err)
	}
	return s, u
}

func words(s string) []uint64 {
	var ws []uint64
	for _, f := range strings.Fields(s) {
		var w uint64
		if _, err := fmt.Sscan(f, &w); err == nil {
			ws = append(ws, w)
		}
	}
	return ws
}

func paramOf(c probe.Call, name string) int {
	if name == "return" {
		return none
	}
	return acl.Model.Func(c.Func).Param(name)
}

func piece(t *testing.T, c probe.Call, param string, item int) probe.Piece {
	t.Helper()
	f, n := acl.Model.Func(c.Func), paramOf(c, param)
	for _, p := range c.Pieces {
		if int(p.Param) == n && int(p.Item) == item {
			return p
		}
	}
	t.Fatalf("%s: no piece for %s in %+v", f.Name, param, c.Pieces)
	return probe.Piece{}
}

func wantBytes(t *testing.T, c probe.Call, param string, dir probe.Dir, want ...any) {
	t.Helper()
	var b bytes.Buffer
	for _, w := range want {
		if s, ok := w.(string); ok {
			b.WriteString(s)
		} else if err := binary.Write(&b, binary.LittleEndian, w); err != nil {
			t.Fatal(err)
		}
	}
	f, n := acl.Model.Func(c.Func), paramOf(c, param)
	i := slices.IndexFunc(c.Pieces, func(p probe.Piece) bool { return int(p.Param) == n && p.Item == 0 && p.Dir == dir })
	if i < 0 {
		t.Fatalf("%s: no piece for %s in %+v", f.Name, param, c.Pieces)
	}
	if p := c.Pieces[i]; !bytes.Equal(p.Bytes, b.Bytes()) || p.Missing != probe.Present || p.Len != uint64(b.Len()) {
		t.Errorf("%s: %s: %+v, want %x", f.Name, param, p, b.Bytes())
	}
}

func only(t *testing.T, s *seen, name string) probe.Call {
	t.Helper()
	cs := s.of(name)
	if len(cs) != 1 {
		t.Fatalf("%d calls of %s, want 1 of %d", len(cs), name, len(s.calls))
	}
	return cs[0]
}

func TestUprobeArguments(t *testing.T) {
	for name, opts := range map[string]Options{"best": {}, "single": {OneByOne: true}, "no sleep": {noSleep: true}, "oldest": {OneByOne: true, noSleep: true, noCookie: true}} {
		t.Run(name, func(t *testing.T) {
			var said []uint64
			if opts.OneByOne { // attaching is slow
				opts.Functions = []string{"aclrtMemcpyBatchAsync", "aclrtLaunchKernelWithHostArgs", "aclrtLaunchSIMTKernelWithHostArgs"}
			}
			s, _ := watch(t, opts, func(c *target) { said = words(c.run(t)) }, "args")
			if len(said) != 10 {
				t.Fatalf("the program said %v", said)
			}
			dsts, maxs, srcs, sizes, attrs, indexes, fail, cfg, block, ph := said[0], said[1], said[2], said[3], said[4], said[5], said[6], said[7], said[8], said[9]

			c := only(t, s, "aclrtMemcpyBatchAsync")
			if want := []uint64{dsts, maxs, srcs, sizes, 3, attrs, indexes, 1, fail, 0x57}; !slices.Equal(c.Words, want) {
				t.Errorf("batch: %#x, want %#x", c.Words, want)
			}
			wantBytes(t, c, "dsts", probe.In, uint64(0x124000001000), uint64(0x124000002000), uint64(0x124000003000))
			wantBytes(t, c, "destMaxs", probe.In, uint64(10), uint64(20), uint64(30))
			wantBytes(t, c, "sizes", probe.In, uint64(1), uint64(2), uint64(3))
			wantBytes(t, c, "attrs", probe.In, []uint32{1, 2, 3, 4, 5, 6, 7, 8})
			wantBytes(t, c, "failIndex", probe.In, uint64(7))
			wantBytes(t, c, "failIndex", probe.Out, ^uint64(0))
			if p := piece(t, c, "srcs", 3); p.Len != 3 || p.Missing != probe.OverLimit || p.Dir != probe.In {
				t.Errorf("third source: %+v", p)
			}

			c = only(t, s, "aclrtLaunchKernelWithHostArgs")
			if want := []uint64{0xf00d, 48, 0x57, cfg, block, 32, ph, 2}; !slices.Equal(c.Words, want) {
				t.Errorf("launch: %#x, want %#x", c.Words, want)
			}
			wantBytes(t, c, "hostArgs", probe.In, uint64(1), uint64(2), uint64(3), uint64(4))
			wantBytes(t, c, "placeHolderArray", probe.In, []uint32{8, 16, 24, 32})
			wantBytes(t, c, "cfg", probe.In, []uint32{1, 2, 3, 4, 5, 4, 0, 0, 0, 0})

			c = only(t, s, "aclrtLaunchSIMTKernelWithHostArgs")
			if want := []uint64{0xf00e, 2<<32 | 1, 3, 5<<32 | 4, 6, 77, 0x58, cfg, block, 32, ph, 1}; !slices.Equal(c.Words, want) {
				t.Errorf("SIMT launch: %#x, want %#x", c.Words, want)
			}
			wantBytes(t, c, "hostArgs", probe.In, uint64(0xeeeeeeeeeeeeeeee), uint64(2), uint64(3), uint64(4))
			for i, c := range s.calls {
				if c.Seq != uint64(i) || c.Start <= 0 || c.End < c.Start || c.Ret != 0 || (i > 0 && c.Start < s.calls[i-1].End) {
					t.Errorf("call %d: %+v", i, c)
				}
			}
			if len(s.processes) != 1 || len(s.gaps) != 0 {
				t.Errorf("processes %+v, gaps %+v", s.processes, s.gaps)
			}
		})
	}
}

func TestUprobeMemory(t *testing.T) {
	s, u := watch(t, Options{}, func(c *target) { c.run(t) }, "memory")
	wantBytes(t, only(t, s, "aclrtMalloc"), "devPtr", probe.Out, uint64(0x124000000000+64))
	fs := s.of("aclrtBinaryGetFunction")
	if len(fs) != 3 {
		t.Fatalf("%d calls of aclrtBinaryGetFunction", len(fs))
	}
	wantBytes(t, fs[0], "kernelName", probe.In, "matmul_0")
	wantBytes(t, fs[0], "funcHandle", probe.Out, uint64(0xf00d))
	if p := piece(t, fs[1], "kernelName", 0); p.Missing != probe.Unreadable || p.Bytes != nil {
		t.Errorf("a string at a bad address: %+v", p)
	}
	if u.programs.sleepable {
		wantBytes(t, fs[2], "kernelName", probe.In, "name")
	} else if p := piece(t, fs[2], "kernelName", 0); p.Missing != probe.Unreadable {
		t.Errorf("a page that this kernel can't wait for: %+v", p)
	}
	wantBytes(t, only(t, s, "aclrtGetFunctionName"), "name", probe.Out, "add_custom")
	wantBytes(t, only(t, s, "aclrtGetSocName"), "return", probe.Out, "Ascend910B4")
	condition := only(t, s, "aclmdlRIAddCondTask")
	made, _ := binary.Append(nil, binary.LittleEndian, []uint64{0x6000, 0x6001, 0x6002})
	if p := piece(t, condition, "params", 1); !bytes.Equal(p.Bytes, made) || p.Dir != probe.Out || p.Missing != probe.Present || p.Addr != condition.Words[2] {
		t.Errorf("behind a pointer in a structure that is passed by value: %+v, want %x", p, made)
	}
	loads := s.of("aclrtBinaryLoadFromFile")
	wantBytes(t, loads[0], "binPath", probe.In, "main.c")
	if len(s.payloads) != 2 {
		t.Fatalf("%d payloads, want two files", len(s.payloads))
	}
	if p := s.payloads[0]; string(p.Bytes) != testProgram || p.Item != 1 || p.Seq != loads[0].Seq || p.Len != uint64(len(testProgram)) {
		t.Errorf("file: %d bytes of %d, item %d", len(p.Bytes), p.Len, p.Item)
	}
	if p := s.payloads[1]; p.Missing != probe.Unreadable || p.Seq != loads[1].Seq {
		t.Errorf("a file that is not there: %+v", p)
	}
	failed := only(t, s, "aclrtMemcpy")
	if failed.Ret != 107000 || len(failed.Pieces) != 0 || failed.Words[4] != 0xffffffff {
		t.Errorf("failed copy: %+v", failed)
	}
}

// While one thread waits for a page at a probe, another thread calls on the same processor. Each call has its own data.
func TestUprobeAsleep(t *testing.T) {
	if OneByOne() {
		t.Skip("the kernel lets no other thread through a probe on a processor where one waits for a page")
	}
	said := ""
	s, u := watch(t, Options{}, func(c *target) { said = c.run(t) }, "asleep")
	if said != "" {
		t.Skip("userfaultfd is not to be had here")
	}
	var slow []probe.Call
	for _, c := range s.of("aclrtBinaryGetFunction") {
		if c.Words[0] == 0xb1 {
			slow = append(slow, c)
			continue
		}
		wantBytes(t, c, "kernelName", probe.In, "quick")
	}
	if len(slow) != 1 || len(s.calls) != 101 {
		t.Fatalf("%d calls that waited, %d in all", len(slow), len(s.calls))
	}
	if u.programs.sleepable {
		wantBytes(t, slow[0], "kernelName", probe.In, "slow")
	} else if p := piece(t, slow[0], "kernelName", 0); p.Missing != probe.Unreadable {
		t.Errorf("a page that this kernel can't wait for: %+v", p)
	}
	wantBytes(t, slow[0], "funcHandle", probe.Out, uint64(0xf00d))
}

func TestUprobePayload(t *testing.T) {
	for _, noSleep := range []bool{false, true} {
		t.Run(fmt.Sprintf("no sleep=%t", noSleep), func(t *testing.T) { testPayload(t, noSleep) })
	}
}

func testPayload(t *testing.T, noSleep bool) {
	var src [300000]byte
	for i := range src {
		src[i] = byte(i*7 + i/251)
	}
	s, _ := watch(t, Options{PayloadLimit: 100000, noSleep: noSleep}, func(c *target) { c.run(t) }, "payload")
	// wantLarge checks data that does not fit into the record of its call.
	wantLarge := func(c probe.Call, param uint8, want []byte) {
		t.Helper()
		var got []byte
		for _, p := range s.payloads {
			if p.Seq != c.Seq || p.Param != param {
				continue
			}
			if p.Missing != probe.Present || p.Offset != uint64(len(got)) {
				t.Errorf("part: %+v", p.Piece)
			}
			got = append(got, p.Bytes...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("payload of parameter %d differs: %d bytes, want %d", param, len(got), len(want))
		}
	}
	cs := s.of("aclrtMemcpy")
	wantBytes(t, cs[0], "src", probe.In, src[:100])
	wantBytes(t, cs[0], "dst", probe.Out, src[:100])
	wantLarge(cs[1], 0, src[:10000])
	wantLarge(cs[1], 2, src[:10000])
	if p := piece(t, cs[2], "src", 0); p.Missing != probe.OverLimit || p.Len != 300000 {
		t.Errorf("over the limit: %+v", p)
	}
	if len(cs[3].Pieces) != 0 {
		t.Errorf("copy of nothing: %+v", cs[3].Pieces)
	}
	wantLarge(only(t, s, "aclrtMemcpy2d"), 2, slices.Concat(src[:4500], src[5000:9500], src[10000:14500]))
	wantLarge(only(t, s, "aclrtCreateBinary"), 0, src[:50000])
}

func TestUprobeNoPayload(t *testing.T) {
	s, _ := watch(t, Options{}, func(c *target) { c.run(t) }, "payload")
	if p := piece(t, s.of("aclrtMemcpy")[0], "src", 0); p.Missing != probe.OverLimit || p.Bytes != nil || p.Len != 100 {
		t.Errorf("payload that was not asked for: %+v", p)
	}
	if n := len(whole(s.payloads, 0)); n != 50000 {
		t.Errorf("%d bytes of the binary, want all whatever the limit is", n)
	}
}

func whole(ps []probe.Payload, param uint8) (b []byte) {
	for _, p := range ps {
		if p.Param == param {
			b = append(b, p.Bytes...)
		}
	}
	return b
}

func TestUprobeThreads(t *testing.T) {
	const n = 25000
	s, _ := watch(t, Options{RingBytes: 64 << 20}, func(c *target) { c.run(t) }, "threads", fmt.Sprint(n))
	next := map[int]uint64{}
	for _, c := range s.calls {
		if c.Seq != next[c.TID] || c.Words[0] != c.Seq || c.End == 0 {
			t.Fatalf("call %+v, want number %d", c, next[c.TID])
		}
		next[c.TID]++
	}
	if len(next) != 4 || len(s.calls) != 4*n || len(s.gaps) != 0 {
		t.Errorf("%d calls of %d threads, gaps %+v", len(s.calls), len(next), s.gaps)
	}
}

// tally is a sink that checks the numbers that the program passes, and the gaps between them.
type tally struct {
	nobody
	came                    atomic.Int64 // calls so far
	calls, lost, unfinished uint64
	next                    map[int]uint64 // next number, by thread
	wrong                   []string
	pause                   time.Duration // every 64 calls, so that the ring overflows
}

func (s *tally) Gap(g *probe.Gap) error {
	if s.lost += g.Calls; g.PID == 0 || g.TID == 0 || g.From <= 0 || g.To < g.From {
		s.wrong = append(s.wrong, fmt.Sprintf("gap: %+v", g))
	}
	s.next[g.TID] += g.Calls
	return nil
}

func (s *tally) Call(c *probe.Call) error {
	if want := s.next[c.TID]; c.Words[0] != want || c.Seq != want {
		s.wrong = append(s.wrong, fmt.Sprintf("call %d with number %d, want %d", c.Words[0], c.Seq, want))
	}
	s.next[c.TID]++
	s.came.Add(1)
	if s.calls++; c.Unfinished() {
		s.unfinished++
	}
	if s.pause > 0 && s.calls%64 == 0 {
		time.Sleep(s.pause)
	}
	return nil
}

// Calls that find the ring full are counted in their place, and so are launches that are held for others.
func TestUprobeLoss(t *testing.T) {
	for _, kind := range []string{"events", "launches"} {
		t.Run(kind, func(t *testing.T) {
			const n = 25000
			c := startTarget(t, "threads", fmt.Sprint(n), kind)
			u := attachUprobes(t, &Options{PIDs: []int{c.Process.Pid}, RingBytes: 4096})
			ctx, stop := context.WithCancel(t.Context())
			s := &tally{next: map[int]uint64{}, pause: time.Millisecond}
			end := make(chan error)
			go func() { end <- u.Run(ctx, s) }()
			c.run(t)
			stop()
			if err := <-end; err != nil {
				t.Fatal(err)
			}
			if s.calls+s.lost != 4*n || s.lost == 0 || s.calls == 0 || len(s.wrong) > 0 {
				t.Errorf("%d calls and %d lost, want %d; %q", s.calls, s.lost, 4*n, s.wrong[:min(len(s.wrong), 5)])
			}
			if got, _, err := u.Lost(); err != nil || got != s.lost {
				t.Errorf("the kernel lost %d (%v), the gaps say %d", got, err, s.lost)
			}
		})
	}
}

// The records that a thread still holds at the end come in order: its gap, its held calls, and the call in progress, unless
// that was sampled out.
func TestUprobeLeftover(t *testing.T) {
	for skipped, want := range []string{"2 lost, call 2, call 3, call 4", "2 lost, call 2, call 3, 1 lost"} {
		thread := make([]byte, headAt+4096)
		put := func(at, value int) { binary.LittleEndian.PutUint32(thread[at:], uint32(value)) }
		f := acl.Model.Lookup("aclrtRecordEvent")
		data := 8 * int(f.Words)
		put(32, 1) // in a call
		put(36, data)
		put(40, skipped)
		put(48, 2*(eventSize+data))
		put(headAt+8, os.Getpid())
		put(headAt+12, 77)
		put(headAt+16, 2)
		for i := range 3 {
			at := headAt + headSize + i*(eventSize+data)
			put(at, int(f.ID)|data<<16)
			put(at+4, 2+i)
			put(at+8, 100+i)
			put(at+16, 200+i)
		}
		s := &inOrder{}
		d := newDecoder(acl.Model, 0, false, newKernels(nil, nil), newCallers(acl.Model, nil, nil))
		d.sink = s
		left, err := d.leftover(thread)
		if got := strings.Join(s.came, ", "); err != nil || got != want || left != uint64(skipped) {
			t.Errorf("%q, %d left, %v; want %q", got, left, err, want)
		}
	}
}

// inOrder is a sink that lists calls and gaps.
type inOrder struct {
	nobody
	came []string
}

func (s *inOrder) Call(c *probe.Call) error {
	s.came = append(s.came, fmt.Sprintf("call %d", c.Seq))
	return nil
}

func (s *inOrder) Gap(g *probe.Gap) error {
	s.came = append(s.came, fmt.Sprintf("%d lost", g.Calls))
	return nil
}

func TestUprobeCountOnly(t *testing.T) {
	c := startTarget(t, "threads", "1000")
	u := attachUprobes(t, &Options{PIDs: []int{c.Process.Pid}, CountOnly: true, Functions: []string{"aclrtRecordEvent", "aclrtMalloc"}})
	c.run(t)
	counts, err := u.Counts()
	if err != nil || counts["aclrtRecordEvent"] != 4000 || counts["aclrtMalloc"] != 0 || len(counts) != 2 {
		t.Errorf("counts %v, %v", counts, err)
	}
	if err := u.Run(t.Context(), &seen{}); err == nil {
		t.Error("Run of probes that only count gave no error")
	}
}

func TestUprobeNested(t *testing.T) {
	s, _ := watch(t, Options{}, func(c *target) { c.run(t) }, "nested")
	for _, name := range []string{"aclrtMemcpy", "aclrtMemset"} {
		if n := len(s.of(name)); n != 10 {
			t.Errorf("%s: %d calls recorded, want 10", name, n)
		}
	}
	if w := s.of("aclrtMemset")[0].Words; w[2] != 0xffffffff {
		t.Errorf("an int32_t of -1 is %#x", w[2])
	}
}

func TestUprobeUnfinished(t *testing.T) {
	s, _ := watch(t, Options{}, func(c *target) {
		c.run(t)
		c.waits(t)
		c.Process.Kill()
		c.Process.Wait()
	}, "hang")
	c := only(t, s, "aclrtSynchronizeStream")
	if !c.Unfinished() || c.Words[0] != 0xdead || c.Seq != 1 {
		t.Errorf("call of a killed program: %+v", c)
	}
	if c := only(t, s, "aclrtRecordEvent"); c.Unfinished() {
		t.Error("a call that returned has no end")
	}
}

func TestUprobeUnfinishedAtDetach(t *testing.T) {
	var c *target
	s, _ := watch(t, Options{}, func(run *target) {
		c = run
		c.run(t)
		c.waits(t)
	}, "hang")
	if c := only(t, s, "aclrtSynchronizeStream"); !c.Unfinished() || c.Words[0] != 0xdead {
		t.Errorf("call at the end of the recording: %+v", c)
	}
	// The call returns normally.
	if err := c.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if line, err := c.out.ReadString('\n'); line != "done\n" {
		t.Errorf("after the detach the program says %q, %v", line, err)
	}
}

func TestUprobeJump(t *testing.T) {
	s, _ := watch(t, Options{}, func(c *target) { c.run(t) }, "jump")
	if c := only(t, s, "aclrtSynchronizeStream"); !c.Unfinished() || len(s.of("aclrtRecordEvent")) != 3 {
		t.Errorf("calls after a jump out of one: %+v", s.calls)
	}
}

func TestUprobeChildren(t *testing.T) {
	s, _ := watch(t, Options{}, func(c *target) { c.run(t) }, "fork")
	calls := map[int]int{}
	for _, c := range s.calls {
		calls[c.PID]++
	}
	if len(calls) != 2 || len(s.calls) != 2+3+4 {
		t.Errorf("calls by process: %v, want 2 and 7", calls)
	}
	if len(s.processes) < 2 || s.processes[0].PID == s.processes[1].PID || len(s.processes[0].Argv) != 2 || s.processes[0].Argv[1] != "fork" {
		t.Errorf("processes: %+v", s.processes)
	}
}

func TestUprobeExec(t *testing.T) {
	s, _ := watch(t, Options{}, func(c *target) {
		fmt.Fprintln(c.in)
		testenv.Wait(t, "the program's first name", func() bool { return c.seen.began.Load() > 0 })
		fmt.Fprintln(c.in)
		c.out.ReadString('\n') // ready again
		c.run(t)
	}, "exec")
	if len(s.processes) != 2 || s.processes[0].Argv[1] != "exec" || s.processes[1].Argv[1] != "nested" || s.processes[0].PPID != os.Getpid() {
		t.Errorf("processes: %+v", s.processes)
	}
	if len(s.of("aclrtRecordEvent")) != 2 || len(s.of("aclrtMemset")) != 10 {
		t.Errorf("%d calls", len(s.calls))
	}
}

func TestUprobeOtherProcess(t *testing.T) {
	other := startTarget(t, "threads", "100")
	s, _ := watch(t, Options{}, func(c *target) {
		other.run(t)
		c.run(t)
	}, "threads", "10")
	if len(s.calls) != 40 {
		t.Errorf("%d calls, want 40", len(s.calls))
	}
}

func TestUprobeAllProcesses(t *testing.T) {
	u := attachUprobes(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	s := &seen{}
	end := make(chan error)
	go func() { end <- u.Run(ctx, s) }()
	for range 2 {
		startTarget(t, "threads", "10").run(t)
	}
	stop()
	if err := <-end; err != nil || len(s.calls) != 80 || len(s.processes) != 2 {
		t.Errorf("%d calls of %+v, %v", len(s.calls), s.processes, err)
	}
}

// Attaching to and detaching from a busy program does not harm it, and every recorded call is complete.
func TestUprobeAttachUnderLoad(t *testing.T) { attachUnderLoad(t, 5) }

func TestUprobeAttachUnderLoadSoak(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes minutes: run make soak")
	}
	attachUnderLoad(t, 200)
}

func attachUnderLoad(t *testing.T, rounds int) {
	// The program calls until its input ends, and checks each result.
	c := startTarget(t, "load")
	fmt.Fprintln(c.in)
	code := programCode(t, c.Process.Pid)
	for range rounds {
		u := attachUprobes(t, &Options{PIDs: []int{c.Process.Pid}, RingBytes: 32 << 20})
		s := &seen{}
		err := u.Run(enough(t, 20*time.Millisecond, &s.began, 100), s)
		if err := errors.Join(err, u.Close()); err != nil {
			t.Fatal(err)
		}
		unfinished := 0
		for i := range s.calls {
			if s.calls[i].Unfinished() {
				unfinished++
			}
		}
		if unfinished > 4 || len(s.calls) == 0 {
			t.Errorf("%d of %d calls of 4 threads have not ended", unfinished, len(s.calls))
		}
	}
	if !bytes.Equal(code, programCode(t, c.Process.Pid)) {
		t.Error("the code of the library in the program is not what it was")
	}
	c.in.Close()
	if line, err := c.out.ReadString('\n'); line != "done\n" {
		t.Errorf("the program says %q, %v", line, err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
}

// programCode returns the library's code as a process has it in memory.
func programCode(t *testing.T, pid int) []byte {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		if strings.Contains(line, " r-xp ") && strings.Contains(line, "libascendcl.so") {
			fmt.Sscanf(line, "%x-%x", &from, &to)
			code := make([]byte, to-from)
			if _, err := mem.ReadAt(code, from); err != nil {
				t.Fatal(err)
			}
			return code
		}
	}
	t.Fatal("the program does not map the library")
	return nil
}

// Under load every call is recorded or counted as lost, with and without sampling.
func TestUprobeLoad(t *testing.T) { recordLoad(t, 2*time.Second) }

func TestUprobeLoadSoak(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes minutes: run make soak")
	}
	recordLoad(t, time.Minute)
}

// enough returns a context that ends after a time, but not before n has reached want.
func enough(t *testing.T, d time.Duration, n *atomic.Int64, want int64) context.Context {
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(d, func() {
		testenv.Await(func() bool { return n.Load() >= want })
		stop()
	})
	return ctx
}

func recordLoad(t *testing.T, d time.Duration) {
	for _, kind := range []string{"events", "launches"} {
		for _, sample := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sample=%t", kind, sample), func(t *testing.T) {
				c := startTarget(t, "load", kind)
				u := attachUprobes(t, &Options{PIDs: []int{c.Process.Pid}, Sample: sample, RingBytes: 1 << 20})
				fmt.Fprintln(c.in)
				s := &tally{next: map[int]uint64{}}
				if err := u.Run(enough(t, d, &s.came, 1000), s); err != nil {
					t.Fatal(err)
				}
				lost, sampled, err := u.Lost()
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d calls recorded, %d lost, %d of them by sampling", s.calls, s.lost, sampled)
				if s.calls < 1000 || s.unfinished > 4 || len(s.wrong) > 0 {
					t.Errorf("%d calls, %d have no end; %q", s.calls, s.unfinished, s.wrong[:min(len(s.wrong), 5)])
				}
				if s.lost > lost+4 || s.lost < lost || !sample && sampled != 0 {
					t.Errorf("%d calls lost, the kernel says %d", s.lost, lost)
				}
				c.in.Close()
				if line, err := c.out.ReadString('\n'); line != "done\n" {
					t.Errorf("the program says %q, %v", line, err)
				}
			})
		}
	}
}

func TestUprobeErrors(t *testing.T) {
	attachUprobes(t, nil) // skips the test without uprobes
	lib := testLib(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		lib  string
		opts *Options
		want string
	}{
		{filepath.Join(t.TempDir(), "none.so"), nil, "no such file"},
		{text, nil, "not an ELF file"},
		{lib, &Options{Functions: []string{"aclrtNope"}}, "aclrtNope: no such function"},
		{lib, &Options{Functions: []string{"aclrtFree"}}, "exports no function"},
	} {
		u, err := attach(c.lib, c.opts)
		if err == nil {
			u.Close()
			t.Errorf("%s: no error, want %q", c.lib, c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.lib, err, c.want)
		}
	}
}

// Without privilege the error names the missing capabilities. The test runs itself as an unprivileged user.
func TestUprobeNotPermitted(t *testing.T) {
	if lib := os.Getenv("ACLTRACE_TEST_UNPRIVILEGED"); lib != "" {
		_, err := attach(lib, nil)
		if !errors.Is(err, ErrNotPermitted) || !strings.Contains(err.Error(), "CAP_BPF and CAP_PERFMON") {
			t.Fatalf("error is %v", err)
		}
		return
	}
	runUnprivileged(t, "ACLTRACE_TEST_UNPRIVILEGED="+testLib(t))
}

func TestFindLibraries(t *testing.T) {
	c := startTarget(t, "nested")
	c.run(t)
	libs, err := FindLibraries(acl.Model, c.Process.Pid)
	if err != nil || len(libs) != 1 {
		t.Fatalf("libraries %v, %v", libs, err)
	}
	got, err := os.Stat(libs[0])
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(testLib(t))
	if err != nil || !os.SameFile(got, want) {
		t.Errorf("%s is not %s (%v)", libs[0], testLib(t), err)
	}
	if libs, err := FindLibraries(acl.Model, os.Getpid()); err != nil || len(libs) != 0 {
		t.Errorf("libraries of a program without the runtime: %v, %v", libs, err)
	}
	if _, err := FindLibraries(acl.Model, 1<<30); err == nil || strings.Count(err.Error(), "1073741824") != 1 {
		t.Errorf("a process that is not there: %v", err)
	}
}

// A library that an update replaced is found and probed through the running program's mapping.
func TestUprobeDeletedLibrary(t *testing.T) {
	c := startTarget(t, "threads", "10")
	lib := testLib(t)
	if err := os.Remove(lib); err != nil {
		t.Fatal(err)
	}
	libs, err := FindLibraries(acl.Model, c.Process.Pid)
	if errors.Is(err, os.ErrPermission) {
		t.Skip(err)
	}
	if err != nil || len(libs) != 1 {
		t.Fatalf("libraries %v, %v", libs, err)
	}
	u, err := attach(libs[0], &Options{PIDs: []int{c.Process.Pid}, CountOnly: true})
	testenv.Uprobes(t, err)
	defer u.Close()
	c.run(t)
	if counts, err := u.Counts(); err != nil || counts["aclrtRecordEvent"] != 40 {
		t.Errorf("counts %v, %v", counts, err)
	}
}

func TestProbeOffset(t *testing.T) {
	le := func(instructions ...uint32) (b []byte) {
		for _, i := range instructions {
			b = binary.LittleEndian.AppendUint32(b, i)
		}
		return b
	}
	for _, c := range []struct {
		name, arch string
		code       []byte
		want       uint64
	}{
		{"endbr64, push", "amd64", []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5}, 4},
		{"push", "amd64", []byte{0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56}, 0},
		{"endbr64, nop5, push", "amd64", []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0x55, 0x48, 0x89, 0xe5}, 9},
		{"nop5, sub", "amd64", []byte{0x0f, 0x1f, 0x44, 0, 0, 0x48, 0x83, 0xec, 0x18}, 0},
		{"endbr64, xor %eax, push", "amd64", []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0x53, 0xc3}, 6},
		{"mov %rdi to %rax, mov 1 to %r10d, push %r12", "amd64", []byte{0x48, 0x89, 0xf8, 0x41, 0xba, 1, 0, 0, 0, 0x41, 0x54, 0xc3}, 9},
		{"test %rdi, push", "amd64", []byte{0x48, 0x85, 0xff, 0x55, 0xc3}, 3},
		{"endbr64, xor %edi, push", "amd64", []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xff, 0x53, 0xc3}, 4},
		{"mov 1 to %r8d, push", "amd64", []byte{0x41, 0xb8, 1, 0, 0, 0, 0x53, 0xc3}, 0},
		{"mov from memory, push", "amd64", []byte{0x48, 0x8b, 0x07, 0x53, 0xc3}, 0},
		{"endbr64, jump", "amd64", []byte{0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0, 0, 0, 0}, 4},
		{"sub from %rsp, push", "amd64", []byte{0x48, 0x83, 0xec, 0x18, 0x53}, 0},
		{"bti c", "arm64", le(0xd503245f, 0xa9be7bfd), 4},
		{"bti c, paciasp", "arm64", le(0xd503245f, 0xd503233f), 4},
		{"paciasp", "arm64", le(0xd503233f, 0xa9be7bfd), 0},
		{"stp", "arm64", le(0xa9be7bfd, 0x910003fd), 0},
		{"cut", "amd64", []byte{0xf3, 0x0f, 0x1e, 0xfa}, 0},
	} {
		if got, ok := probeOffset(c.code, c.arch); got != c.want || !ok {
			t.Errorf("%s: %d, %v, want %d", c.name, got, ok, c.want)
		}
	}
}

// The kernel refuses instructions with some prefixes, in any position. A probe stays at the entry if the kernel would refuse
// the place after it.
func TestProbeOffsetRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		code []byte
		want uint64
		ok   bool
	}{
		{"lock", []byte{0xf0, 0xff, 0x07, 0xc3}, 0, false},
		{"size, lock", []byte{0x66, 0xf0, 0xff, 0x07, 0xc3}, 0, false},
		{"es", []byte{0x26, 0x90}, 0, false},
		{"cs, nop", []byte{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, 0, false},
		{"ss", []byte{0x36, 0x90}, 0, false},
		{"ds", []byte{0x3e, 0xff, 0xe0}, 0, false},
		{"fs", []byte{0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0}, 0, true},
		{"endbr64, lock", []byte{0xf3, 0x0f, 0x1e, 0xfa, 0xf0, 0xff, 0x07, 0xc3}, 0, true},
		{"empty", nil, 0, true},
	} {
		if got, ok := probeOffset(c.code, "amd64"); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v, want %d, %v", c.what, got, ok, c.want, c.ok)
		}
	}
}

// Each way to attach that this kernel has records all calls of a small program correctly, at a known cost.
func TestUprobeTrial(t *testing.T) {
	for _, m := range []*api.Model{acl.Model, cuda.Model} {
		worked := 0
		for _, k := range Try(m, true) {
			t.Logf("%s: %.0f ns a launch, %v", k.Kind, k.CostNS, k.Err)
			if errors.Is(k.Err, ErrNotPermitted) {
				testenv.Uprobes(t, k.Err)
			}
			if errors.Is(k.Err, ErrNotSupported) {
				continue
			}
			if k.Err != nil || k.CostNS < 50 {
				t.Errorf("%s: %v, %.0f ns a launch", k.Kind, k.Err, k.CostNS)
			}
			worked++
		}
		if worked == 0 {
			t.Error("no way works")
		}
	}
}

// The trial program runs on arm64, too.
func TestUprobeTrialARM64(t *testing.T) {
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("no qemu-aarch64")
	}
	p, err := newTrialProgram(acl.Model.Lookup("aclrtLaunchKernelWithHostArgs"), "arm64")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trial")
	if err := os.WriteFile(path, p.file, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(qemu, path).CombinedOutput(); err != nil {
		t.Errorf("%v %s", err, out)
	}
	if op := le32(p.file[p.probe:]); op != 0xa9bf7bfd {
		t.Errorf("the probe is on %#x", op)
	}
}

func TestFunctionTable(t *testing.T) {
	for _, c := range []struct {
		name, arch string
		place      []uint8
	}{
		{"aclrtLaunchSIMTKernelWithHostArgs", "amd64", []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"aclrtLaunchSIMTKernelWithHostArgs", "arm64", []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"aclrtMemcpy", "arm64", []uint8{0, 1, 2, 3, 4}},
	} {
		tab, err := functionTable(acl.Model, acl.Model.Lookup(c.name), c.arch)
		if err != nil {
			t.Fatal(err)
		}
		if got := tab.Place[:tab.Words]; !slices.Equal(got, c.place) {
			t.Errorf("%s on %s: %v, want %v", c.name, c.arch, got, c.place)
		}
	}
	// A structure that does not fit goes to the stack whole. Only x86-64 uses the remaining registers afterwards.
	f := &api.Func{Name: "f", Return: "void", RetVoid: true, Meaning: api.Meaning{Stream: -1}, Words: 11, Params: []api.Param{
		{Name: "a", Type: "size_t", Width: 8, Word: 0, Words: 1}, {Name: "b", Type: "size_t", Width: 8, Word: 1, Words: 1}, {Name: "c", Type: "size_t", Width: 8, Word: 2, Words: 1},
		{Name: "d", Type: "size_t", Width: 8, Word: 3, Words: 1}, {Name: "e", Type: "size_t", Width: 8, Word: 4, Words: 1},
		{Name: "g", Type: "dim3", Width: 12, Word: 5, Words: 2}, {Name: "h", Type: "uint32_t", Width: 4, Word: 7, Words: 1}, {Name: "i", Type: "dim3", Width: 12, Word: 8, Words: 2}, {Name: "j", Type: "bool", Width: 1, Word: 10, Words: 1},
	}}
	for arch, want := range map[string][]uint8{
		"amd64": {0, 1, 2, 3, 4, 6, 7, 5, 8, 9, 10},
		"arm64": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
	} {
		tab, err := functionTable(acl.Model, f, arch)
		if err != nil {
			t.Fatal(err)
		}
		if got := tab.Place[:11]; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", arch, got, want)
		}
		whole, half := ^uint64(0), ^uint64(0)>>32
		if want := []uint64{whole, whole, whole, whole, whole, whole, half, half, whole, half, 0xff}; !slices.Equal(tab.Mask[:11], want) {
			t.Errorf("masks %#x, want %#x", tab.Mask[:11], want)
		}
	}
	for i := range acl.Model.Funcs {
		f := &acl.Model.Funcs[i]
		for _, arch := range []string{"amd64", "arm64"} {
			if _, err := functionTable(acl.Model, f, arch); err != nil && f.Modelled && !errors.Is(err, ErrNotSupported) {
				t.Errorf("%s: %v", arch, err)
			}
		}
	}
}
