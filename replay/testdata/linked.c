// Links two texts, each larger than the record of a call, and loads the result: a kernel, and variables with
// initial values, one of them another one's address. The first text is also loaded alone. Compiled with -DKERNEL it is the kernel.
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

__attribute__((visibility("default"))) void twice(const struct fakecuda_launch *l)
{
	uint64_t at;
	uint32_t n, *p, *counts = l->variable("counts", 16);
	memcpy(&at, l->params[0], sizeof at);
	memcpy(&n, l->params[1], sizeof n);
	if (counts && (p = l->memory(at, 4ULL * n)))
		for (uint32_t i = 0; i < n; i++)
			p[i] = 2 * p[i] + counts[i % 4];
}
#else
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "must.h"

static const char first[] =
	".version 7.0\n.target sm_50\n.address_size 64\n.file 1 \"{\"\n"
	".extern .global .align 4 .u32 counts[4];\n"
	".visible .global .align 8 .u64 where[3] = { generic(counts)+4, 7, counts };\n"
	".visible .const .align 4 .f32 parts[][2] = { { 0f3F800000, 1.5 }, { -2.5, 3 } };\n"
	".func helper (.param .u64 a)\n{\n ld.global.u32 %r1, [where];\n}\n"
	".visible .entry twice (.param .u64 p, .param .u32 n);\n"
	".visible .entry twice (\n .param .u64 p,\n .param .u32 n\n)\n.maxntid 64, 1, 1\n{ { ret; } }\n";
static const char second[] = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .global .align 4 .b32 counts[4] = { 1, 0x20, -3, 4U };\n.visible .global .u8 empty[100];\n";

static char *padded(const char *text)
{
	enum { PAD = 6000 };
	size_t n = strlen(text);
	char *s = malloc(n + PAD + 1);
	memcpy(s, text, n);
	memset(s + n, ' ', PAD);
	s[n + PAD] = 0;
	return s;
}

int main(void)
{
	enum { N = 100 };
	CUcontext context;
	CUlinkState link;
	CUmodule linked, alone;
	CUfunction twice;
	CUdeviceptr p, at, counts;
	void *cubin;
	size_t size;
	uint32_t n = N, values[N], c[4];
	uint64_t where[3];
	float parts[4];
	char *texts[2] = {padded(first), padded(second)};
	MUST(cuInit(0) == 0);
	MUST(cuCtxCreate_v2(&context, 0, 0) == 0);
	MUST(cuLinkCreate_v2(0, NULL, NULL, &link) == 0);
	for (int i = 0; i < 2; i++)
		MUST(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, texts[i], strlen(texts[i]) + 1, "text", 0, NULL, NULL) == 0);
	MUST(cuLinkComplete(link, &cubin, &size) == 0);
	MUST(cuModuleLoadData(&linked, cubin) == 0);
	MUST(cuLinkDestroy(link) == 0);
	MUST(cuModuleLoadData(&alone, texts[1]) == 0);

	MUST(cuModuleGetGlobal_v2(&counts, &size, linked, "counts") == 0);
	MUST(cuMemcpyDtoH_v2(c, counts, sizeof c) == 0);
	MUST(size == sizeof c && c[0] == 1 && c[1] == 0x20 && c[2] == (uint32_t)-3 && c[3] == 4);
	MUST(cuModuleGetGlobal_v2(&at, &size, linked, "where") == 0);
	MUST(cuMemcpyDtoH_v2(where, at, sizeof where) == 0);
	MUST(size == sizeof where && where[0] == counts + 4 && where[1] == 7 && where[2] == counts);
	MUST(cuModuleGetGlobal_v2(&at, &size, linked, "parts") == 0);
	MUST(cuMemcpyDtoH_v2(parts, at, sizeof parts) == 0);
	MUST(size == sizeof parts && parts[0] == 1 && parts[1] == 1.5f && parts[2] == -2.5f && parts[3] == 3);
	MUST(cuModuleGetGlobal_v2(&at, &size, alone, "where") == CUDA_ERROR_NOT_FOUND);

	for (uint32_t i = 0; i < N; i++)
		values[i] = i;
	MUST(cuMemAlloc_v2(&p, sizeof values) == 0);
	MUST(cuMemcpyHtoD_v2(p, values, sizeof values) == 0);
	MUST(cuModuleGetFunction(&twice, linked, "twice") == 0);
	/* Like PyCUDA, even if the launch does not need it. */
	MUST(cuFuncSetBlockShape(twice, 64, 1, 1) == 0 && cuFuncSetSharedSize(twice, 0) == 0 && cuFuncSetCacheConfig(twice, CU_FUNC_CACHE_PREFER_L1) == 0);
	MUST(cuLaunchKernel(twice, 1, 1, 1, 64, 1, 1, 0, NULL, (void *[]){&p, &n}, NULL) == 0);
	MUST(cuMemcpyDtoH_v2(values, p, sizeof values) == 0);
	for (uint32_t i = 0; i < N; i++)
		MUST(values[i] == 2 * i + c[i % 4]);
	MUST(cuMemFree_v2(p) == 0);
	MUST(cuModuleUnload(linked) == 0);
	MUST(cuModuleUnload(alone) == 0);
	MUST(cuCtxDetach(context) == 0);
	return 0;
}
#endif
