/*
 * A program that uses operators, and stand-ins for the libraries that it needs, with the layers of the toolkit: the operators call libnnopbase, which
 * calls the runtime. Each boundary that the recorder should see is written to the file in FAKE_TRUTH, in order.
 *
 *   operators linked|dlopen|deepbind|namespace|again|gate OPERATORS [OPERATORS]
 *
 * gate: the program makes calls that are not in the truth until the file in FAKE_GATE exists.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

struct aclOpExecutor {
	const char *name;
};
void InitL2Phase1Context(const char *name, aclOpExecutor **executor);
void InitL2Phase2Context(const char *name, aclOpExecutor *executor);
void InitL0Context(const char *name, aclOpExecutor *executor);
int CommonOpExecutorRun(void *workspace, uint64_t size, aclOpExecutor *executor, void *stream);
extern "C" void *NnopbaseGetExecutor(void *space, const char *type, char *inputs, uint32_t n_in, char *outputs, uint32_t n_out, char *attributes, uint32_t n_at);
extern "C" int NnopbaseRunForWorkspace(void *executor, uint64_t *size);
extern "C" int NnopbaseRunWithWorkspace(void *executor, void *stream, void *workspace, uint64_t size);
extern "C" int aclrtLaunchKernelWithHostArgs(void *f, uint32_t blocks, void *stream, void *cfg, void *args, size_t size, void *places, size_t n);
extern "C" int aclrtSetDevice(int32_t device);
namespace op {
class OpDfxGuard {
public:
	OpDfxGuard();
	~OpDfxGuard();
	uint64_t words[8];
};
}

/* Part of a phase's arguments: what it does. */
enum { PLAIN, THROWS, INNER, REFUSED, LEAVES };

#define AT_GATE ((void *)0x77) /* as an executor */

static inline void truth(const char *format, ...)
{
	const char *file = getenv("FAKE_TRUTH");
	char line[1024];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args), fd = file ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
	va_end(args);
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		abort();
	close(fd);
}

#if defined(RUNTIME)
int aclrtLaunchKernelWithHostArgs(void *, uint32_t, void *, void *, void *args, size_t size, void *, size_t n)
{
	truth("aclrtLaunchKernelWithHostArgs\n");
	return args == NULL || size != 8 || n != 0;
}
int aclrtSetDevice(int32_t) { return 0; }
#elif defined(BASE)
static int launch(void *stream)
{
	uint64_t args = 1;
	op::OpDfxGuard own; /* the library's own: no end of a phase */
	return aclrtLaunchKernelWithHostArgs(NULL, 1, stream, NULL, &args, sizeof args, NULL, 0);
}
#ifndef OLD
op::OpDfxGuard::OpDfxGuard() {}
__attribute__((noinline)) op::OpDfxGuard::~OpDfxGuard() { __asm__ volatile("" ::: "memory"); }
void InitL2Phase1Context(const char *name, aclOpExecutor **) { truth("InitL2Phase1Context %s\n", name); }
void InitL2Phase2Context(const char *name, aclOpExecutor *e) { truth("InitL2Phase2Context %s %p\n", name, (void *)e); }
void InitL0Context(const char *name, aclOpExecutor *e) { truth("InitL0Context %.512s %p\n", name ? name : "", (void *)e); }
int CommonOpExecutorRun(void *workspace, uint64_t size, aclOpExecutor *e, void *stream)
{
	truth("CommonOpExecutorRun %p\n", (void *)e);
	if (workspace != (void *)0x1000 || size != 16)
		return 5;
	int error = launch(stream);
	delete e;
	return error;
}
void *NnopbaseGetExecutor(void *space, const char *type, char *inputs, uint32_t n_in, char *outputs, uint32_t n_out, char *attributes, uint32_t n_at)
{
	truth("NnopbaseGetExecutor %s\n", type);
	if (space != (void *)1 || strcmp(inputs, "i") || n_in != 2 || strcmp(outputs, "o") || n_out != 3 || strcmp(attributes, "a") || n_at != 4)
		return NULL; /* the last two are on the stack */
	return new aclOpExecutor{type};
}
int NnopbaseRunForWorkspace(void *executor, uint64_t *size)
{
	truth("NnopbaseRunForWorkspace %p\n", executor);
	*size = 16;
	return 0;
}
int NnopbaseRunWithWorkspace(void *executor, void *stream, void *, uint64_t)
{
	if (executor == AT_GATE)
		return 0;
	truth("NnopbaseRunWithWorkspace %p\n", executor);
	int error = launch(stream);
	delete (aclOpExecutor *)executor;
	return error;
}
#else
op::OpDfxGuard::OpDfxGuard() {}
static __attribute__((noinline)) void ends(op::OpDfxGuard *) {}
op::OpDfxGuard::~OpDfxGuard() { ends(this); }
extern "C" int old_run(void *stream) { return launch(stream); }
#endif
#elif defined(OPERATORS)
#ifdef OLD
extern "C" int old_run(void *stream);
extern "C" int phase_one(int, uint64_t *, aclOpExecutor **e)
{
	*e = NULL;
	return 0;
}
extern "C" int phase_two(aclOpExecutor *, void *stream) { return old_run(stream); }
extern "C" int generated(void *stream) { return old_run(stream); }
#else
/* The destructor runs after the body, also if it throws. */
struct Phase {
	aclOpExecutor **e;
	op::OpDfxGuard guard;
	explicit Phase(aclOpExecutor **of) : e(of) {}
	~Phase() { truth("OpDfxGuardEnd %p\n", e ? (void *)*e : NULL); }
};
static __attribute__((noinline)) void inner(aclOpExecutor *e)
{
	Phase p(NULL);
	InitL0Context(NAME "AiCore", e);
}
/* A phase that is left without an end. */
static __attribute__((noinline)) void leaves(jmp_buf &at)
{
	aclOpExecutor *e = (aclOpExecutor *)0x77;
	InitL2Phase1Context("aclnnLeft" NAME, &e);
	longjmp(at, 1);
}
static __attribute__((noinline)) int one(const char *name, int does, uint64_t *size, aclOpExecutor **e)
{
	Phase p(e);
	InitL2Phase1Context(name, e);
	if (does == REFUSED)
		return 161002;
	*e = new aclOpExecutor{name};
	inner(*e);
	if (does == THROWS)
		throw std::runtime_error("refused");
	jmp_buf at;
	if (does == LEAVES && setjmp(at) == 0)
		leaves(at);
	if (does == INNER) {
		aclOpExecutor *another = NULL;
		if (one("aclnnInner" NAME, PLAIN, size, &another))
			return 1;
		delete another;
	}
	*size = 16;
	return 0;
}
/* Names of every length that end where memory ends, none, and one that is cut. */
static void names()
{
	char *page = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || munmap(page + 4096, 4096))
		abort();
	memset(page, 'n', 4095);
	for (int n = 0; n <= 26; n++) {
		Phase p(NULL);
		InitL0Context(n < 25 ? page + 4095 - n : n < 26 ? page + 4095 - 600 : NULL, NULL);
	}
}
extern "C" int phase_one(int does, uint64_t *size, aclOpExecutor **e) { return one("aclnn" NAME, does, size, e); }
extern "C" int phase_two(aclOpExecutor *e, void *stream)
{
	Phase p(NULL);
	InitL2Phase2Context("aclnn" NAME, e);
	return CommonOpExecutorRun((void *)0x1000, 16, e, stream);
}
extern "C" int generated(void *stream)
{
	names();
	char i[] = "i", o[] = "o", a[] = "a";
	uint64_t size = 0;
	void *e = NnopbaseGetExecutor((void *)1, NAME "Generated", i, 2, o, 3, a, 4);
	return e == NULL || NnopbaseRunForWorkspace(e, &size) || size != 16 || NnopbaseRunWithWorkspace(e, stream, NULL, 0);
}
#endif
#else
typedef int phase_one_fn(int, uint64_t *, aclOpExecutor **);
typedef int phase_two_fn(aclOpExecutor *, void *);
typedef int generated_fn(void *);
extern "C" phase_one_fn phase_one __attribute__((weak));
extern "C" phase_two_fn phase_two __attribute__((weak));
extern "C" generated_fn generated __attribute__((weak));

