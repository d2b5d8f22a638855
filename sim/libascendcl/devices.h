/* The number of simulated devices, for libraries that must not open the engine. */
#ifndef ACLSIM_DEVICES_H
#define ACLSIM_DEVICES_H

#include <stdint.h>
#include <stdlib.h>

/* The largest number of devices, as in sim/device. */
enum { MAX_DEVICES = 16 };

static inline uint32_t number_of_devices(void)
{
	const char *s = getenv("ACLSIM_DEVICES");
	char *end;
	long n = s && *s ? strtol(s, &end, 10) : 1;

	return s && *s && (*end || n < 1 || n > MAX_DEVICES) ? 1 : (uint32_t)n;
}

#endif
