/*
 * Counts a program's CUDA driver calls with NVIDIA's CUPTI, for comparison with acltrace's count. If CUDA_INJECTION64_PATH names
 * this library, the driver loads it in cuInit. At exit it writes a line "NAME CALLS" for each function to the file
 * ACLTRACE_CUPTI_OUT. CUPTI is declared here by its documented names and values, so the build needs no toolkit.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { DRIVER_API = 1, ENTER = 0, MOST = 4096 };

struct callback_data {
	int site;
	const char *function;
	/* further members are not read */
};

static struct { _Atomic uint64_t calls; const char *_Atomic name; } functions[MOST];

static void called(void *user, int domain, uint32_t id, const struct callback_data *data)
{
	(void)user;
	if (domain != DRIVER_API || data->site != ENTER || id >= MOST)
		return;
	functions[id].name = data->function;
	functions[id].calls++;
}

static void report(void)
{
	const char *path = getenv("ACLTRACE_CUPTI_OUT");
	FILE *f = path ? fopen(path, "w") : NULL;
	if (f == NULL)
		return;
	for (unsigned i = 0; i < MOST; i++)
		if (functions[i].calls)
			fprintf(f, "%s %llu\n", functions[i].name, (unsigned long long)functions[i].calls);
	fclose(f);
}

int InitializeInjection(void);
int InitializeInjection(void)
{
	const char *names[] = {getenv("ACLTRACE_CUPTI"), "libcupti.so.13", "libcupti.so.12", "libcupti.so"};
	void *cupti = NULL, *subscriber = NULL;
	for (unsigned i = 0; i < sizeof names / sizeof *names && cupti == NULL; i++)
		if (names[i] && *names[i])
			cupti = dlopen(names[i], RTLD_NOW);
	if (cupti == NULL) {
		fprintf(stderr, "cupti_count: %s\n", dlerror());
		return 1;
	}
	int (*subscribe)(void **, void (*)(void *, int, uint32_t, const struct callback_data *), void *) = dlsym(cupti, "cuptiSubscribe");
	int (*enable)(uint32_t, void *, int) = dlsym(cupti, "cuptiEnableDomain");
	int error = subscribe && enable ? subscribe(&subscriber, called, NULL) : -1;
	if (error == 0)
		error = enable(1, subscriber, DRIVER_API);
	if (error == 0)
		atexit(report);
	else
		fprintf(stderr, "cupti_count: CUPTI does not take it, its error is %d\n", error);
	return 1;
}