#define CHECK(what)                                          \
	do                                                   \
		if (!(what)) {                               \
			fprintf(stderr, "not: %s\n", #what); \
			exit(3);                             \
		}                                            \
	while (0)

static bool catches = true; /* exceptions of the library: another namespace has other types */

static void use(phase_one_fn *one, phase_two_fn *two, generated_fn *made)
{
	aclOpExecutor *e = NULL, **heap = new aclOpExecutor *(NULL);
	uint64_t size = 0;
	void *stream = (void *)64;

	CHECK(one(PLAIN, &size, &e) == 0 && two(e, stream) == 0);
	CHECK(one(INNER, &size, heap) == 0); /* the executor is not on the stack */
	aclOpExecutor *other = *heap;
	std::thread([=] { CHECK(two(other, stream) == 0); }).join();
	CHECK((e = NULL, one(REFUSED, &size, &e)) == 0 || e == NULL);
	CHECK(one(PLAIN, &size, &e) == 0); /* without phase two */
	CHECK(one(LEAVES, &size, &e) == 0);
	bool thrown = !catches || getenv("OLD") != NULL;
	try {
		one(catches ? THROWS : PLAIN, &size, &e);
	} catch (const std::runtime_error &x) {
		thrown = !strcmp(x.what(), "refused");
	}
	CHECK(thrown);
	CHECK(made(stream) == 0);
}

static void use(void *library)
{
	CHECK(library != NULL);
	use((phase_one_fn *)dlsym(library, "phase_one"), (phase_two_fn *)dlsym(library, "phase_two"), (generated_fn *)dlsym(library, "generated"));
}

int main(int argc, char **argv)
{
	const char *way = argv[1];

	CHECK(argc > 2 && aclrtSetDevice(0) == 0);
	if (!strcmp(way, "linked"))
		use(phase_one, phase_two, generated);
	else if (!strcmp(way, "dlopen"))
		use(dlopen(argv[2], RTLD_NOW | RTLD_LOCAL));
	else if (!strcmp(way, "deepbind"))
		use(dlopen(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
	else if (!strcmp(way, "namespace") && !(catches = false))
		use(dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW));
	else if (!strcmp(way, "gate")) {
		void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
		CHECK(library != NULL);
		auto run = (decltype(&NnopbaseRunWithWorkspace))dlsym(library, "NnopbaseRunWithWorkspace");
		for (int i = 0; access(getenv("FAKE_GATE"), F_OK); i++, usleep(10000))
			CHECK(i < 12000 && run(AT_GATE, NULL, NULL, 0) == 0);
		use(library);
	} else if (!strcmp(way, "again"))
		for (int i = 2; i < argc; i++) {
			void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
			use(library);
			dlclose(library);
			CHECK(dlopen(argv[i], RTLD_NOW | RTLD_NOLOAD) == NULL);
			if (i % 2 == 0) /* sometimes the next library gets other addresses */
				mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		}
	puts("done");
	return 0;
}
#endif
