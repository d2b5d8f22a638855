// Other processes: ranks, which meet in collectives, and a producer of keys and values, which are copied from its memory.
#pragma once

#include "faults.h"
#include "hccl_gen.h"
#include "../common/share.h"

#include <sys/wait.h>

namespace peers {
const size_t TOKEN = HIDDEN * 4, SHARED = 256 * TOKEN; // bytes of a token's keys and values, and of all in the shared memory

inline HcclComm world;
inline pid_t producer;
inline int channel; // to the other process
inline struct {
	char memory[65], notify[65];
} keys;
inline void *shared;
inline aclrtNotify arrived;

inline void require(bool so, const char *why)
{
	if (so)
		return;
	fprintf(stderr, "serving: %s\n", why);
	_exit(1);
}

// The producer: for each number of tokens that it reads, it writes their keys and values and records the notify.
inline void produce()
{
	aclrtStream s;
	void *memory, *host;
	CHECK(aclInit(nullptr));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtMalloc(&memory, SHARED, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMallocHost(&host, SHARED));
	memset(host, 1, SHARED);
	CHECK(aclrtIpcMemGetExportKey(memory, SHARED, keys.memory, sizeof keys.memory, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	CHECK(aclrtCreateNotify(&arrived, 0));
	CHECK(aclrtNotifyGetExportKey(arrived, keys.notify, sizeof keys.notify, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	require(write(channel, &keys, sizeof keys) == sizeof keys, "the engine has ended");
	for (size_t tokens; read(channel, &tokens, sizeof tokens) == sizeof tokens;) {
		CHECK(aclrtMemcpyAsync(memory, SHARED, host, tokens * TOKEN, ACL_MEMCPY_HOST_TO_DEVICE, s));
		CHECK(aclrtRecordNotify(arrived, s));
		CHECK(aclrtSynchronizeStream(s));
	}
	CHECK(aclrtDestroyNotify(arrived));
	CHECK(aclrtIpcMemClose(keys.memory));
	CHECK(aclrtFree(memory));
	CHECK(aclrtFreeHost(host));
	CHECK(aclrtDestroyStream(s));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
}

// Makes the producer, before the runtime starts.
inline void fork()
{
	int ends[2];
	require(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends) && (producer = ::fork()) >= 0, "no second process");
	close(ends[producer != 0]);
	channel = ends[producer == 0];
	if (!producer)
		produce(), exit(0);
}

inline void start()
{
	if (options.ranks > 1) {
		HcclRootInfo root;
		if (options.rank == 0)
			CHECK(HcclGetRootInfo(&root));
		example_share(&root, sizeof root, static_cast<unsigned>(options.rank), static_cast<unsigned>(options.ranks));
		CHECK(HcclCommInitRootInfo(static_cast<uint32_t>(options.ranks), &root, static_cast<uint32_t>(options.rank), &world));
	}
	if (!producer)
		return;
	require(read(channel, &keys, sizeof keys) == sizeof keys, "the producer has ended");
	CHECK(aclrtIpcMemImportByKey(&shared, keys.memory, 0));
	CHECK(aclrtNotifyImportByKey(&arrived, keys.notify, 0));
}

inline void reduce(aclrtStream s, void *x, int64_t count)
{
	if (world && (options.rank != 1 || !faults::now("rank-missing")))
		queue.push([=] { CHECK(HcclAllReduce(x, x, static_cast<uint64_t>(count), HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, world, s)); });
}

inline void fetch(size_t tokens)
{
	if (!producer)
		return;
	require(write(channel, &tokens, sizeof tokens) == sizeof tokens, "the producer has ended");
	bool unordered = faults::now("peer-unordered");
	queue.push([=] {
		if (!unordered)
			CHECK(aclrtWaitAndResetNotify(arrived, streams.main, 0));
		for (void *cache : caches)
			CHECK(aclrtMemcpyAsync(cache, tokens * TOKEN, shared, tokens * TOKEN, ACL_MEMCPY_DEVICE_TO_DEVICE, streams.main));
	});
	queue.drain();
}

inline void end()
{
	if (world)
		HcclCommDestroy(world);
	if (!producer)
		return;
	CHECK(aclrtDestroyNotify(arrived));
	CHECK(aclrtIpcMemClose(keys.memory));
	close(channel);
	waitpid(producer, nullptr, 0);
}
} // namespace peers
