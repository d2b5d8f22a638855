/*
 * says: aclrtBinaryLoad loads the binary that aclrtCreateBinary describes. The program may then destroy the description.
 * source: API, aclrtBinaryLoad, aclrtDestroyBinary
 */
#include "../conformance.h"

RULE(wrapped_binary)
{
	FILE *f = fopen(getenv("CONFORMANCE_BINARY"), "rb");
	char *data = malloc(1 << 20);
	size_t n = fread(data, 1, 1 << 20, f);
	aclrtBinary description = aclrtCreateBinary(data, n);
	aclrtBinHandle b;
	aclrtFuncHandle k;

	CHECK(description);
	OK(aclrtBinaryLoad(description, &b));
	OK(aclrtDestroyBinary(description));
	OK(aclrtBinaryGetFunction(b, "store", &k));
}
