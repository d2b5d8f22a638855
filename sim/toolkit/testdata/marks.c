/* marks LIBRARY: whether marks are enabled, and the numbers of two ranges. With -DRECORDER the program has functions of its own, as a recorder has. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#ifdef RECORDER
uint64_t mstxRangeStartA(const char *message, void *stream);
uint64_t mstxRangeStartA(const char *message, void *stream)
{
	(void)message, (void)stream;
	return 0;
}
#endif

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (library == NULL)
		return 1;
	_Bool (*enabled)(int);
	uint64_t (*start)(const char *, void *);
	*(void **)&enabled = dlsym(library, "msptiActivityIsEnabled");
	*(void **)&start = dlsym(library, "mstxRangeStartA");
	uint64_t a = start("a", NULL), b = start("b", NULL);
	printf("%d %d\n", enabled(1), a != 0 && b != 0 && a != b);
	return 0;
}
