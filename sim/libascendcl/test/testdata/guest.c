/* The program's own signals, stacks and descriptors beside the engine: guest WHAT KERNELS.o */
#define _GNU_SOURCE
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* sigset */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

static atomic_int handled, on_stack, result;
static aclError (*get_device)(int32_t *);

static void on_signal(int sig)
{
	stack_t s;

	(void)sig;
	sigaltstack(NULL, &s);
	atomic_store(&on_stack, !!(s.ss_flags & SS_ONSTACK));
	atomic_fetch_add(&handled, 1);
}

/* A handler may have interrupted malloc, so its functions must not allocate. */
static __thread int in_handler;
extern void *__libc_malloc(size_t n), *__libc_calloc(size_t n, size_t size);

void *malloc(size_t n)
{
	CHECK(!in_handler);
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	CHECK(!in_handler);
	return __libc_calloc(n, size);
}

static void calling(int sig)
{
	int32_t device;

	in_handler = 1;
	atomic_store(&result, get_device(&device));
	in_handler = 0;
	on_signal(sig);
}

static void expect_on_stack(int sig)
{
	atomic_store(&handled, 0);
	CHECK(!raise(sig));
	CHECK(atomic_load(&handled) == 1);
	CHECK(atomic_load(&on_stack));
}

static void *first_call(void *init)
{
	((void (*)(void))init)();
	for (int sig = SIGRTMIN; sig < SIGRTMIN + 3; sig++)
		expect_on_stack(sig);
	return NULL;
}

static void init(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
}

static void set_device(void) { OK(aclrtSetDevice(0)); }

/* Handlers that are set without SA_ONSTACK, before and after the engine was opened, by each function. */
static void handlers(void)
{
	struct sigaction a = {.sa_handler = on_signal};
	pthread_t t;

	CHECK(!sigaction(SIGRTMIN, &a, NULL) && !sigaction(SIGRTMIN + 1, &a, NULL) && !sigaction(SIGRTMIN + 2, &a, NULL));
	first_call((void *)init);
	CHECK(!sigaction(SIGUSR1, &a, NULL));
	expect_on_stack(SIGUSR1);
	CHECK(signal(SIGUSR2, on_signal) == SIG_DFL);
	expect_on_stack(SIGUSR2);
	CHECK(signal(SIGUSR2, SIG_IGN) == on_signal);
	CHECK(sysv_signal(SIGALRM, on_signal) == SIG_DFL);
	expect_on_stack(SIGALRM);
	CHECK(signal(SIGALRM, SIG_DFL) == SIG_DFL);
	CHECK(sigset(SIGVTALRM, on_signal) == SIG_DFL);
	expect_on_stack(SIGVTALRM);
	CHECK(!pthread_create(&t, NULL, first_call, (void *)set_device));
	pthread_join(t, NULL);
}

/* Fails if a thread that the program has not made can get a timer's signal. */
static void masks(void)
{
	struct dirent *e;
	DIR *d;
	int n = 0;

	init();
	d = opendir("/proc/self/task");
	CHECK(d);
	while ((e = readdir(d))) {
		char path[300], line[300];
		unsigned long long blocked = 0;
		FILE *f;

		if (e->d_name[0] == '.' || atoi(e->d_name) == getpid())
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
		f = fopen(path, "r");
		CHECK(f);
		while (fgets(line, sizeof line, f))
			if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
				break;
		fclose(f);
		CHECK(blocked >> (SIGALRM - 1) & 1);
		CHECK(blocked >> (SIGTERM - 1) & 1);
		CHECK(blocked >> SIGRTMIN & 1);
		n++;
	}
	closedir(d);
	CHECK(n > 1);
}

/* A thread's mask is the same before and after its first call. */
static void *mask_of(void *first)
{
	sigset_t set, now;

	sigemptyset(&set);
	sigaddset(&set, SIGPROF);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	((void (*)(void))first)();
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	for (int sig = 1; sig < SIGRTMIN; sig++)
		CHECK(sigismember(&now, sig) == sigismember(&set, sig));
	return NULL;
}

static void blocked(void)
{
	pthread_t t;

	mask_of((void *)init);
	CHECK(!pthread_create(&t, NULL, mask_of, (void *)set_device));
	pthread_join(t, NULL);
}

