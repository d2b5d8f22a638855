// Every way to load a kernel binary, to find a kernel in it and to launch it, each checked against the host.
#include "../common/example.h"

#include <cstdint>
#include <vector>

#include "../kernels/vector_args.h"

static const uint32_t numBlocks = 8;
static const float bias = 0.5f;
static const float factor = 3.0f;

static const char usage[] =
	"usage: vector_add [--n N] [--kernels FILE]\n"
	"  --n N           elements of each vector (65536)\n"
	"  --kernels FILE  kernel binary (vector_kernels.o beside the program)\n";

namespace {

struct Vectors {
	size_t count;
	std::vector<float> x, y, z; // on the host
	float *devX, *devY, *devZ;
	aclrtStream stream;
	int right, wrong;

	size_t bytes() const { return count * sizeof(float); }
};

aclrtFuncHandle function(aclrtBinHandle binary, const char *name)
{
	aclrtFuncHandle func;
	CHECK(aclrtBinaryGetFunction(binary, name, &func));
	return func;
}

// Fills z with a wrong pattern, to detect a launch without effect.
void spoil(Vectors &v)
{
	CHECK(aclrtMemset(v.devZ, v.bytes(), 0xff, v.bytes()));
}

// Waits for the launch, copies z back and compares it with expected(i).
template <typename Expected>
void verify(Vectors &v, const char *variant, Expected expected)
{
	CHECK(aclrtSynchronizeStream(v.stream));
	CHECK(aclrtMemcpy(v.z.data(), v.bytes(), v.devZ, v.bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
	for (size_t i = 0; i < v.count; i++) {
		float want = expected(i);
		if (memcmp(&v.z[i], &want, sizeof want)) {
			printf("%-40s WRONG at %zu: %g, not %g\n", variant, i, v.z[i], want);
			v.wrong++;
			return;
		}
	}
	printf("%-40s right\n", variant);
	v.right++;
}

// The oldest form: the argument block is in device memory already and must stay there until the kernel has run.
void launchKernel(Vectors &v, aclrtBinHandle binary)
{
	vector_add_block args = {v.devX, v.devY, v.devZ, v.count};
	void *devArgs;
	CHECK(aclrtMalloc(&devArgs, sizeof args, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(devArgs, sizeof args, &args, sizeof args, ACL_MEMCPY_HOST_TO_DEVICE));

	spoil(v);
	CHECK(aclrtLaunchKernel(function(binary, "vector_add"), numBlocks, devArgs, sizeof args, v.stream));
	verify(v, "LaunchKernel", [&](size_t i) { return v.x[i] + v.y[i]; });
	CHECK(aclrtFree(devArgs));
}

// The same with launch attributes.
void launchKernelV2(Vectors &v, aclrtBinHandle binary)
{
	vector_scale_block args = {v.devX, v.devZ, v.count, factor};
	void *devArgs;
	CHECK(aclrtMalloc(&devArgs, sizeof args, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(devArgs, sizeof args, &args, sizeof args, ACL_MEMCPY_HOST_TO_DEVICE));

	aclrtLaunchKernelAttr attrs[2] = {};
	attrs[0].id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE;
	attrs[0].value.schemMode = 1; // all blocks start together
	attrs[1].id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT;
	attrs[1].value.timeout = 30; // seconds
	aclrtLaunchKernelCfg cfg = {attrs, 2};

	spoil(v);
	CHECK(aclrtLaunchKernelV2(function(binary, "vector_scale"), numBlocks, devArgs, sizeof args, &cfg, v.stream));
	verify(v, "LaunchKernelV2", [&](size_t i) { return factor * v.x[i]; });
	CHECK(aclrtFree(devArgs));
}

// Builds the argument list of vector_add_tiled and launches it: three addresses, and one that the runtime fills in for
// tiling data which travel with the list.
void launchArgsHandle(Vectors &v, aclrtFuncHandle func, aclrtArgsHandle args, const char *variant)
{
	aclrtParamHandle x, y, z, tiling;
	float *somewhereElse = v.devX;
	CHECK(aclrtKernelArgsAppend(args, &v.devX, sizeof v.devX, &x));
	CHECK(aclrtKernelArgsAppend(args, &v.devY, sizeof v.devY, &y));
	CHECK(aclrtKernelArgsAppend(args, &somewhereElse, sizeof somewhereElse, &z));
	CHECK(aclrtKernelArgsAppendPlaceHolder(args, &tiling));

	// A placeholder's buffer is available after all parameters were added.
	vector_tiling *buffer;
	CHECK(aclrtKernelArgsGetPlaceHolderBuffer(args, tiling, sizeof *buffer, reinterpret_cast<void **>(&buffer)));
	buffer->count = v.count;
	buffer->bias = bias;
	buffer->reserved = 0;

	// A list may be changed before it is finalized, and after a launch to be used again.
	CHECK(aclrtKernelArgsParaUpdate(args, z, &v.devZ, sizeof v.devZ));
	CHECK(aclrtKernelArgsFinalize(args));

	aclrtLaunchKernelAttr attr = {};
	attr.id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE;
	aclrtLaunchKernelCfg cfg = {&attr, 1};

	spoil(v);
	CHECK(aclrtLaunchKernelWithConfig(func, numBlocks, v.stream, &cfg, args, nullptr));
	verify(v, variant, [&](size_t i) { return v.x[i] + v.y[i] + bias; });
}

void launchWithConfig(Vectors &v, aclrtBinHandle binary)
{
	aclrtFuncHandle func = function(binary, "vector_add_tiled");
	aclrtArgsHandle args;
	CHECK(aclrtKernelArgsInit(func, &args)); // the runtime owns it
	launchArgsHandle(v, func, args, "LaunchKernelWithConfig");
}

void launchWithConfigUserMem(Vectors &v, aclrtBinHandle binary)
{
	aclrtFuncHandle func = function(binary, "vector_add_tiled");
	size_t handleSize, argsSize;
	CHECK(aclrtKernelArgsGetHandleMemSize(func, &handleSize));
	CHECK(aclrtKernelArgsGetMemSize(func, sizeof(vector_add_tiled_block) + sizeof(vector_tiling), &argsSize));
	// Of 8-byte words, for the alignment.
	std::vector<uint64_t> handle((handleSize + 7) / 8), memory((argsSize + 7) / 8);
	CHECK(aclrtKernelArgsInitByUserMem(func, handle.data(), memory.data(), argsSize));
	launchArgsHandle(v, func, handle.data(), "LaunchKernelWithConfig, user memory");
}

// As operator libraries do it: one block on the host with the arguments, then the tiling data. The
// runtime writes the tiling data's device address into the block, at addrOffset.
void launchWithHostArgs(Vectors &v, aclrtBinHandle binary)
{
	struct {
		vector_add_tiled_block args;
		vector_tiling tiling;
	} block = {{v.devX, v.devY, v.devZ, nullptr}, {v.count, bias, 0}};
	aclrtPlaceHolderInfo placeHolder = {};
	placeHolder.addrOffset = offsetof(vector_add_tiled_block, tiling);
	placeHolder.dataOffset = sizeof block.args;

	spoil(v);
	CHECK(aclrtLaunchKernelWithHostArgs(function(binary, "vector_add_tiled"), numBlocks, v.stream, nullptr, &block,
	                                    sizeof block, &placeHolder, 1));
	verify(v, "LaunchKernelWithHostArgs", [&](size_t i) { return v.x[i] + v.y[i] + bias; });
}

// A pointer to each argument; the runtime knows their sizes from the binary.
void launchWithArgsArray(Vectors &v, aclrtBinHandle binary)
{
	uint64_t count = v.count;
	float value = factor;
	void *args[] = {&v.devX, &v.devZ, &count, &value};

	spoil(v);
	CHECK(aclrtLaunchKernelWithArgsArray(function(binary, "vector_scale"), numBlocks, v.stream, nullptr, args));
	verify(v, "LaunchKernelWithArgsArray", [&](size_t i) { return factor * v.x[i]; });
}

// SIMT kernels run on many threads: a grid of blocks, each with many threads.
void launchSimtWithArgsArray(Vectors &v, aclrtBinHandle binary)
{
	uint64_t count = v.count;
	void *args[] = {&v.devX, &v.devY, &v.devZ, &count};
	dim3 grid = {4, 2, 1};
	dim3 block = {64, 1, 1};

	spoil(v);
	CHECK(aclrtLaunchSIMTKernelWithArgsArray(function(binary, "vector_add_simt"), grid, block, 0, v.stream, nullptr, args));
	verify(v, "LaunchSIMTKernelWithArgsArray", [&](size_t i) { return v.x[i] + v.y[i]; });
}

void launchSimtWithHostArgs(Vectors &v, aclrtBinHandle binary)
{
	vector_add_block args = {v.devX, v.devY, v.devZ, v.count};
	dim3 grid = {3, 1, 1};
	dim3 block = {32, 2, 2};

	spoil(v);
	CHECK(aclrtLaunchSIMTKernelWithHostArgs(function(binary, "vector_add_simt"), grid, block, 0, v.stream, nullptr, &args,
	                                        sizeof args, nullptr, 0));
	verify(v, "LaunchSIMTKernelWithHostArgs", [&](size_t i) { return v.x[i] + v.y[i]; });
}

// A kernel found by its number instead of its name.
void launchByEntry(Vectors &v, aclrtBinHandle binary)
{
	aclrtFuncHandle func;
	CHECK(aclrtBinaryGetFunctionByEntry(binary, VECTOR_ADD_ENTRY, &func));
	char name[64] = "";
	CHECK(aclrtGetFunctionName(func, sizeof name, name));
	if (strcmp(name, "vector_add")) {
		printf("%-40s WRONG: function %s\n", "BinaryGetFunctionByEntry", name);
		v.wrong++;
		return;
	}

	vector_add_block args = {v.devX, v.devY, v.devZ, v.count};
	spoil(v);
	CHECK(aclrtLaunchKernelWithHostArgs(func, numBlocks, v.stream, nullptr, &args, sizeof args, nullptr, 0));
	verify(v, "BinaryGetFunctionByEntry", [&](size_t i) { return v.x[i] + v.y[i]; });
}

// A binary that the program has in memory; the option says for which cores it was built.
void launchFromData(Vectors &v, const void *data, size_t size)
{
	aclrtBinaryLoadOption option = {};
	option.type = ACL_RT_BINARY_LOAD_OPT_MAGIC;
	option.value.magic = ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE;
	aclrtBinaryLoadOptions options = {&option, 1};
	aclrtBinHandle binary;
	CHECK(aclrtBinaryLoadFromData(data, size, &options, &binary));

	vector_fill_block args = {v.devZ, v.count, factor};
	spoil(v);
	CHECK(aclrtLaunchKernelWithHostArgs(function(binary, "vector_fill"), numBlocks, v.stream, nullptr, &args, sizeof args,
	                                    nullptr, 0));
	verify(v, "BinaryLoadFromData", [&](size_t) { return factor; });
	CHECK(aclrtBinaryUnLoad(binary));
}

// The same with the older pair of calls. The wrapper refers to the program's bytes and is useless after the load.
void launchFromBinary(Vectors &v, const void *data, size_t size)
{
	aclrtBinary wrapper = aclrtCreateBinary(data, size);
	if (!wrapper) {
		fprintf(stderr, "aclrtCreateBinary failed\n");
		exit(1);
	}
	aclrtBinHandle binary;
	CHECK(aclrtBinaryLoad(wrapper, &binary));
	CHECK(aclrtDestroyBinary(wrapper));

	vector_copy_block args = {v.devX, v.devZ, v.count};
	spoil(v);
	CHECK(aclrtLaunchKernelWithHostArgs(function(binary, "vector_copy"), numBlocks, v.stream, nullptr, &args, sizeof args,
	                                    nullptr, 0));
	verify(v, "CreateBinary, BinaryLoad", [&](size_t i) { return v.x[i]; });
	CHECK(aclrtBinaryUnLoad(binary));
}

} // namespace

int main(int argc, char **argv)
{
	Vectors v = {};
	v.count = 1 << 16;
	const char *kernels = nullptr;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--n")) {
			v.count = example_number(argc, argv, &i, 1, 1ul << 30);
		} else if (!strcmp(argv[i], "--kernels")) {
			kernels = example_text(argc, argv, &i);
		} else {
			fputs(usage, stderr);
			return 2;
		}
	}
	char path[PATH_MAX];
	example_kernel_path(kernels, "vector_kernels.o", path);

	v.x.resize(v.count);
	v.y.resize(v.count);
	v.z.resize(v.count);
	for (size_t i = 0; i < v.count; i++) {
		v.x[i] = static_cast<float>(i % 1000) * 0.25f;
		v.y[i] = static_cast<float>(i % 77) - 38.0f;
	}

	CHECK(aclInit(nullptr));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&v.stream));
	CHECK(aclrtMalloc(reinterpret_cast<void **>(&v.devX), v.bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMalloc(reinterpret_cast<void **>(&v.devY), v.bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMalloc(reinterpret_cast<void **>(&v.devZ), v.bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(v.devX, v.bytes(), v.x.data(), v.bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
	CHECK(aclrtMemcpy(v.devY, v.bytes(), v.y.data(), v.bytes(), ACL_MEMCPY_HOST_TO_DEVICE));

	aclrtBinaryLoadOption option = {};
	option.type = ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD;
	option.value.isLazyLoad = 1; // to the device when a kernel of it is first asked for
	aclrtBinaryLoadOptions options = {&option, 1};
	aclrtBinHandle binary;
	CHECK(aclrtBinaryLoadFromFile(path, &options, &binary));

	launchKernel(v, binary);
	launchKernelV2(v, binary);
	launchWithConfig(v, binary);
	launchWithConfigUserMem(v, binary);
	launchWithHostArgs(v, binary);
	launchWithArgsArray(v, binary);
	launchSimtWithArgsArray(v, binary);
	launchSimtWithHostArgs(v, binary);
	launchByEntry(v, binary);
	CHECK(aclrtBinaryUnLoad(binary));

	size_t size;
	void *data = example_read_file(path, &size);
	launchFromData(v, data, size);
	launchFromBinary(v, data, size);
	free(data);

	CHECK(aclrtFree(v.devZ));
	CHECK(aclrtFree(v.devY));
	CHECK(aclrtFree(v.devX));
	CHECK(aclrtDestroyStream(v.stream));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());

	if (v.wrong) {
		printf("vector_add: %d of %d results wrong\n", v.wrong, v.right + v.wrong);
		return 1;
	}
	printf("vector_add: all %d results right\n", v.right);
	return 0;
}
