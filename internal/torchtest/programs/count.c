/*
 * Counts launches and memory calls without acltrace. Preloaded into a program that is not recorded, it writes the counts to the file that
 * COUNT_FILE names, when the process ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The runtime may be loaded by dlopen, where RTLD_NEXT does not search. */
static void *runtime(void) { return dlopen("libascendcl.so", RTLD_LAZY | RTLD_NOLOAD); }

#define COUNTED(name, parameters, arguments)                             \
	static unsigned long n_##name;                                       \
	int name parameters                                                  \
	{                                                                    \
		static int(*next) parameters;                                    \
		if (!next) next = (int(*) parameters)dlsym(runtime(), #name);    \
		__atomic_fetch_add(&n_##name, 1, __ATOMIC_RELAXED);              \
		return next arguments;                                           \
	}

COUNTED(aclrtLaunchKernelWithHostArgs, (void *f, uint32_t blocks, void *stream, void *config, void *args, size_t size, void *places, size_t n),
        (f, blocks, stream, config, args, size, places, n))
COUNTED(aclrtMemcpy, (void *to, size_t limit, const void *from, size_t n, int kind), (to, limit, from, n, kind))
COUNTED(aclrtMemcpyAsync, (void *to, size_t limit, const void *from, size_t n, int kind, void *stream), (to, limit, from, n, kind, stream))
COUNTED(aclrtSynchronizeStream, (void *stream), (stream))

__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("COUNT_FILE");
	FILE *f = path ? fopen(path, "w") : NULL;
	if (!f) return;
	fprintf(f, "aclrtLaunchKernelWithHostArgs %lu\naclrtMemcpy %lu\naclrtMemcpyAsync %lu\naclrtSynchronizeStream %lu\n", n_aclrtLaunchKernelWithHostArgs,
	        n_aclrtMemcpy, n_aclrtMemcpyAsync, n_aclrtSynchronizeStream);
	fclose(f);
}
