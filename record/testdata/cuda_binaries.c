/* Loads PTX modules with the given sizes, and overwrites each module's text afterwards. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(e) do { CUresult r = (e); if (r) { printf("%s: %d\n", #e, (int)r); return 1; } } while (0)

int main(int argc, char **argv)
{
	static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n.entry nothing()\n{\n\tret;\n}\n";
	CUcontext context;
	MUST(cuInit(0));
	MUST(cuCtxCreate(&context, 0, 0));
	for (int i = 1; i < argc; i++) {
		size_t n = (size_t)atol(argv[i]);
		char *image = malloc(n + 1);
		memset(image, '\n', n);
		memcpy(image, text, sizeof text - 1);
		image[n] = 0;
		CUmodule module;
		CUlibrary library;
		CUfunction f;
		MUST(cuModuleLoadData(&module, image));
		MUST(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
		memset(image, 'x', n + 1);
		free(image);
		MUST(cuModuleGetFunction(&f, module, "nothing"));
		MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	}
	MUST(cuCtxSynchronize());
	return 0;
}
