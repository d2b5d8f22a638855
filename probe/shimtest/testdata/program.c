/*
 * program WAY ROUNDS [LIBRARY …]: calls five runtime functions in each round, found in the given WAY. With LINKED it is built
 * with references; without, it finds all functions itself. PLUGIN and ASKS make a library of it: one linked to the runtime, and
 * one that opens the library named by ASKS. THREAD gives the library a thread that makes calls while the library is loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

struct runtime {
	int (*set_device)(int32_t);
	int (*malloc)(void **, size_t, int);
	int (*memcpy)(void *, size_t, const void *, size_t, int);
	int (*launch)(void *, uint32_t, void *, void *, void *, size_t, void *, size_t);
	int (*free)(void *);
};

#define DIE(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

#ifndef PLUGIN
static void work(const struct runtime *r, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		void *p = NULL;
		uint64_t args[2] = {1, (uint64_t)i};
		char data[64] = {0};
		if (r->set_device(0) || r->malloc(&p, 64, 0) || p == NULL || r->memcpy(p, 64, data, 64, 1) ||
		    r->launch(NULL, 7, NULL, NULL, args, sizeof args, NULL, 0) || r->free(p))
			DIE("a call failed");
	}
}

static void *find(void *handle, const char *name)
{
	void *f = dlsym(handle, name);
	if (f == NULL)
		DIE("%s", dlerror());
	return f;
}

static struct runtime by_dlsym(void *handle)
{
	return (struct runtime){find(handle, "aclrtSetDevice"), find(handle, "aclrtMalloc"), find(handle, "aclrtMemcpy"),
		find(handle, "aclrtLaunchKernelWithHostArgs"), find(handle, "aclrtFree")};
}

static void *open_library(const char *path, int flags)
{
	void *h = dlopen(path, flags);
	if (h == NULL)
		DIE("%s", dlerror());
	return h;
}

#endif

#ifdef LINKED
int aclrtSetDevice(int32_t);
int aclrtMalloc(void **, size_t, int);
int aclrtMemcpy(void *, size_t, const void *, size_t, int);
int aclrtLaunchKernelWithHostArgs(void *, uint32_t, void *, void *, void *, size_t, void *, size_t);
int aclrtFree(void *);

void linked(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		void *p = NULL;
		uint64_t args[2] = {1, (uint64_t)i};
		char data[64] = {0};
		if (aclrtSetDevice(0) || aclrtMalloc(&p, 64, 0) || aclrtMemcpy(p, 64, data, 64, 1) ||
		    aclrtLaunchKernelWithHostArgs(NULL, 7, NULL, NULL, args, sizeof args, NULL, 0) || aclrtFree(p))
			DIE("a call failed");
	}
}

#ifdef THREAD
static int ends;
static pthread_t thread;

static void *calls(void *unused)
{
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED))
		linked(1);
	return unused;
}

__attribute__((constructor)) static void starts(void)
{
	if (pthread_create(&thread, NULL, calls, NULL))
		DIE("no thread");
}

__attribute__((destructor)) static void stops(void)
{
	__atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}
#endif

#ifdef EARLY
__attribute__((constructor)) static void early(void) { linked(3); }
#endif
#endif

#ifdef ASKS
void linked(int rounds)
{
	struct runtime r = by_dlsym(open_library(ASKS, RTLD_NOW | RTLD_LOCAL));
	work(&r, rounds);
}
#elif !defined PLUGIN
/* Checks that pages which the loader made read-only still are. */
static int guarded(struct dl_phdr_info *o, size_t size, void *path)
{
	(void)size;
	if (strcmp(o->dlpi_name, path))
		return 0;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		if (o->dlpi_phdr[i].p_type != PT_GNU_RELRO)
			continue;
		unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE), from, to;
		unsigned long begin = (o->dlpi_addr + o->dlpi_phdr[i].p_vaddr) & -page;
		unsigned long end = (o->dlpi_addr + o->dlpi_phdr[i].p_vaddr + o->dlpi_phdr[i].p_memsz) & -page;
		char line[4096], how[5];
		FILE *maps = fopen("/proc/self/maps", "r");
		while (maps && fgets(line, sizeof line, maps)) {
			if (sscanf(line, "%lx-%lx %4s", &from, &to, how) != 3 || from >= end || to <= begin)
				continue;
			if (strcmp(how, "r--p"))
				DIE("%s can be written: %s", o->dlpi_name, line);
			begin = to;
		}
		if (maps == NULL || begin < end)
			DIE("no mapping of what was made read-only");
		fclose(maps);
		return 1;
	}
	DIE("%s has nothing that is made read-only", o->dlpi_name);
}

