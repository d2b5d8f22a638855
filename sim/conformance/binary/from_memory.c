/*
 * says: A load copies the binary. The program may then free its memory.
 * source: API, aclrtBinaryLoadFromData
 */
#include "../conformance.h"

RULE(from_memory)
{
	struct store_args a = {device(8), 3};
	FILE *f = fopen(getenv("CONFORMANCE_BINARY"), "rb");
	char *data = malloc(1 << 20);
	size_t n = fread(data, 1, 1 << 20, f);
	aclrtBinHandle b;
	aclrtFuncHandle k;
	aclrtStream s = new_stream();
	void *where, *back;
	size_t size;

	OK(aclrtBinaryLoadFromData(data, n, NULL, &b));
	memset(data, 0, n);
	OK(aclrtBinaryGetFunction(b, "store", &k));
	OK(aclrtLaunchKernelWithHostArgs(k, 1, s, NULL, &a, sizeof a, NULL, 0));
	finish(s);
	CHECK(word(a.to) == 3);
	OK(aclrtBinaryGetDevAddress(b, &where, &size));
	CHECK(size == n);
	back = malloc(n);
	OK(aclrtMemcpy(back, n, where, n, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(!memcmp(back, "\177ELF", 4));
}
