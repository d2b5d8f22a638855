/*
 * says: Host memory that is registered as pinned alone may begin at any address.
 * source: a test of torch_npu, which ran on devices
 */
#include "../conformance.h"

RULE(pinned_anywhere)
{
	char *p = malloc(4096);

	OK(aclrtHostRegisterV2(p + 64, 80, ACL_HOST_REG_PINNED));
	OK(aclrtHostUnregister(p + 64));
}
