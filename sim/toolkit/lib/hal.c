/*
 * libascend_hal.so: the queries of the driver's library. The simulator has no driver: it answers with its own devices and cores.
 * Functions that move data or share memory are not here, so a program that links them does not start.
 */
#include "../../libascendcl/devices.h"
#include "say.h"

#include <stddef.h>

/* Error codes of the driver. */
enum { NONE = 0, INVALID_DEVICE = 2, INVALID_VALUE = 3, NOT_SUPPORT = 0xfffe };

/* Kinds of modules and facts. */
enum { SYSTEM = 0, AI_CORE = 4, VECTOR_CORE = 7 };
enum { CORES = 3, IN_USE = 6 };

/*
 * An interface without the device's clock, so that profilers take the host's time.
 */
enum { API_VERSION = 0x070900 };

int drvGetDevNum(uint32_t *n);
int drvGetDevIDs(uint32_t *devices, uint32_t n);
int drvDeviceGetPhyIdByIndex(uint32_t index, uint32_t *id);
int drvDeviceGetIndexByPhyId(uint32_t id, uint32_t *index);
int drvGetPlatformInfo(uint32_t *info);
int halGetAPIVersion(int *version);
int halGetDeviceInfo(uint32_t device, int32_t module, int32_t fact, int64_t *value);

EXPORT int drvGetDevNum(uint32_t *n)
{
	if (!n)
		return INVALID_VALUE;
	*n = number_of_devices();
	return NONE;
}

EXPORT int drvGetDevIDs(uint32_t *devices, uint32_t n)
{
	if (!devices)
		return INVALID_VALUE;
	for (uint32_t i = 0; i < n && i < number_of_devices(); i++)
		devices[i] = i;
	return NONE;
}

static int same(uint32_t index, uint32_t *id)
{
	if (!id)
		return INVALID_VALUE;
	if (index >= number_of_devices())
		return INVALID_DEVICE;
	*id = index;
	return NONE;
}

EXPORT int drvDeviceGetPhyIdByIndex(uint32_t index, uint32_t *id) { return same(index, id); }

EXPORT int drvDeviceGetIndexByPhyId(uint32_t id, uint32_t *index) { return same(id, index); }

/* 1: the program runs on the host. */
EXPORT int drvGetPlatformInfo(uint32_t *info)
{
	if (!info)
		return INVALID_VALUE;
	*info = 1;
	return NONE;
}

EXPORT int halGetAPIVersion(int *version)
{
	if (!version)
		return INVALID_VALUE;
	*version = API_VERSION;
	return NONE;
}

EXPORT int halGetDeviceInfo(uint32_t device, int32_t module, int32_t fact, int64_t *value)
{
	if (!value)
		return INVALID_VALUE;
	if (device >= number_of_devices())
		return INVALID_DEVICE;
	if (module == AI_CORE && fact == CORES)
		*value = CUBE_CORES;
	else if (module == VECTOR_CORE && fact == CORES)
		*value = VECTOR_CORES;
	else if (module == SYSTEM && fact == IN_USE)
		*value = 0;
	else {
		SAY_ONCE("halGetDeviceInfo: fact %d of module %d is not simulated; returns %d\n", fact, module, NOT_SUPPORT);
		return NOT_SUPPORT;
	}
	return NONE;
}
