/* Loaded after the shim, this library makes the runtime refuse the nth aclrtRecordEvent, where n is the variable REFUSE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "acl/acl.h"

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
	static int n;
	aclError (*real)(aclrtEvent, aclrtStream) = (aclError (*)(aclrtEvent, aclrtStream))dlsym(RTLD_NEXT, "aclrtRecordEvent");
	return real(++n == atoi(getenv("REFUSE")) ? NULL : event, stream);
}
