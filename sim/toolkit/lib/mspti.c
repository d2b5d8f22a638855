/*
 * libmspti.so and libms_tools_ext.so: no profiler collects marks, so they go nowhere. A recorder's own mstx functions come first. Marks are enabled
 * if there are such: frameworks ask, and make no marks otherwise.
 */
#define _GNU_SOURCE
#include "say.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

_Bool msptiActivityIsEnabled(int kind);
void mstxMarkA(const char *message, void *stream);
uint64_t mstxRangeStartA(const char *message, void *stream);
void mstxRangeEnd(uint64_t id);
void mstxGetToolId(uint64_t *id);
void *mstxDomainCreateA(const char *name);
void mstxDomainDestroy(void *domain);
void mstxDomainMarkA(void *domain, const char *message, void *stream);
uint64_t mstxDomainRangeStartA(void *domain, const char *message, void *stream);
void mstxDomainRangeEnd(void *domain, uint64_t id);
void *mstxMemHeapRegister(void *domain, const void *heap);
void mstxMemHeapUnregister(void *domain, void *heap);
void mstxMemRegionsRegister(void *domain, const void *regions);
void mstxMemRegionsUnregister(void *domain, const void *regions);

#pragma GCC diagnostic ignored "-Wunused-parameter"
/* Ranges and domains have different numbers, so that a recorder can tell them apart. */
static _Atomic uint64_t last;
static uint64_t start(const char *message, void *stream) { return ++last; }
EXPORT _Bool msptiActivityIsEnabled(int kind)
{
	void *first = dlsym(RTLD_DEFAULT, "mstxRangeStartA");
	return first != NULL && first != (void *)(uintptr_t)start;
}
EXPORT void mstxMarkA(const char *message, void *stream) {}
EXPORT uint64_t mstxRangeStartA(const char *message, void *stream) __attribute__((alias("start")));
EXPORT void mstxRangeEnd(uint64_t id) {}
EXPORT void mstxGetToolId(uint64_t *id)
{
	if (id)
		*id = 0;
}
EXPORT void *mstxDomainCreateA(const char *name) { return (void *)(uintptr_t)++last; }
EXPORT void mstxDomainDestroy(void *domain) {}
EXPORT void mstxDomainMarkA(void *domain, const char *message, void *stream) {}
EXPORT uint64_t mstxDomainRangeStartA(void *domain, const char *message, void *stream) { return ++last; }
EXPORT void mstxDomainRangeEnd(void *domain, uint64_t id) {}
EXPORT void *mstxMemHeapRegister(void *domain, const void *heap) { return NULL; }
EXPORT void mstxMemHeapUnregister(void *domain, void *heap) {}
EXPORT void mstxMemRegionsRegister(void *domain, const void *regions) {}
EXPORT void mstxMemRegionsUnregister(void *domain, const void *regions) {}
