/* Finds the runtime as Python extensions do: by dlopen with RTLD_LOCAL and dlsym, from another directory than at start. */
#include <dlfcn.h>
#include <unistd.h>

#include "test.h"

int main(int argc, char **argv)
{
	void *h = dlopen(argc > 1 ? argv[1] : "libascendcl.so", RTLD_NOW | RTLD_LOCAL);
	aclError (*init)(const char *), (*set)(int32_t);
	const char *(*soc)(void);
	const int *simulated;

	if (!h)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(h);
	CHECK(!chdir("/"));
	simulated = dlsym(h, "aclsim_simulated");
	CHECK(simulated && *simulated == 1);
	*(void **)&init = dlsym(h, "aclInit");
	*(void **)&set = dlsym(h, "aclrtSetDevice");
	*(void **)&soc = dlsym(h, "aclrtGetSocName");
	CHECK(!init(NULL));
	CHECK(!set(0));
	CHECK(!strcmp(soc(), "Ascend910B1"));
	return 0;
}
