/*
 * Mistakes that strict mode finds, each with its corrected twin: strict BINARY CASE wrong|right. Results of calls are ignored.
 */
#include "test.h"

enum { SIZE = 4096 };

static int right;
static aclrtStream a, b;
static aclrtEvent event;
static void *device, *other, *pinned;
static aclrtFuncHandle count;

static void launch(aclrtStream s, uint32_t blocks, void *counter)
{
	(void)aclrtLaunchKernelWithHostArgs(count, blocks, s, NULL, &counter, sizeof counter, NULL, 0);
}

static void finish(aclrtStream s)
{
	if (right)
		OK(aclrtSynchronizeStream(s));
}

static void pageable(void)
{
	void *memory = malloc(SIZE);
	aclmdlRI model;

	memset(memory, 1, SIZE);
	OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	OK(aclrtMemcpyAsync(device, SIZE, right ? pinned : memory, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, a));
	OK(aclmdlRICaptureEnd(a, &model));
	OK(aclmdlRIExecute(model, -1));
	OK(aclmdlRIDestroy(model));
	free(memory);
}

static void freed(void)
{
	void *p;

	OK(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	launch(a, 1, p);
	finish(a);
	OK(aclrtFree(p));
}

static void freed_host(void)
{
	void *p;

	OK(aclrtMallocHost(&p, SIZE));
	OK(aclrtMemcpyAsync(p, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, a));
	if (right)
		OK(aclrtFreeHostWithDevSync(p));
	else
		OK(aclrtFreeHost(p));
}

static void after_free(void)
{
	void *p;

	OK(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	if (!right)
		OK(aclrtFree(p));
	(void)aclrtMemsetAsync(p, SIZE, 1, SIZE, a);
	(void)aclrtSynchronizeStream(a);
	if (right)
		OK(aclrtFree(p));
}

static void unregistered(void)
{
	void *p = aligned_alloc(SIZE, SIZE), *seen;

	memset(p, 1, SIZE);
	OK(aclrtHostRegister(p, SIZE, ACL_HOST_REGISTER_MAPPED, &seen));
	OK(aclrtMemcpyAsync(device, SIZE, p, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, a));
	finish(a);
	OK(aclrtHostUnregister(p));
	(void)aclrtSynchronizeStream(a);
	free(p);
}

static void overwritten(void)
{
	OK(aclrtMemcpyAsync(device, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, a));
	finish(a);
	memset(pinned, 2, SIZE);
	OK(aclrtSynchronizeStream(a));
}

static void overwritten_by_copy(void)
{
	OK(aclrtMemcpyAsync(device, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, a));
	finish(a);
	OK(aclrtMemcpy(pinned, SIZE, other, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void unsynchronized(void)
{
	uint64_t n;

	launch(a, 1, device);
	finish(a);
	OK(aclrtMemcpy(&n, sizeof n, device, sizeof n, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void unsynchronized_host(void)
{
	OK(aclrtMemcpyAsync(pinned, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, a));
	OK(aclrtRecordEvent(event, a));
	if (right)
		OK(aclrtSynchronizeEvent(event));
	OK(aclrtMemcpy(other, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void racing(void)
{
	for (int i = 0; i < 3; i++) {
		launch(a, 1, device);
		OK(aclrtRecordEvent(event, a));
		if (right)
			OK(aclrtStreamWaitEvent(b, event));
		OK(aclrtMemcpyAsync(other, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, b));
		OK(aclrtSynchronizeStream(a));
		OK(aclrtSynchronizeStream(b));
	}
}

/* The streams of a model are also unordered. */
static void racing_in_model(void)
{
	aclmdlRI model;

	OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	OK(aclrtRecordEvent(event, a));
	OK(aclrtStreamWaitEvent(b, event));
	launch(a, 1, device);
	if (right) {
		OK(aclrtRecordEvent(event, a));
		OK(aclrtStreamWaitEvent(b, event));
	}
	launch(b, 1, device);
	OK(aclrtRecordEvent(event, b));
	OK(aclrtStreamWaitEvent(a, event));
	OK(aclmdlRICaptureEnd(a, &model));
	OK(aclmdlRIExecuteAsync(model, a));
	OK(aclrtSynchronizeStream(a));
	OK(aclmdlRIDestroy(model));
}

static void blocks(void) { launch(a, right ? 65535 : 65536, device); }

static void wrong_current(void)
{
	OK(aclrtSetDevice(1));
	if (right)
		OK(aclrtSetDevice(0));
	(void)aclrtMemsetAsync(device, SIZE, 1, SIZE, a);
	OK(aclrtSetDevice(0));
	OK(aclrtResetDevice(1));
}

static void wrong_memory(void)
{
	aclrtStream s = a;
	void *p;

	OK(aclrtSetDevice(1));
	OK(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	if (right)
		OK(aclrtCreateStream(&s));
	else
		OK(aclrtSetDevice(0));
	OK(aclrtMemcpyAsync(p, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, s));
	OK(aclrtSynchronizeStream(s));
	OK(aclrtSetDevice(1));
	if (right)
		OK(aclrtDestroyStream(s));
	OK(aclrtFree(p));
	OK(aclrtResetDevice(1));
	OK(aclrtSetDevice(0));
}

static void leaking(void)
{
	aclrtEvent e;

	OK(aclrtCreateEvent(&e));
	if (right)
		OK(aclrtDestroyEvent(e));
}

static void leaking_host(void)
{
	void *p;

	OK(aclrtMallocHost(&p, SIZE));
	if (right)
		OK(aclrtFreeHost(p));
}

static void leaking_device(void)
{
	void *p;

	OK(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	if (right)
		OK(aclrtFree(p));
}

static void balanced(void) {}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"pageable", pageable},
	{"freed", freed},
	{"freed_host", freed_host},
	{"after_free", after_free},
	{"unregistered", unregistered},
	{"overwritten", overwritten},
	{"overwritten_by_copy", overwritten_by_copy},
	{"unsynchronized", unsynchronized},
	{"unsynchronized_host", unsynchronized_host},
	{"racing", racing},
	{"racing_in_model", racing_in_model},
	{"blocks", blocks},
	{"wrong_current", wrong_current},
	{"wrong_memory", wrong_memory},
	{"leaking", leaking},
	{"leaking_host", leaking_host},
	{"leaking_device", leaking_device},
	{"finalized_twice", balanced},
	{"not_finalized", balanced},
};

int main(int argc, char **argv)
{
	const char *name = argc > 2 ? argv[2] : "";
	aclrtBinHandle binary;
	void (*run)(void) = NULL;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(cases[i].name, name))
			run = cases[i].run;
	CHECK(run && argc > 3);
	right = !strcmp(argv[3], "right");
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&a));
	OK(aclrtCreateStream(&b));
	OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
	OK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMalloc(&other, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMallocHost(&pinned, SIZE));
	memset(pinned, 1, SIZE);
	OK(aclrtMemset(device, SIZE, 0, SIZE));
	OK(aclrtMemset(other, SIZE, 0, SIZE));
	OK(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	OK(aclrtBinaryGetFunction(binary, "test_count", &count));
	run();
	(void)aclrtSynchronizeDevice();
	OK(aclrtBinaryUnLoad(binary));
	OK(aclrtFreeHost(pinned));
	OK(aclrtFree(device));
	OK(aclrtFree(other));
	OK(aclrtDestroyEvent(event));
	OK(aclrtDestroyStream(a));
	OK(aclrtDestroyStream(b));
	OK(aclrtResetDevice(0));
	if (right || strcmp(name, "not_finalized"))
		OK(aclFinalize());
	if (!right && !strcmp(name, "finalized_twice"))
		(void)aclFinalize();
	return 0;
}
