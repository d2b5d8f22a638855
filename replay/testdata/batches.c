/* Streams on four threads, each with batches of copies in both directions: 32 of 4096 each, or as many as are named. */
#include "program.h"

enum { THREADS = 4, ITEM = 16 };

static size_t streams = 32, items = 4096;

static void *work(void *arg)
{
	size_t me = (size_t)arg;
	CHECK(aclrtSetDevice(0));
	static const aclrtMemLocation host = {0, ACL_MEM_LOCATION_TYPE_HOST}, device = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	for (size_t k = me; k < streams; k += THREADS) {
		aclrtStream s;
		CHECK(aclrtCreateStream(&s));
		uint8_t *pinned, *memory = device_memory(items * ITEM);
		CHECK(aclrtMallocHost((void **)&pinned, 2 * items * ITEM));
		void **to = calloc(items, sizeof *to), **from = calloc(items, sizeof *from);
		size_t *sizes = calloc(items, sizeof *sizes), *most = calloc(items, sizeof *most), index = 0, fail = 0;
		for (size_t i = 0; i < items; i++) {
			to[i] = memory + (i * 1237) % items * ITEM;
			from[i] = pinned + i * ITEM;
			sizes[i] = 1 + i % ITEM;
			most[i] = ITEM;
			memset(from[i], (int)(i * 3 + k), ITEM);
		}
		CHECK(aclrtMemset(memory, items * ITEM, (int)k + 100, items * ITEM));
		aclrtMemcpyBatchAttr in = {device, host, {0}}, out = {host, device, {0}};
		CHECK(aclrtMemcpyBatchAsync(to, most, from, sizes, items, &in, &index, 1, &fail, s));
		for (size_t i = 0; i < items; i++)
			from[i] = pinned + (items + i) * ITEM;
		memset(pinned + items * ITEM, 0, items * ITEM);
		CHECK(aclrtMemcpyBatchAsync(from, most, to, sizes, items, &out, &index, 1, &fail, s));
		CHECK(aclrtSynchronizeStream(s));
		for (size_t i = 0; i < items; i++)
			EXPECT(memcmp(pinned + i * ITEM, from[i], sizes[i]) == 0);
		CHECK(aclrtDestroyStream(s));
		CHECK(aclrtFree(memory));
		CHECK(aclrtFreeHost(pinned));
		free(to);
		free(from);
		free(sizes);
		free(most);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc > 3) {
		streams = strtoul(argv[2], NULL, 10);
		items = strtoul(argv[3], NULL, 10);
	}
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	pthread_t threads[THREADS];
	for (size_t t = 0; t < THREADS; t++)
		pthread_create(&threads[t], NULL, work, (void *)t);
	for (size_t t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
