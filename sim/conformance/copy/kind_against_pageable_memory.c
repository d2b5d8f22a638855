/*
 * says: An asynchronous copy is refused if its kind contradicts pageable memory.
 * source: Runtime, memory copies
 */
#include "../conformance.h"

RULE(kind_against_pageable_memory)
{
	char h[64] = "";

	INVALID(aclrtMemcpyAsync(device(64), 64, h, 64, ACL_MEMCPY_DEVICE_TO_HOST, new_stream()));
}
