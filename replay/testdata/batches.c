/* 32 streams on four threads, each with batches of 4096 copies in both directions. */
#include "program.h"

enum { THREADS = 4, STREAMS = 32, ITEMS = 4096, ITEM = 16 };

static void *work(void *arg)
{
	size_t me = (size_t)arg;
	CHECK(aclrtSetDevice(0));
	static const aclrtMemLocation host = {0, ACL_MEM_LOCATION_TYPE_HOST}, device = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	for (size_t k = me; k < STREAMS; k += THREADS) {
		aclrtStream s;
		CHECK(aclrtCreateStream(&s));
		uint8_t *pinned, *memory = device_memory(ITEMS * ITEM);
		CHECK(aclrtMallocHost((void **)&pinned, 2 * ITEMS * ITEM));
		void **to = calloc(ITEMS, sizeof *to), **from = calloc(ITEMS, sizeof *from);
		size_t *sizes = calloc(ITEMS, sizeof *sizes), *most = calloc(ITEMS, sizeof *most), index = 0, fail = 0;
		for (size_t i = 0; i < ITEMS; i++) {
			to[i] = memory + (i * 1237) % ITEMS * ITEM;
			from[i] = pinned + i * ITEM;
			sizes[i] = 1 + i % ITEM;
			most[i] = ITEM;
			memset(from[i], (int)(i * 3 + k), ITEM);
		}
		CHECK(aclrtMemset(memory, ITEMS * ITEM, (int)k, ITEMS * ITEM));
		aclrtMemcpyBatchAttr in = {device, host, {0}}, out = {host, device, {0}};
		CHECK(aclrtMemcpyBatchAsync(to, most, from, sizes, ITEMS, &in, &index, 1, &fail, s));
		for (size_t i = 0; i < ITEMS; i++)
			from[i] = pinned + (ITEMS + i) * ITEM;
		memset(pinned + ITEMS * ITEM, 0, ITEMS * ITEM);
		CHECK(aclrtMemcpyBatchAsync(from, most, to, sizes, ITEMS, &out, &index, 1, &fail, s));
		CHECK(aclrtSynchronizeStream(s));
		for (size_t i = 0; i < ITEMS; i++)
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

int main(void)
{
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
