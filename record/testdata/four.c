/* Calls four functions, each a given number of times. */
#include <stdlib.h>

#include "acl/acl.h"

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	for (int i = 0; i < n; i++)
		if (aclInit(NULL) || aclrtSetDevice(0) || aclrtSynchronizeDevice() || aclFinalize())
			return 1;
	return 0;
}