/*
 * While the shim rebinds a library's references it asks the kernel whether memory is mapped. At that moment the process is forked,
 * as another thread might do, and the child opens its own library.
 */
static const char *of_child;
static int rounds_of_child;

#ifdef __x86_64__
static void in_the_midst(int signal, siginfo_t *info, void *context)
{
	static int done;
	int status;
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	(void)signal;
	if (info->si_syscall != SYS_mincore) {
		long v = syscall(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]);
		r[REG_RAX] = v == -1 ? -errno : v;
		return;
	}
	r[REG_RAX] = 0;
	if (done++)
		return;
	pid_t child = fork();
	if (child == 0) {
		((void (*)(int))find(open_library(of_child, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND), "linked"))(rounds_of_child);
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		DIE("the child ends with %x", status);
}

static int of_libc(struct dl_phdr_info *o, size_t size, void *range)
{
	uint64_t *r = range, at = (uint64_t)(uintptr_t)&waitpid;
	(void)size;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		uint64_t from = o->dlpi_addr + o->dlpi_phdr[i].p_vaddr;
		if (o->dlpi_phdr[i].p_type == PT_LOAD && at - from < o->dlpi_phdr[i].p_memsz) {
			r[0] = from, r[1] = o->dlpi_phdr[i].p_memsz;
			return 1;
		}
	}
	return 0;
}
#endif

/* Stops at all system calls outside the C library. Under a seccomp filter the shim would make none. */
static void fork_in_the_midst(const char *lib, int rounds)
{
	of_child = lib;
	rounds_of_child = rounds;
#ifdef __x86_64__
	enum { DISPATCH = 59, ON = 1 };
	static char stop = 1;
	uint64_t libc[2];
	struct sigaction on = {.sa_sigaction = in_the_midst, .sa_flags = SA_SIGINFO | SA_NODEFER};
	if (!dl_iterate_phdr(of_libc, libc) || sigaction(SIGSYS, &on, NULL) || prctl(DISPATCH, ON, libc[0], libc[1], &stop))
		DIE("no dispatch of system calls");
#endif
}

