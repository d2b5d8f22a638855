/* Loaded behind the shim, this has the runtime refuse the nth record of an event, counted from the variable REFUSE. */
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
