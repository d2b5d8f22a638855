/* A server that runs out of memory after hours: a request that is cancelled keeps its blocks of the cache, for the path of an early return frees none. */
#include "problem.h"

enum { REQUESTS = 60, BLOCKS = 8, BLOCK = 48 << 10, CANCELLED = 4 };

typedef struct { void *blocks[BLOCKS]; } request;

static __attribute__((noinline)) void reserve_blocks(request *r)
{
	for (int i = 0; i < BLOCKS; i++)
		r->blocks[i] = device_memory(BLOCK);
}

static __attribute__((noinline)) void release_blocks(request *r)
{
	for (int i = 0; i < BLOCKS; i++)
		CHECK(aclrtFree(r->blocks[i]));
}

static aclrtStream stream;
static aclrtFuncHandle attention, mlp;
static float *tokens;
static void *x, *y;

static __attribute__((noinline)) void serve(int number)
{
	request r;

	reserve_blocks(&r);
	CHECK(aclrtMemcpyAsync(x, BYTES, tokens, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	launch(attention, stream, x, y, 0.5f, 60);
	launch(mlp, stream, y, r.blocks[0], 0.5f, 40);
	CHECK(aclrtSynchronizeStream(stream));
	if (number % CANCELLED == CANCELLED - 1)
		return; /* the client is gone */
	release_blocks(&r);
}

int main(void)
{
	problem_begin();
	stream = new_stream();
	attention = kernel("attention"), mlp = kernel("mlp");
	tokens = pinned_memory(BYTES);
	x = device_memory(BYTES), y = device_memory(BYTES);
	for (int i = 0; i < REQUESTS; i++)
		serve(i);
	printf("%d requests\n", REQUESTS);

	CHECK(aclrtFree(y));
	CHECK(aclrtFree(x));
	CHECK(aclrtFreeHost(tokens));
	CHECK(aclrtDestroyStream(stream));
	problem_end();
	return 0;
}
