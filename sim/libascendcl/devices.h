/* The simulated devices, for libraries that must not open the engine. */
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

/*
 * The number of devices that the process sees. ASCEND_RT_VISIBLE_DEVICES is a list of ids with commas, read up to the first other character or
 * invalid id (CANN 9.1, environment variables). torch_npu takes an empty list, and one that does not ascend, for no device. sim/acl.Visible is its
 * twin.
 */
static inline uint32_t number_of_visible_devices(void)
{
	const char *s = getenv("ASCEND_RT_VISIBLE_DEVICES");
	uint32_t all = number_of_devices(), n = 0;
	long last = -1;

	if (!s)
		return all;
	for (; *s >= '0' && *s <= '9'; s++) {
		char *end;
		long id = strtol(s, &end, 10);

		if (id <= last)
			return 0;
		if (id >= (long)all)
			break;
		last = id;
		n++;
		if (*(s = end) != ',')
			break;
	}
	return n;
}

#endif
