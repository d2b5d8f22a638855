/* A program that passes structures with pointers. With -DRUNTIME: the minimal runtime that it calls. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#include "rt_gen.h"

#ifdef RUNTIME

/* Like the real runtime, fills in addresses in the caller's memory. */
rtError_t rtKernelLaunchWithFlag(const void *stub, uint32_t blocks, rtArgsEx_t *info, rtSmDesc_t *sm, rtStream_t s, uint32_t flags)
{
	(void)stub, (void)blocks, (void)sm, (void)s, (void)flags;
	if (!info->isNoNeedH2DCopy)
		memset(info->args, 0xff, info->argsSize);
	return 0;
}

rtError_t rtLaunchDvppTask(const void *sqe, uint32_t sqeLen, rtStream_t s, rtDvppCfg_t *cfg)
{
	(void)sqe, (void)sqeLen, (void)s, (void)cfg;
	return 0;
}

rtError_t rtDevBinaryRegister(const rtDevBinary_t *bin, void **hdl)
{
	*hdl = bin->data == NULL ? NULL : (void *)0x6600;
	return bin->data == NULL ? 107000 : 0;
}

rtError_t rtFunctionRegister(void *bin, const void *stub, const char_t *name, const void *ext, uint32_t mode)
{
	(void)bin, (void)stub, (void)name, (void)ext, (void)mode;
	return 0;
}

aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams p, aclrtStream s, uint32_t flags)
{
	return p.size == 2 && p.modelRIArray[1] == (aclmdlRI)0x72 && s == (aclrtStream)0x55 && flags == 7 ? 0 : 107000;
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle h, aclrtEvent *e)
{
	*e = (void *)(uintptr_t)((const char *)&h)[63];
	return 0;
}

aclError aclmdlRIGetTasksByStream(aclrtStream s, aclmdlRITask *tasks, uint32_t *n)
{
	(void)s;
	*n = 3;
	if (tasks != NULL)
		for (uintptr_t i = 0; i < 3; i++)
			tasks[i] = (void *)(0x90 + i);
	return 0;
}

aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attrs, size_t n, const void *p, size_t size, void **data, size_t *sizes)
{
	(void)attrs, (void)p, (void)size;
	for (size_t i = 0; i < n; i++)
		memset(data[i], 'a' + (int)i, sizes[i]);
	return 0;
}

float aclFloat16ToFloat(aclFloat16 v) { return -(float)v; }

#else

int main(void)
{
	static uint8_t big[100000];
	memset(big, 7, sizeof big);
	void *hdl = NULL;
	rtDevBinary_t bin = {.magic = 0x43554245, .data = big, .length = sizeof big}, none = {.length = 5};
	int bad = rtDevBinaryRegister(&bin, &hdl) != 0 || rtDevBinaryRegister(&none, &hdl) == 0;
	bad |= rtFunctionRegister(hdl, main, "Add", NULL, 0) != 0;

	uint64_t args[3] = {1, 2, 3};
	uint32_t places[2] = {8, 16};
	rtArgsEx_t host = {.args = args, .argsSize = sizeof args, .hostInputInfoPtr = places, .hostInputInfoNum = 1};
	rtArgsEx_t device = {.args = (void *)0x124000000000, .argsSize = 64, .isNoNeedH2DCopy = 1};
	bad |= rtKernelLaunchWithFlag(main, 4, &host, NULL, (void *)0x55, 0) != 0 || rtKernelLaunchWithFlag(main, 4, &device, NULL, (void *)0x55, 0) != 0;

	uint64_t sqe[8] = {11, 12, 13, 14, 15, 16, 17, 18};
	bad |= rtLaunchDvppTask(sqe, sizeof sqe, (void *)0x55, NULL) != 0;

	aclmdlRI graphs[2] = {(aclmdlRI)0x71, (aclmdlRI)0x72};
	bad |= aclmdlRIAddCondTask((aclmdlRICondTaskParams){.handle = (void *)0x61, .size = 2, .modelRIArray = graphs}, (void *)0x55, 7) != 0;
	aclrtIpcEventHandle ipc;
	memset(&ipc, 1, sizeof ipc);
	((char *)&ipc)[63] = 0x44;
	aclrtEvent event;
	bad |= aclrtIpcOpenEventHandle(ipc, &event) != 0 || event != (void *)0x44;

	uint32_t n = 8;
	aclmdlRITask tasks[8];
	bad |= aclmdlRIGetTasksByStream((void *)0x55, tasks, &n) != 0;
	aclrtMemManagedRangeAttribute which[2] = {0};
	uint8_t a[4], b[12];
	void *data[2] = {a, b};
	size_t sizes[2] = {sizeof a, sizeof b};
	bad |= aclrtMemManagedGetAttrs(which, 2, NULL, 0, data, sizes) != 0;
	bad |= aclFloat16ToFloat(3) != -3;
	return bad;
}

#endif
