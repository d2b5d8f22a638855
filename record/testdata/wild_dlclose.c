/* wild_dlclose LIBRARY: loads the runtime, unloads it, and loads it again at another address. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	if (argc != 2)
		return 97;
	for (int round = 0; round < 3; round++) {
		void *h = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		if (h == NULL) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		int (*set)(int32_t) = (int (*)(int32_t))dlsym(h, "aclrtSetDevice");
		int (*get)(int32_t *) = (int (*)(int32_t *))dlsym(h, "aclrtGetDevice");
		int32_t id = -1;
		if (set == NULL || get == NULL || set(round) != 0 || get(&id) != 0 || id != round)
			return 2;
		if (dlclose(h) != 0 || dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL)
			return 3;
		/* Map the old range, so that the library moves and old pointers lead to no function. */
		for (int i = 0; i < 64; i++)
			(void)mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	return 0;
}
