/* A program without the runtime. With DLSYM it looks up existing and missing symbols. */
#include <stdio.h>
#ifdef DLSYM
#include <dlfcn.h>
#endif

int main(void)
{
#ifdef DLSYM
	if (dlsym(RTLD_DEFAULT, "puts") == NULL || dlsym(RTLD_DEFAULT, "aclrtMalloc") != NULL || dlerror() == NULL)
		return 1;
	void *self = dlopen(NULL, RTLD_NOW);
	if (dlsym(self, "puts") == NULL || dlsym(self, "aclrtMalloc") != NULL || dlerror() == NULL || dlclose(self) != 0)
		return 2;
#endif
	puts("done");
	return 0;
}
