/*
 * Payloads that have numbers which look like addresses, or addresses: words BINARY KIND [SEED]. Each kind has one result, besides the copies of its payload.
 */
#include "program.h"

enum { COUNT = 8192, NODES = 100, PART = 4096 };

static aclrtStream stream;
static const char *binary;
static int64_t *out;

/* Launches a kernel that sums up `count` numbers, and checks the sum. */
static void expect(const char *name, struct sum_args args, const int32_t *x, uint64_t count)
{
	int64_t want = 0, got = 0;
	for (uint64_t i = 0; i < count; i++)
		want += (int64_t)(i + 1) * x[i];
	args.out = out;
	launch(kernel(binary, name), 1, stream, &args, sizeof args);
	CHECK(aclrtSynchronizeStream(stream));
	to_host(&got, out, sizeof got);
	EXPECT(got == want);
}

static void numbers(const int32_t *x)
{
	int32_t *there = device_memory(COUNT * sizeof *x);
	to_device(there, x, COUNT * sizeof *x);
	expect("sum", (struct sum_args){.x = there, .count = COUNT}, x, COUNT);
}

static void list(void)
{
	struct node nodes[NODES], *pool = device_memory(sizeof nodes);
	int64_t want = 0, got = 0;
	for (int k = 0, i = 3; k < NODES; k++, i = (i + 37) % NODES) {
		nodes[i].value = k * 1000 + 7;
		nodes[i].next = k + 1 < NODES ? &pool[(i + 37) % NODES] : NULL;
		want += (k + 1) * nodes[i].value;
	}
	to_device(pool, nodes, sizeof nodes);
	struct walk_args args = {out, pool, NODES, 3};
	launch(kernel(binary, "walk"), 1, stream, &args, sizeof args);
	CHECK(aclrtSynchronizeStream(stream));
	to_host(&got, out, sizeof got);
	EXPECT(got == want);
}

/* A structure with one pointer: to an allocation, or into a pool. */
static void tiling(const char *kind, const int32_t *x)
{
	struct tiling t = {.rows = 128, .columns = 64, .tile = {16, 32, 64, 4672, 1, 2}, .count = 256, .cores = 20, .flags = {1, 2, 3, 4}};
	char *pool = device_memory(COUNT * sizeof *x);
	to_device(pool, x, COUNT * sizeof *x);
	if (strcmp(kind, "passed") == 0 || strcmp(kind, "hidden") == 0 || strcmp(kind, "pool") == 0) {
		x += PART / 4;
		pool += PART;
	}
	if (strcmp(kind, "passed") == 0)
		to_device(pool, x, PART);
	t.x = (const int32_t *)(void *)pool;
	/* Packed structures have pointers at other bytes than multiples of 8. */
	size_t before = strcmp(kind, "packed") == 0 || strcmp(kind, "pool") == 0 ? 4 : strcmp(kind, "bytes") == 0 ? 3 : 0;
	char data[sizeof t + 4] = {1, 2, 3, 4};
	memcpy(data + before, &t, sizeof t);
	char *there = device_memory(sizeof data);
	to_device(there, data, sizeof data);
	expect("tiled", (struct sum_args){.tiling = (void *)(there + before), .count = 1}, x, t.count);
}

static void *memory(const char *kind, size_t size)
{
	void *p;
	if (strcmp(kind, "managed") == 0) {
		CHECK(aclrtMemAllocManaged(&p, size, 1));
	} else if (strcmp(kind, "mapped") == 0) {
		aclrtPhysicalMemProp prop = {.location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}, .memAttr = ACL_HBM_MEM_HUGE};
		aclrtDrvMemHandle physical;
		CHECK(aclrtReserveMemAddress(&p, 2 << 20, 0, NULL, 0));
		CHECK(aclrtMallocPhysical(&physical, 2 << 20, &prop, 0));
		CHECK(aclrtMapMem(p, 2 << 20, 0, physical, 0));
	} else {
		return device_memory(size);
	}
	return p;
}

int main(int argc, char **argv)
{
	const char *kind = argv[2];
	int32_t x[COUNT];
	binary = argv[1];
	srand(argc > 3 ? (unsigned)atoi(argv[3]) : 1);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&stream));
	char *weights = device_memory(40ull << 30);
	out = device_memory(sizeof *out);
	for (int i = 0; i < COUNT; i++)
		x[i] = strcmp(kind, "ramp") == 0 ? 2000 + i : rand() % (strcmp(kind, "tokens") == 0 ? 32000 : 1000);
	/* Pairs of 32-bit numbers that are the start of an allocation, a row of words in one, and a row whose lower halves are large. */
	for (int i = 0; strcmp(kind, "pairs") == 0 && i < COUNT; i += 2) {
		uint64_t at = (uint64_t)(uintptr_t)weights >> 32;
		x[i] = i < 100 ? 0 : i < 1000 ? 7 : 0x40000000 + 64 * i;
		x[i + 1] = (int32_t)(i < 100 ? at : i < 1000 ? at + (uint64_t)i % 9 : at - 20 + (uint64_t)i / 2 % 60);
	}
	if (strcmp(kind, "list") == 0) {
		list();
	} else if (strcmp(kind, "minus") == 0 || strcmp(kind, "managed") == 0 || strcmp(kind, "mapped") == 0) {
		int32_t *there = memory(kind, sizeof x);
		char *anchor = memory(kind, PART);
		to_device(there, x, sizeof x);
		expect("minus", (struct sum_args){.above = (uint64_t)(uintptr_t)anchor, .by = (uint64_t)(uintptr_t)anchor - (uint64_t)(uintptr_t)there, .count = COUNT}, x, COUNT);
	} else if (strcmp(kind, "tokens") == 0 || strcmp(kind, "ramp") == 0 || strcmp(kind, "pairs") == 0) {
		numbers(x);
	} else {
		tiling(kind, x);
	}
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
