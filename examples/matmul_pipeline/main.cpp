// A stream of matrix tiles through the device with double buffering: while the compute stream multiplies one tile, the
// copy stream brings the next one and takes the last result away. Events put the two streams in order.
#include "../common/example.h"

#include <cstdint>
#include <vector>

#include "../kernels/matmul_args.h"

static const char usage[] =
	"usage: matmul_pipeline [--tiles N] [--size M] [--kernels FILE]\n"
	"  --tiles N       tiles to multiply (16)\n"
	"  --size M        rows and columns of a tile (64)\n"
	"  --kernels FILE  kernel binary (matmul_kernels.o beside the program)\n";

namespace {

const int numSlots = 2;

// Buffers of a tile in flight. Tile t uses slot t % numSlots.
struct Slot {
	float *upload;   // pinned: a copy from pageable memory would make the caller wait
	float *download; // pinned
	float *a, *c;    // on the device
	aclrtEvent uploaded, computed; // for the other stream to wait
	aclrtEvent downloaded;         // for the host to wait
};

// Element i of tile t: a small integer, so sums are exact.
float tileValue(size_t tile, size_t i)
{
	return static_cast<float>((i * 7 + tile * 13) % 17) - 8.0f;
}

float *deviceFloats(size_t count)
{
	void *p;
	CHECK(aclrtMalloc(&p, count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
	return static_cast<float *>(p);
}

float *pinnedFloats(size_t count)
{
	void *p;
	CHECK(aclrtMallocHost(&p, count * sizeof(float)));
	return static_cast<float *>(p);
}

// These may be recorded again and again, unlike those of aclrtCreateEvent.
aclrtEvent newEvent(uint32_t flag)
{
	aclrtEvent e;
	CHECK(aclrtCreateEventExWithFlag(&e, flag));
	return e;
}

aclrtMemcpyBatchAttr batchDirection(aclrtMemLocationType from, aclrtMemLocationType to)
{
	aclrtMemcpyBatchAttr attr = {}; // device 0; the reserved bytes must be zero
	attr.srcLoc.type = from;
	attr.dstLoc.type = to;
	return attr;
}

// The expected result for a tile: (A B) * scale + bias, by columns.
void expectedTile(size_t tile, size_t size, const std::vector<float> &b, const float *scale, const float *bias,
                  std::vector<float> &c)
{
	c.assign(size * size, 0.0f);
	for (size_t i = 0; i < size; i++) {
		for (size_t k = 0; k < size; k++) {
			float a = tileValue(tile, i * size + k);
			for (size_t j = 0; j < size; j++)
				c[i * size + j] += a * b[k * size + j];
		}
		for (size_t j = 0; j < size; j++)
			c[i * size + j] = c[i * size + j] * scale[j] + bias[j];
	}
}

} // namespace

int main(int argc, char **argv)
{
	size_t tiles = 16, size = 64;
	const char *kernels = nullptr;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--tiles")) {
			tiles = example_number(argc, argv, &i, 1, 1000000);
		} else if (!strcmp(argv[i], "--size")) {
			size = example_number(argc, argv, &i, 1, 2048);
		} else if (!strcmp(argv[i], "--kernels")) {
			kernels = example_text(argc, argv, &i);
		} else {
			fputs(usage, stderr);
			return 2;
		}
	}
	char path[PATH_MAX];
	example_kernel_path(kernels, "matmul_kernels.o", path);
	const size_t elements = size * size, bytes = elements * sizeof(float);

