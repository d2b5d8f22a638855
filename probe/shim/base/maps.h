#ifndef ACLTRACE_SHIM_MAPS_H
#define ACLTRACE_SHIM_MAPS_H

#include <stdbool.h>
#include <stdint.h>

struct mapping {
	uint64_t start, end;
	bool deleted; /* its file was removed */
};

/* Finds the mapping that has an address in /proc/self/maps. Its end is 0 if there is none. */
struct mapping find_mapping(uint64_t addr);

#endif
