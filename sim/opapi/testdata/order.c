/* The calls that each phase makes, in order; captures, devices, and the runtime's end. */
#include "test.h"

OPERATOR(aclnnAdd, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out);
OPERATOR(aclnnExp, const aclTensor *self, aclTensor *out);
OPERATOR(aclnnInplaceAdd, const aclTensor *self, const aclTensor *other, const aclScalar *alpha);

#define PHASE_ONE "InitL2Phase1Context aclrtGetResInCurrentThread aclrtGetResInCurrentThread aclrtGetSysParamOpt InitL0Context OpDfxGuardEnd OpDfxGuardEnd "

static uint64_t size;
static aclOpExecutor *e;

static void made(const char *want)
{
	if (strcmp(calls, want)) {
		fprintf(stderr, "called %s\nwant   %s\n", calls, want);
		exit(1);
	}
	calls[0] = 0;
}

static void run(char *memory, aclrtStream on)
{
	aclTensor *t = vector(8, memory), *u = vector(8, memory + 64);

	OK(aclnnExpGetWorkspaceSize(t, u, &size, &e));
	OK(aclnnExp(NULL, 0, e, on));
	OK(aclDestroyTensor(t));
	OK(aclDestroyTensor(u));
}

/* The description of a captured operator, in the layout of toolkit 9. */
static void captured(char *memory)
{
	struct {
		uint32_t task, blocks;
		uint64_t node, type, attributes, reserved;
		uint32_t flags, count;
		struct {
			uint32_t output, format, dtype, dims[8];
		} tensors[4];
	} d;
	int64_t dims[] = {2}, storage[] = {4, 5}, one = 1;
	aclTensor *t = aclCreateTensor(dims, 1, F16, &one, 3, ND, storage, 2, memory);
	aclScalar *alpha = aclCreateScalar(&one, I64);
	aclrtStreamAttrValue on = {.cacheOpInfoSwitch = 1};
	aclmdlRI model;

	OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &on));
	OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclnnAddGetWorkspaceSize(t, t, alpha, t, &size, &e));
	calls[0] = 0;
	OK(aclnnAdd(NULL, 0, e, stream));
	made("InitL2Phase2Context CommonOpExecutorRun aclrtGetStreamAttribute aclrtBinaryGetFunction aclrtLaunchKernelWithHostArgs aclrtCacheLastTaskOpInfo OpDfxGuardEnd ");
	CHECK(described_size == 48 + 3 * 44);
	memcpy(&d, described, described_size);
	CHECK(d.task == 0 && d.blocks == 1 && d.type == UINT64_C(0x0000e141001138d9) && d.node == UINT64_C(0xe2c6b77c62d4313e) && d.count == 3);
	CHECK(d.tensors[0].output == 0 && d.tensors[0].format == ND && d.tensors[0].dtype == F16 && d.tensors[2].output == 1);
	CHECK(d.tensors[2].dims[0] == 4 && d.tensors[2].dims[1] == 5 && d.tensors[2].dims[2] == 0);
	OK(aclnnInplaceAddGetWorkspaceSize(t, t, alpha, &size, &e));
	OK(aclnnInplaceAdd(NULL, 0, e, stream));
	memcpy(&d, described, sizeof d < described_size ? sizeof d : described_size);
	CHECK(d.count == 3 && d.tensors[2].output == 1);
	/* Dims are those of the memory, if the storage's are not more. */
	static const struct { int64_t dims[3], strides[3]; uint32_t want[4]; } views[] = {
		{{2, 3, 4}, {12, 4, 1}, {2, 3, 4}}, {{2, 3, 4}, {1, 8, 2}, {3, 4, 2}}, {{2, 3, 4}, {100, 4, 1}, {2, 3, 4}}, {{1, 3, 4}, {1, 4, 1}, {1, 3, 4}}, {{2, 3, 4}, {0, 4, 1}, {2, 3, 4}},
	};
	for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
		int64_t all = 200;
		aclTensor *v = aclCreateTensor(views[i].dims, 3, F16, views[i].strides, 0, ND, &all, 1, memory);
		OK(aclnnInplaceAddGetWorkspaceSize(v, v, alpha, &size, &e));
		OK(aclnnInplaceAdd(NULL, 0, e, stream));
		memcpy(&d, described, sizeof d < described_size ? sizeof d : described_size);
		CHECK(!memcmp(d.tensors[0].dims, views[i].want, sizeof views[i].want));
	}
	on.cacheOpInfoSwitch = 0;
	OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &on));
	OK(aclmdlRICaptureEnd(stream, &model));
	OK(aclmdlRIExecuteAsync(model, stream));
	OK(aclrtSynchronizeStream(stream));
}

int main(void)
{
	start();
	char *memory = device(4096);
	aclTensor *t = vector(8, memory), *u = vector(8, memory + 64);
	OK(aclnnExpGetWorkspaceSize(t, u, &size, &e));
	made(PHASE_ONE);
	OK(aclnnExp(NULL, 0, e, stream));
	made("InitL2Phase2Context CommonOpExecutorRun aclrtGetStreamAttribute aclrtBinaryLoadFromData aclrtBinaryGetFunction aclrtLaunchKernelWithHostArgs OpDfxGuardEnd ");
	run(memory, stream);
	made(PHASE_ONE "InitL2Phase2Context CommonOpExecutorRun aclrtGetStreamAttribute aclrtLaunchKernelWithHostArgs OpDfxGuardEnd ");
	run(memory, NULL); /* the default stream has no attribute to read */
	made(PHASE_ONE "InitL2Phase2Context CommonOpExecutorRun aclrtLaunchKernelWithHostArgs OpDfxGuardEnd ");
	captured(memory);

	/* The program may unload any binary. */
	aclrtBinHandle bin;
	OK(aclrtFunctionGetBinary(function, &bin));
	OK(aclrtBinaryUnLoad(bin));
	calls[0] = 0;
	run(memory, stream);
	made(PHASE_ONE "InitL2Phase2Context CommonOpExecutorRun aclrtGetStreamAttribute aclrtLaunchKernelWithHostArgs aclrtBinaryGetFunction "
		       "aclrtBinaryLoadFromData aclrtBinaryGetFunction aclrtLaunchKernelWithHostArgs OpDfxGuardEnd ");

	int before = launches;
	aclrtStream second;
	OK(aclrtSetDevice(1));
	OK(aclrtCreateStream(&second));
	run(device(4096), second);
	run(device(4096), second);
	OK(aclrtSynchronizeStream(second));
	OK(aclrtResetDevice(1));
	OK(aclrtSetDevice(1));
	run(device(4096), NULL);
	OK(aclrtSetDevice(0));
	run(memory, stream);
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtResetDevice(1));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	run(device(4096), NULL);
	OK(aclrtSynchronizeDevice());
	printf("%d launches\n", launches - before);
	return 0;
}