	CHECK(aclInit(nullptr));
	CHECK(aclrtSetDevice(0));
	aclrtStream copy, compute;
	CHECK(aclrtCreateStream(&copy));
	CHECK(aclrtCreateStreamWithConfig(&compute, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
	aclrtBinHandle binary;
	aclrtFuncHandle multiply, scaleBias;
	CHECK(aclrtBinaryLoadFromFile(path, nullptr, &binary));
	CHECK(aclrtBinaryGetFunction(binary, "matmul_accumulate", &multiply));
	CHECK(aclrtBinaryGetFunction(binary, "scale_bias", &scaleBias));

	// B is the left part of a wider matrix in pageable memory; a 2-D copy packs it on the way.
	const size_t pitch = size + 5;
	std::vector<float> wide(size * pitch, -1e9f), b(elements);
	for (size_t i = 0; i < size; i++)
		for (size_t j = 0; j < size; j++)
			wide[i * pitch + j] = b[i * size + j] = static_cast<float>((i * 3 + j * 5) % 11) - 5.0f;
	float *devB = deviceFloats(elements);
	CHECK(aclrtMemcpy2d(devB, size * sizeof(float), wide.data(), pitch * sizeof(float), size * sizeof(float), size,
	                    ACL_MEMCPY_HOST_TO_DEVICE));

	// Copied back, to check the packing. With pageable memory the runtime usually waits for the stream and copies.
	// If it does not recognize pageable memory, the copy is asynchronous, so wait for the stream.
	std::vector<float> packed(elements);
	CHECK(aclrtMemcpyAsync(packed.data(), bytes, devB, bytes, ACL_MEMCPY_DEVICE_TO_HOST, copy));
	CHECK(aclrtSynchronizeStream(copy));

	// Two small arrays in one call: a batch is cheaper than a call for each, but its copies have no order among them.
	float *scale = pinnedFloats(size), *bias = pinnedFloats(size);
	for (size_t j = 0; j < size; j++) {
		scale[j] = static_cast<float>(1 << (j % 4)) * 0.25f;
		bias[j] = static_cast<float>(j % 9);
	}
	float *devScale = deviceFloats(size), *devBias = deviceFloats(size);
	{
		void *to[] = {devScale, devBias}, *from[] = {scale, bias};
		size_t sizes[] = {size * sizeof(float), size * sizeof(float)};
		size_t attrIndex = 0, failed = 0;
		aclrtMemcpyBatchAttr attr = batchDirection(ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_DEVICE);
		CHECK(aclrtMemcpyBatchAsync(to, sizes, from, sizes, 2, &attr, &attrIndex, 1, &failed, compute));
	}

	Slot slots[numSlots];
	for (Slot &s : slots) {
		s.upload = pinnedFloats(elements);
		s.download = pinnedFloats(elements);
		s.a = deviceFloats(elements);
		s.c = deviceFloats(elements);
		s.uploaded = newEvent(ACL_EVENT_SYNC);
		s.computed = newEvent(ACL_EVENT_SYNC);
		s.downloaded = newEvent(ACL_EVENT_CAPTURE_STREAM_PROGRESS);
		// Nothing reads this fill; every tile clears its own result again, in stream order.
		CHECK(aclrtMemset(s.c, bytes, 0xff, bytes));
	}
	aclrtEvent begin = newEvent(ACL_EVENT_TIME_LINE), end = newEvent(ACL_EVENT_TIME_LINE);

	std::vector<float> results(tiles * elements);
	auto collect = [&](size_t tile) {
		Slot &s = slots[tile % numSlots];
		CHECK(aclrtSynchronizeEvent(s.downloaded));
		memcpy(&results[tile * elements], s.download, bytes);
	};
	auto download = [&](size_t tile) {
		Slot &s = slots[tile % numSlots];
		CHECK(aclrtStreamWaitEvent(copy, s.computed));
		CHECK(aclrtMemcpyAsync(s.download, bytes, s.c, bytes, ACL_MEMCPY_DEVICE_TO_HOST, copy));
		CHECK(aclrtRecordEvent(s.downloaded, copy));
	};

	CHECK(aclrtRecordEvent(begin, copy));
	for (size_t t = 0; t < tiles; t++) {
		Slot &s = slots[t % numSlots];
		// The slot's last download comes after its upload and its compute, so then all buffers are free.
		if (t >= numSlots)
			collect(t - numSlots);
		for (size_t i = 0; i < elements; i++)
			s.upload[i] = tileValue(t, i);
		CHECK(aclrtMemcpyAsync(s.a, bytes, s.upload, bytes, ACL_MEMCPY_HOST_TO_DEVICE, copy));
		CHECK(aclrtRecordEvent(s.uploaded, copy));

		CHECK(aclrtStreamWaitEvent(compute, s.uploaded));
		CHECK(aclrtMemsetAsync(s.c, bytes, 0, bytes, compute));
		struct {
			matmul_accumulate_block args;
			matmul_tiling tiling;
		} m = {{s.a, devB, s.c, nullptr},
		       {static_cast<uint32_t>(size), static_cast<uint32_t>(size), static_cast<uint32_t>(size), 0}};
		aclrtPlaceHolderInfo placeHolder = {};
		placeHolder.addrOffset = offsetof(matmul_accumulate_block, tiling);
		placeHolder.dataOffset = sizeof m.args;
		CHECK(aclrtLaunchKernelWithHostArgs(multiply, 4, compute, nullptr, &m, sizeof m, &placeHolder, 1));
		scale_bias_block sb = {s.c, devScale, devBias, static_cast<uint32_t>(size), static_cast<uint32_t>(size)};
		CHECK(aclrtLaunchKernelWithHostArgs(scaleBias, 2, compute, nullptr, &sb, sizeof sb, nullptr, 0));
		CHECK(aclrtRecordEvent(s.computed, compute));

		// The previous tile's result only now: requested earlier, it would delay this tile's upload on the copy
		// stream.
		if (t > 0)
			download(t - 1);
	}
	download(tiles - 1);
	CHECK(aclrtRecordEvent(end, copy));
	for (size_t t = tiles > numSlots ? tiles - numSlots : 0; t < tiles; t++)
		collect(t);
	CHECK(aclrtSynchronizeStream(compute));
	CHECK(aclrtSynchronizeStream(copy));

	float ms = -1;
	CHECK(aclrtEventElapsedTime(&ms, begin, end));

	// The last results are still on the device: once more, both in one call.
	const size_t last = tiles < numSlots ? tiles : numSlots;
	float *again = pinnedFloats(last * elements);
	{
		std::vector<void *> to, from;
		for (size_t t = tiles - last; t < tiles; t++) {
			to.push_back(&again[to.size() * elements]);
			from.push_back(slots[t % numSlots].c);
		}
		std::vector<size_t> sizes(last, bytes);
		size_t attrIndex = 0, failed = 0;
		aclrtMemcpyBatchAttr attr = batchDirection(ACL_MEM_LOCATION_TYPE_DEVICE, ACL_MEM_LOCATION_TYPE_HOST);
		CHECK(aclrtMemcpyBatch(to.data(), sizes.data(), from.data(), sizes.data(), last, &attr, &attrIndex, 1, &failed));
	}

	size_t wrong = 0;
	if (packed != b) {
		printf("the 2-D copy is wrong\n");
		wrong++;
	}
	std::vector<float> want;
	for (size_t t = 0; t < tiles; t++) {
		expectedTile(t, size, b, scale, bias, want);
		if (memcmp(&results[t * elements], want.data(), bytes)) {
			printf("tile %zu is wrong\n", t);
			wrong++;
		}
		if (t >= tiles - last && memcmp(&again[(t - (tiles - last)) * elements], want.data(), bytes)) {
			printf("tile %zu is wrong in the batch copy\n", t);
			wrong++;
		}
	}
	if (!(ms >= 0)) {
		printf("elapsed time %g ms\n", ms);
		wrong++;
	}

	CHECK(aclrtFreeHost(again));
	CHECK(aclrtDestroyEvent(end));
	CHECK(aclrtDestroyEvent(begin));
	for (Slot &s : slots) {
		CHECK(aclrtDestroyEvent(s.downloaded));
		CHECK(aclrtDestroyEvent(s.computed));
		CHECK(aclrtDestroyEvent(s.uploaded));
		CHECK(aclrtFree(s.c));
		CHECK(aclrtFree(s.a));
		CHECK(aclrtFreeHost(s.download));
		CHECK(aclrtFreeHost(s.upload));
	}
	CHECK(aclrtFree(devBias));
	CHECK(aclrtFree(devScale));
	CHECK(aclrtFreeHost(bias));
	CHECK(aclrtFreeHost(scale));
	CHECK(aclrtFree(devB));
	CHECK(aclrtBinaryUnLoad(binary));
	CHECK(aclrtDestroyStream(compute));
	CHECK(aclrtDestroyStream(copy));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());

	if (wrong)
		return 1;
	printf("matmul_pipeline: %zu tiles of %zux%zu right, %.3f ms on the device\n", tiles, size, size, ms);
	return 0;
}
