/* The libraries of a toolkit that are asked for marks, as they are if no tool collects any: marks are not enabled, and ranges have no number. */
#include <stddef.h>
#include <stdint.h>

_Bool msptiActivityIsEnabled(int kind);
void mstxMarkA(const char *message, void *stream);
uint64_t mstxRangeStartA(const char *message, void *stream);
void mstxRangeEnd(uint64_t id);
void *mstxDomainCreateA(const char *name);
void mstxDomainDestroy(void *domain);
void mstxDomainMarkA(void *domain, const char *message, void *stream);
uint64_t mstxDomainRangeStartA(void *domain, const char *message, void *stream);
void mstxDomainRangeEnd(void *domain, uint64_t id);

#pragma GCC diagnostic ignored "-Wunused-parameter"
_Bool msptiActivityIsEnabled(int kind) { return 0; }
void mstxMarkA(const char *message, void *stream) {}
uint64_t mstxRangeStartA(const char *message, void *stream) { return 0; }
void mstxRangeEnd(uint64_t id) {}
void *mstxDomainCreateA(const char *name) { return NULL; }
void mstxDomainDestroy(void *domain) {}
void mstxDomainMarkA(void *domain, const char *message, void *stream) {}
uint64_t mstxDomainRangeStartA(void *domain, const char *message, void *stream) { return 0; }
void mstxDomainRangeEnd(void *domain, uint64_t id) {}
