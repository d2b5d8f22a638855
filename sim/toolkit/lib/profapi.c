/* libprofapi.so: takes the reports of frameworks and libraries, and drops them. */
#define _GNU_SOURCE
#include "say.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef int32_t (*command_handler)(uint32_t type, void *data, uint32_t size);

int32_t MsprofRegisterCallback(uint32_t module, command_handler handler);
int32_t MsprofReportApi(uint32_t aging, const void *api);
int32_t MsprofReportEvent(uint32_t aging, const void *event);
int32_t MsprofReportCompactInfo(uint32_t aging, const void *info, uint32_t size);
int32_t MsprofReportAdditionalInfo(uint32_t aging, const void *info, uint32_t size);
int32_t MsprofReportBatchAdditionalInfo(uint32_t aging, const void *info, uint32_t size);
int32_t MsprofRegTypeInfo(uint16_t level, uint32_t type, const char *name);
int32_t MsprofNotifySetDevice(uint32_t chip, uint32_t device, _Bool open);
uint64_t MsprofGetHashId(const char *text, size_t length);
uint64_t MsprofStr2Id(const char *text, size_t length);
uint64_t MsprofSysCycleTime(void);

/* No profiler starts, so no handler is called. */
EXPORT int32_t MsprofRegisterCallback(uint32_t module, command_handler handler)
{
	(void)module;
	(void)handler;
	return 0;
}

#define DROPPED(name, ...) \
	EXPORT int32_t name(__VA_ARGS__) { return 0; }

#pragma GCC diagnostic ignored "-Wunused-parameter"
DROPPED(MsprofReportApi, uint32_t aging, const void *api)
DROPPED(MsprofReportEvent, uint32_t aging, const void *event)
DROPPED(MsprofReportCompactInfo, uint32_t aging, const void *info, uint32_t size)
DROPPED(MsprofReportAdditionalInfo, uint32_t aging, const void *info, uint32_t size)
DROPPED(MsprofReportBatchAdditionalInfo, uint32_t aging, const void *info, uint32_t size)
DROPPED(MsprofRegTypeInfo, uint16_t level, uint32_t type, const char *name)
DROPPED(MsprofNotifySetDevice, uint32_t chip, uint32_t device, _Bool open)

/* Two polynomial hashes of 32 bits. */
EXPORT uint64_t MsprofGetHashId(const char *text, size_t length)
{
	uint32_t high = 0, low = 0;

	if (!text || !length)
		return UINT64_MAX;
	for (size_t i = 0; i < length; i++) {
		high = high * 29 + (unsigned char)text[i];
		low = low * 131 + (unsigned char)text[i];
	}
	return (uint64_t)high << 32 | low;
}

EXPORT uint64_t MsprofStr2Id(const char *text, size_t length) { return MsprofGetHashId(text, length); }

EXPORT uint64_t MsprofSysCycleTime(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