static aclrtFuncHandle kernel(const char *file, const char *name)
{
	aclrtBinHandle bin;
	aclrtFuncHandle f;

	OK(aclrtBinaryLoadFromFile(file, NULL, &bin));
	OK(aclrtBinaryGetFunction(bin, name, &f));
	return f;
}

static pthread_t main_thread;
static atomic_int waits;

static void *interrupt(void *unused)
{
	struct timespec ms = {0, 1000000};

	(void)unused;
	while (!atomic_load(&waits))
		nanosleep(&ms, NULL);
	nanosleep(&ms, NULL);
	CHECK(!pthread_kill(main_thread, SIGUSR1));
	return NULL;
}

static void in_callback(void *unused)
{
	int32_t device;

	(void)unused;
	OK(aclrtGetDevice(&device));
	atomic_store(&result, -1);
	raise(SIGUSR1); /* on another stack than that of the engine's callback */
	OK(aclrtGetDevice(&device));
}

static void first(int sig)
{
	int32_t device;

	(void)sig;
	atomic_store(&result, aclrtGetDevice(&device));
}

/* A thread whose first call is made by a handler: when that returns, the thread has no signal stack. */
static void *first_in_handler(void *unused)
{
	int32_t device;

	raise(SIGUSR2);
	CHECK(atomic_load(&result) == ACL_ERROR_RT_CONTEXT_NULL);
	aclrtGetDevice(&device);
	expect_on_stack(SIGRTMIN);
	return unused;
}

/* Calls made by handlers and kernels. */
static void calls(const char *binary)
{
	struct sigaction a = {.sa_handler = calling};
	uint32_t ms = 300;
	uint64_t *seen, got = 0;
	pthread_t t;
	aclrtStream s;

	get_device = aclrtGetDevice;
	init();
	CHECK(!sigaction(SIGUSR1, &a, NULL));
	main_thread = pthread_self();
	OK(aclrtCreateStream(&s));

	CHECK(signal(SIGUSR2, first) == SIG_DFL && signal(SIGRTMIN, on_signal) == SIG_DFL);
	CHECK(!pthread_create(&t, NULL, first_in_handler, NULL));
	pthread_join(t, NULL);

	/* outside the engine: made */
	for (int i = 0; i < 100; i++) {
		atomic_store(&result, -1);
		raise(SIGUSR1);
		CHECK(atomic_load(&result) == 0);
	}
	/* the first call of a thread that waits in the engine */
	OK(aclrtLaunchKernelWithHostArgs(kernel(binary, "test_sleep"), 1, s, NULL, &ms, sizeof ms, NULL, 0));
	atomic_store(&result, -1);
	atomic_store(&handled, 0);
	CHECK(!pthread_create(&t, NULL, interrupt, NULL));
	atomic_store(&waits, 1);
	OK(aclrtSynchronizeStream(s));
	pthread_join(t, NULL);
	CHECK(atomic_load(&handled) == 1 && atomic_load(&result) == ACL_ERROR_RT_DRV_INTERNAL_ERROR);

	/* in a callback that the engine has called */
	OK(aclrtSubscribeReport((uint64_t)pthread_self(), s));
	OK(aclrtLaunchCallback(in_callback, NULL, ACL_CALLBACK_BLOCK, s));
	OK(aclrtProcessReport(5000));
	CHECK(atomic_load(&result) == ACL_ERROR_RT_DRV_INTERNAL_ERROR);
	OK(aclrtUnSubscribeReport((uint64_t)pthread_self(), s));

	/* by a kernel */
	OK(aclrtMalloc((void **)&seen, 64, 0));
	OK(aclrtLaunchKernelWithHostArgs(kernel(binary, "test_call"), 1, s, NULL, &seen, sizeof seen, NULL, 0));
	OK(aclrtSynchronizeStream(s));
	OK(aclrtMemcpy(&got, sizeof got, seen, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK((aclError)got == ACL_ERROR_RT_DRV_INTERNAL_ERROR);

	/* outside again: made */
	raise(SIGUSR1);
	CHECK(atomic_load(&result) == 0);
	OK(aclrtDestroyStream(s));
	OK(aclFinalize());
}

/* Puts work with the model's duration on a stream. */
static void put(aclrtStream s, aclrtFuncHandle sleeps)
{
	uint32_t ms = 0;

	for (int i = 0; i < 20; i++)
		OK(aclrtLaunchKernelWithHostArgs(sleeps, 1, s, NULL, &ms, sizeof ms, NULL, 0));
}

/* A program that closes all descriptors and uses their numbers for its own. */
static void descriptors(const char *binary, const char *how)
{
	aclrtStream s, t;
	aclrtDrvMemHandle h;
	aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE, .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED, .memAttr = ACL_HBM_MEM_HUGE,
				     .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	void *at;
	aclrtFuncHandle sleeps;
	int own[40];

	init();
	sleeps = kernel(binary, "test_sleep");
	OK(aclrtCreateStream(&s));
	put(s, sleeps);
	OK(aclrtMallocPhysical(&h, 2 << 20, &prop, 0));
	if (!strcmp(how, "close"))
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	else if (!strcmp(how, "close_range"))
		CHECK(!close_range(3, ~0U, 0));
	else
		closefrom(3);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		own[i] = memfd_create("own", 0);
		CHECK(own[i] >= 3);
	}
	for (int fd = 3; fd < 64; fd++) /* the engine's fail with EBUSY */
		(void)dup2(own[0], fd);
	OK(aclrtCreateStream(&t));
	put(t, sleeps);
	OK(aclrtSynchronizeStreamWithTimeout(s, 10000));
	OK(aclrtSynchronizeStreamWithTimeout(t, 10000));
	OK(aclrtReserveMemAddress(&at, 2 << 20, 0, NULL, 0));
	OK(aclrtMapMem(at, 2 << 20, 0, h, 0));
	OK(aclrtMemset(at, 2 << 20, 1, 2 << 20));
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		struct stat st;

		CHECK(!fstat(own[i], &st));
		CHECK(st.st_size == 0);
	}
	OK(aclFinalize());
}

