// Counts values into bins with two kernels: a correct one, and one whose blocks race. The second one's counts differ
// in every run. `acltrace replay --repeat 5` finds that, and the launch that wrote them.
#include "../common/example.h"
#include "../kernels/histogram_args.h"

#include <cstdint>
#include <vector>

namespace {

struct Options {
	size_t count = 20000;
	const char *kernels = nullptr;
};

Options parse(int argc, char **argv)
{
	Options o;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--n")) {
			o.count = example_number(argc, argv, &i, 1, 1 << 24);
		} else if (!strcmp(argv[i], "--kernels")) {
			o.kernels = example_text(argc, argv, &i);
		} else {
			fprintf(stderr, "usage: %s [--n COUNT] [--kernels FILE]\n", argv[0]);
			exit(2);
		}
	}
	return o;
}

// Runs a kernel over the values and returns its bins.
std::vector<uint32_t> count(aclrtBinHandle binary, const char *kernel, const std::vector<uint32_t> &values)
{
	const uint32_t numBlocks = 8;
	std::vector<uint32_t> bins(HISTOGRAM_BINS);
	size_t size = values.size() * sizeof(uint32_t), binsSize = bins.size() * sizeof(uint32_t);
	void *devValues, *devBins;
	aclrtStream stream;
	aclrtFuncHandle func;
	CHECK(aclrtMalloc(&devValues, size, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMalloc(&devBins, binsSize, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(devValues, size, values.data(), size, ACL_MEMCPY_HOST_TO_DEVICE));
	CHECK(aclrtMemset(devBins, binsSize, 0, binsSize));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtBinaryGetFunction(binary, kernel, &func));
	histogram_block args = {static_cast<uint32_t *>(devValues), static_cast<uint32_t *>(devBins), values.size()};
	CHECK(aclrtLaunchKernelWithHostArgs(func, numBlocks, stream, nullptr, &args, sizeof args, nullptr, 0));
	CHECK(aclrtSynchronizeStream(stream));
	CHECK(aclrtMemcpy(bins.data(), binsSize, devBins, binsSize, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(aclrtDestroyStream(stream));
	CHECK(aclrtFree(devBins));
	CHECK(aclrtFree(devValues));
	return bins;
}

size_t sum(const std::vector<uint32_t> &bins)
{
	size_t n = 0;
	for (uint32_t b : bins)
		n += b;
	return n;
}

} // namespace

int main(int argc, char **argv)
{
	Options o = parse(argc, argv);
	char path[PATH_MAX];
	example_kernel_path(o.kernels, "histogram_kernels.o", path);
	std::vector<uint32_t> values(o.count), want(HISTOGRAM_BINS);
	for (size_t i = 0; i < values.size(); i++) {
		values[i] = static_cast<uint32_t>(i * 2654435761u >> 7);
		want[values[i] % HISTOGRAM_BINS]++;
	}
	CHECK(aclInit(nullptr));
	CHECK(aclrtSetDevice(0));
	aclrtBinHandle binary;
	CHECK(aclrtBinaryLoadFromFile(path, nullptr, &binary));
	std::vector<uint32_t> right = count(binary, "histogram", values), racy = count(binary, "histogram_racy", values);
	CHECK(aclrtBinaryUnLoad(binary));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	if (right != want) {
		fprintf(stderr, "histogram: the bins are wrong\n");
		return 1;
	}
	printf("%zu values; with the race %zu were counted\n", values.size(), sum(racy));
	return 0;
}
