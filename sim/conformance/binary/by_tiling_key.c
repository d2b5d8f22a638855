/*
 * says: aclrtBinaryGetFunctionByEntry finds the kernel of a tiling key.
 * source: API, aclrtBinaryGetFunctionByEntry
 */
#include "../conformance.h"

RULE(by_tiling_key)
{
	aclrtStream s = new_stream();
	aclrtFuncHandle f;
	void *p = device(8);

	for (uint64_t key = 7; key <= 9; key += 2) {
		OK(aclrtBinaryGetFunctionByEntry(binary(), key, &f));
		OK(aclrtLaunchKernelWithHostArgs(f, 1, s, NULL, &p, sizeof p, NULL, 0));
		finish(s);
		CHECK(word(p) == key);
	}
}