int main(int argc, char **argv)
{
	const char *way = argv[1], *lib = argc > 3 ? argv[3] : NULL;
	int rounds = atoi(argv[2]);
	struct runtime r;
	if (!strcmp(way, "none")) {
		/* no runtime at all */
	} else if (!strcmp(way, "linked")) {
#ifdef LINKED
		linked(rounds);
#endif
	} else if (!strcmp(way, "default")) {
		r = by_dlsym(RTLD_DEFAULT);
		work(&r, rounds);
	} else if (!strcmp(way, "next")) {
		r = by_dlsym(RTLD_NEXT);
		work(&r, rounds);
	} else if (!strcmp(way, "program")) {
		r = by_dlsym(dlopen(NULL, RTLD_NOW));
		work(&r, rounds);
	} else if (!strcmp(way, "global") || !strcmp(way, "local")) {
		r = by_dlsym(open_library(lib, RTLD_LAZY | (way[0] == 'g' ? RTLD_GLOBAL : RTLD_LOCAL)));
		work(&r, rounds);
	} else if (!strcmp(way, "version")) {
		/* The C library has versions. */
		void *h = open_library(lib, RTLD_NOW);
#ifdef __x86_64__
		const char *version = "GLIBC_2.2.5";
#else
		const char *version = "GLIBC_2.17";
#endif
		void *f = dlvsym(h, "puts", version);
		if (f == NULL || f != dlsym(RTLD_DEFAULT, "puts") || f != dlvsym(RTLD_DEFAULT, "puts", version))
			DIE("dlvsym finds %p", f);
		if (dlvsym(h, "puts", "NONE_1.0") != NULL || dlerror() == NULL)
			DIE("dlvsym finds what is not there");
		/* The shim has these names without a version, and first in the loader's order. */
		static const char *const shims[] = {"prctl", "syscall", "_exit", "dlsym"};
		void *handles[] = {RTLD_DEFAULT, RTLD_NEXT, dlopen(NULL, RTLD_NOW)};
		for (unsigned i = 0; i < sizeof shims / sizeof *shims; i++)
			for (unsigned k = 0; k < sizeof handles / sizeof *handles; k++) {
				if (dlvsym(handles[k], shims[i], "NONE_1.0") != NULL || dlerror() == NULL)
					DIE("dlvsym finds %s in a version that is not there", shims[i]);
				if (k != 1 && dlvsym(handles[k], shims[i], version) != dlsym(handles[k], shims[i]))
					DIE("dlvsym does not find %s", shims[i]);
			}
	} else if (!strcmp(way, "copies")) {
		for (int i = 3; i < argc; i++) {
			r = by_dlsym(open_library(argv[i], RTLD_NOW | RTLD_LOCAL));
			work(&r, rounds);
		}
	} else if (!strcmp(way, "again")) {
		for (int i = 3; i < argc; i++) {
			void *h = open_library(argv[i], RTLD_NOW | RTLD_LOCAL);
			r = by_dlsym(h);
			work(&r, rounds);
			dlclose(h);
			if (dlopen(argv[i], RTLD_NOW | RTLD_NOLOAD) != NULL)
				DIE("%s is still there", argv[i]);
			/* The next copy must not get the same addresses. */
			for (int k = 0; k < 64; k++)
				mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		}
	} else if (!strcmp(way, "namespace")) {
		void *h = dlmopen(LM_ID_NEWLM, lib, RTLD_NOW);
		if (h == NULL)
			DIE("%s", dlerror());
		((void (*)(int))find(h, "linked"))(rounds);
	} else if (!strcmp(way, "plugin") || !strcmp(way, "deepbind")) {
		void *h = open_library(lib, RTLD_NOW | RTLD_LOCAL | (way[0] == 'd' ? RTLD_DEEPBIND : 0));
		((void (*)(int))find(h, "linked"))(rounds);
	} else if (!strcmp(way, "forks")) {
		fork_in_the_midst(argv[4], rounds);
		((void (*)(int))find(open_library(lib, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND), "linked"))(rounds);
	} else if (!strcmp(way, "guarded")) {
		void *h = open_library(lib, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
		void (*calls)(int) = (void (*)(int))find(h, "linked");
		if (dl_iterate_phdr(guarded, argv[3]) != 1)
			DIE("%s is not loaded", lib);
		calls(rounds);
	} else if (!strcmp(way, "contended")) {
		for (int i = 0; i < rounds; i++) {
			void *h = open_library(lib, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
			((void (*)(int))find(h, "linked"))(1);
			dlclose(h);
		}
	} else if (!strcmp(way, "hidden")) {
		/* All lookups go through the C library in another namespace. */
		void *c = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
		void *(*open)(const char *, int) = (void *(*)(const char *, int))dlsym(c, "dlopen");
		void *(*ask)(void *, const char *) = (void *(*)(void *, const char *))dlsym(c, "dlsym");
		void *h = open ? open(lib, RTLD_NOW | RTLD_DEEPBIND) : NULL;
		if (h == NULL)
			DIE("not opened");
		((void (*)(int))ask(h, "linked"))(rounds);
	} else if (!strcmp(way, "missing")) {
		/* This runtime lacks the function, though other versions have it. */
		void *h = open_library(lib, RTLD_NOW | RTLD_GLOBAL), *handles[] = {h, RTLD_DEFAULT, RTLD_NEXT, dlopen(NULL, RTLD_NOW)};
		for (int i = 0; i < 4; i++) {
			dlerror();
			void *f = dlsym(handles[i], argv[4]);
			const char *e = dlerror();
			if (f != NULL || e == NULL || strstr(e, argv[4]) == NULL)
				DIE("handle %d: %s is %p, the error is %s", i, argv[4], f, e ? e : "none");
			if (dlerror() != NULL)
				DIE("the error stays");
		}
	} else if (!strcmp(way, "unknown")) {
		int (*f)(int, double, const char *, uint64_t) = find(open_library(lib, RTLD_NOW), argv[4]);
		for (int i = 0; i < rounds; i++)
			if (f(i, i + 0.5, "x", 1ULL << 40) != i + 'x')
				DIE("the arguments were lost");
	} else if (!strcmp(way, "errors")) {
		void *h = open_library(lib, RTLD_NOW);
		r = by_dlsym(h);
		if (dlopen("/nonexistent/library.so", RTLD_NOW) != NULL)
			DIE("opened what is not there");
		void *p = NULL;
		errno = 12345;
		/* dlerror must report a failed dlopen even after the first calls of the functions. */
		if (r.malloc(&p, 64, 0) || errno != 12345)
			DIE("errno is %d", errno);
		const char *e = dlerror();
		if (e == NULL || strstr(e, "/nonexistent/library.so") == NULL)
			DIE("dlerror says %s", e ? e : "nothing");
		/* The fake runtime's free sets errno. */
		errno = 0;
		if (r.free(p) || errno != 77)
			DIE("errno is %d", errno);
		errno = 4321;
		if (dlsym(h, "aclrtMalloc") == NULL || errno != 4321)
			DIE("errno is %d", errno);
	} else {
		DIE("no way %s", way);
	}
	if (getenv("LINGER")) /* time for the recorder to look from outside */
		usleep((useconds_t)atoi(getenv("LINGER")) * 1000);
	printf("done\n");
	return 0;
}
#endif
