/*
 * A program that launches kernels by a binary's handle and a number, as operator libraries do. With -DRUNTIME: the minimal runtime
 * that it calls. With -DKERNELS: the binary.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef KERNELS

/* One kernel has its number at the end of its name. The other has it in its metadata, with its arguments' layout. */
void add_f32_7(void) {}
void mul_f32_mix_aic(void) {}
void mul_f32_mix_aiv(void) {}

#define LE16(v) (v) & 255, (v) >> 8
#define BE16(v) (v) >> 8, (v) & 255
#define BE64(v) 0, 0, 0, 0, (v) >> 24 & 255, (v) >> 16 & 255, (v) >> 8 & 255, (v) & 255
#define POINTER (1 << 16)

__attribute__((used, section(".ascend.meta.mul_f32_mix_aic"))) static const uint8_t meta[] = {
	LE16(1), LE16(4), 4, 0, 0, 0, /* the kind of kernel */
	LE16(14), LE16(8), 9, 0, 0, 0, 0, 0, 0, 0, /* its number */
	LE16(4), LE16(4 * 4 + 8 + 16 + 40 + 16), /* record for tools */
	BE16(5), BE16(1), BE64(POINTER | 11),
	BE16(5), BE16(2), BE64(POINTER | 2), BE64(64),
	BE16(5), BE16(5), BE64(POINTER | 3), BE64(64), BE64(2), BE64(4), BE64(4),
	BE16(5), BE16(2), BE64(POINTER | 7), BE64(24),
};

#else

#include "acl/acl.h"

#include "rt_gen.h"

#ifdef RUNTIME

rtError_t rtDevBinaryRegister(const rtDevBinary_t *bin, void **hdl)
{
	(void)bin;
	*hdl = (void *)0x6600;
	return 0;
}

rtError_t rtKernelLaunchWithHandleV2(void *hdl, uint64_t key, uint32_t blocks, rtArgsEx_t *info, rtSmDesc_t *sm, rtStream_t s, const rtTaskCfgInfo_t *cfg)
{
	(void)hdl, (void)key, (void)blocks, (void)info, (void)sm, (void)s, (void)cfg;
	return 0;
}

rtError_t rtCreateLaunchArgs(size_t size, size_t host_size, size_t host_num, void *data, rtLaunchArgsHandle *handle)
{
	(void)size, (void)host_size, (void)host_num;
	*handle = data; /* the test relies on it */
	return 0;
}

rtError_t rtLaunchKernelByFuncHandle(rtFuncHandle f, uint32_t blocks, rtLaunchArgsHandle args, rtStream_t s)
{
	(void)f, (void)blocks, (void)args, (void)s;
	return 0;
}

rtError_t rtFftsPlusTaskLaunchWithFlag(rtFftsPlusTaskInfo_t *info, rtStream_t s, uint32_t flag)
{
	(void)info, (void)s, (void)flag;
	return 0;
}

rtError_t rtCCULaunch(rtCcuTaskInfo_t *info, rtStream_t s)
{
	(void)info, (void)s;
	return 0;
}

rtError_t rtBinaryLoad(const rtDevBinary_t *bin, rtBinHandle *hdl)
{
	(void)bin;
	*hdl = (void *)0x6700;
	return 0;
}

rtError_t rtBinaryGetFunction(rtBinHandle hdl, uint64_t key, rtFuncHandle *f)
{
	(void)hdl;
	*f = (void *)(uintptr_t)(0x6800 + key);
	return 0;
}

rtError_t rtLaunchKernelByFuncHandleV3(rtFuncHandle f, uint32_t blocks, const rtArgsEx_t *info, rtStream_t s, const rtTaskCfgInfo_t *cfg)
{
	(void)f, (void)blocks, (void)info, (void)s, (void)cfg;
	return 0;
}

#else

enum { BLOCKS = 100, WORDS = 3 };
static uint64_t blocks[BLOCKS][WORDS];
static rtLaunchArgsHandle lists[BLOCKS];

/* Lists that one thread creates and another one launches with. */
static void *make_lists(void *failed)
{
	for (int i = 0; i < BLOCKS; i++)
		if (rtCreateLaunchArgs(16, 8, 1, blocks[i], &lists[i]))
			return failed;
	return NULL;
}

int main(int argc, char **argv)
{
	static uint8_t data[1 << 20];
	uint64_t args[4] = {1, 2, 3, 4};
	rtArgsEx_t info = {.args = args, .argsSize = sizeof args};
	FILE *f = fopen(argc > 1 ? argv[1] : "", "rb");
	rtDevBinary_t bin = {.data = data, .length = f ? fread(data, 1, sizeof data, f) : 0};
	rtBinHandle loaded;
	rtFuncHandle fn;
	void *hdl;
	if (bin.length == 0 || rtDevBinaryRegister(&bin, &hdl))
		return 1;
	for (uint64_t key = 7; key <= 9; key++)
		if (rtKernelLaunchWithHandleV2(hdl, key, 8, &info, NULL, NULL, NULL))
			return 1;
	uint64_t sqe[8] = {0x51}, contexts[32] = {0x52};
	rtFftsPlusTaskInfo_t ffts = {.fftsPlusSqe = sqe, .descBuf = contexts, .descBufLen = sizeof contexts};
	rtCcuTaskInfo_t ccu = {.argSize = 13, .args = {0x56}};
	pthread_t t;
	void *failed;
	if (rtFftsPlusTaskLaunchWithFlag(&ffts, NULL, 0) || rtCCULaunch(&ccu, NULL))
		return 1;
	ffts.descBuf = (void *)0x124000000000, ffts.descAddrType = 1; /* on the device */
	if (rtFftsPlusTaskLaunchWithFlag(&ffts, NULL, 0) || pthread_create(&t, NULL, make_lists, blocks) || pthread_join(t, &failed) || failed)
		return 1;
	for (int i = 0; i < BLOCKS; i += BLOCKS - 1) {
		blocks[i][0] = 0x53;
		blocks[i][2] = 0x57;
		if (rtLaunchKernelByFuncHandle((void *)0x6809, 1, lists[i], NULL))
			return 1;
	}
	return rtBinaryLoad(&bin, &loaded) || rtBinaryGetFunction(loaded, 9, &fn) || rtLaunchKernelByFuncHandleV3(fn, 8, &info, NULL, NULL);
}

#endif
#endif
