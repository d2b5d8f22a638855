/* later PATH: opens the runtime at a path, and calls it, each after a byte on standard input. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int (*init)(const char *) = NULL, (*finalize)(void) = NULL;
	if (argc < 2)
		return 2;
	puts("ready");
	fflush(stdout);
	getchar();
	void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&init = dlsym(lib, "aclInit");
	*(void **)&finalize = dlsym(lib, "aclFinalize");
	puts("opened");
	fflush(stdout);
	getchar();
	return init(NULL) != 0 || finalize() != 0;
}