/* Ends the use of a signal stack that the thread had before its first call, as Python's fault handler does, and gets a signal of Go's. */
static void stack(void)
{
	static char own[64 << 10];
	stack_t s = {.ss_sp = own, .ss_size = sizeof own}, before;
	int32_t device;

	CHECK(!sigaltstack(&s, &before));
	CHECK(before.ss_flags & SS_DISABLE);
	CHECK(!aclInit(NULL));
	CHECK(!aclrtSetDevice(0));
	for (int i = 0; i < 1000; i++)
		CHECK(!aclrtGetDevice(&device));
	CHECK(!sigaltstack(&before, NULL));
	CHECK(!raise(SIGURG));
	CHECK(!aclrtGetDevice(&device));
	CHECK(!sigaltstack(NULL, &before) && !(before.ss_flags & SS_DISABLE) && before.ss_sp != own);
	CHECK(!aclFinalize());
}

/* Overwrites the environment that the process started with, as functions do that change the title of a process. Want ACLSIM_DEVICES=2. */
static void title(void)
{
	static char *copies[1024];
	size_t n = 0;
	uint32_t count;

	for (; environ[n] && n + 1 < sizeof copies / sizeof *copies; n++)
		CHECK((copies[n] = strdup(environ[n])));
	for (size_t i = 0; i < n; i++)
		memset(environ[i], 0, strlen(environ[i]));
	environ = copies;
	CHECK(!aclInit(NULL));
	CHECK(!aclrtSetDevice(1));
	CHECK(!aclrtGetDeviceCount(&count) && count == 2);
	CHECK(!aclFinalize());
}

int main(int argc, char **argv)
{
	CHECK(argc >= 3);
	if (!strcmp(argv[1], "handlers"))
		handlers();
	else if (!strcmp(argv[1], "masks"))
		masks();
	else if (!strcmp(argv[1], "blocked"))
		blocked();
	else if (!strcmp(argv[1], "title"))
		title();
	else if (!strcmp(argv[1], "stack"))
		stack();
	else if (!strcmp(argv[1], "calls"))
		calls(argv[2]);
	else
		descriptors(argv[2], argv[1]);
	return 0;
}
