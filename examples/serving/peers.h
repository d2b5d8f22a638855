// Other processes: ranks, which meet in collectives, and a producer of keys and values, which are copied from its memory.
#pragma once

#include "faults.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include "hccl_gen.h"

namespace peers {

const size_t TOKEN = HIDDEN * 4, SHARED = 256 * TOKEN; // bytes of a token's keys and values, and of all in the shared memory

struct Keys {
	char memory[65], notify[65];
};

inline HcclComm world;
inline pid_t producer;
inline int channel; // to the other process
inline Keys keys;
inline void *shared;
inline aclrtNotify arrived;

inline void require(bool so, const char *why)
{
	if (so)
		return;
	fprintf(stderr, "serving: %s\n", why);
	_exit(1);
}

// Rank 0 writes a file in the current folder, and the others wait for it.
inline void share(HcclRootInfo *root)
{
	FILE *f;
	if (options.rank == 0) {
		OK(HcclGetRootInfo(root));
		f = fopen("root.new", "wb");
		require(f && fwrite(root, sizeof *root, 1, f) == 1 && !fclose(f) && !rename("root.new", "root"), "the root information can't be written");
		return;
	}
	while (!(f = fopen("root", "rb")))
		usleep(1000);
	require(fread(root, sizeof *root, 1, f) == 1 && !fclose(f), "the root information can't be read");
}

// The producer: for each number of tokens that it reads, it writes their keys and values and records the notify.
inline void produce()
{
	aclrtStream s;
	void *memory, *host;
	OK(aclInit(nullptr));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtMalloc(&memory, SHARED, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMallocHost(&host, SHARED));
	memset(host, 1, SHARED);
	OK(aclrtIpcMemGetExportKey(memory, SHARED, keys.memory, sizeof keys.memory, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	OK(aclrtCreateNotify(&arrived, 0));
	OK(aclrtNotifyGetExportKey(arrived, keys.notify, sizeof keys.notify, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	require(write(channel, &keys, sizeof keys) == sizeof keys, "the engine has ended");
	for (size_t tokens; read(channel, &tokens, sizeof tokens) == sizeof tokens;) {
		OK(aclrtMemcpyAsync(memory, SHARED, host, tokens * TOKEN, ACL_MEMCPY_HOST_TO_DEVICE, s));
		OK(aclrtRecordNotify(arrived, s));
		OK(aclrtSynchronizeStream(s));
	}
	OK(aclrtDestroyNotify(arrived));
	OK(aclrtIpcMemClose(keys.memory));
	OK(aclrtFree(memory));
	OK(aclrtFreeHost(host));
	OK(aclrtDestroyStream(s));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
}

// Makes the producer, before the runtime starts.
inline void fork()
{
	int ends[2];
	require(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends) && (producer = ::fork()) >= 0, "no second process");
	close(ends[producer != 0]);
	channel = ends[producer == 0];
	if (producer)
		return;
	produce();
	exit(0);
}

inline void start()
{
	if (options.ranks > 1) {
		HcclRootInfo root;
		share(&root);
		OK(HcclCommInitRootInfo(static_cast<uint32_t>(options.ranks), &root, static_cast<uint32_t>(options.rank), &world));
		if (options.rank == 0)
			remove("root"); // all ranks have read it
	}
	if (!producer)
		return;
	require(read(channel, &keys, sizeof keys) == sizeof keys, "the producer has ended");
	OK(aclrtIpcMemImportByKey(&shared, keys.memory, 0));
	OK(aclrtNotifyImportByKey(&arrived, keys.notify, 0));
}

// A collective of all ranks.
inline void reduce(aclrtStream s, void *x, int64_t count)
{
	if (!world)
		return;
	if (options.rank == 1 && faults::now("rank-missing"))
		return;
	queue.push([=] { OK(HcclAllReduce(x, x, static_cast<uint64_t>(count), HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, world, s)); });
}

// Keys and values of prompts.
inline void fetch(size_t tokens)
{
	if (!producer)
		return;
	require(write(channel, &tokens, sizeof tokens) == sizeof tokens, "the producer has ended");
	bool unordered = faults::now("peer-unordered");
	queue.push([=] {
		if (!unordered)
			OK(aclrtWaitAndResetNotify(arrived, streams.main, 0));
		for (void *cache : caches)
			OK(aclrtMemcpyAsync(cache, tokens * TOKEN, shared, tokens * TOKEN, ACL_MEMCPY_DEVICE_TO_DEVICE, streams.main));
	});
	queue.drain();
}

inline void end()
{
	if (world)
		HcclCommDestroy(world);
	if (!producer)
		return;
	OK(aclrtDestroyNotify(arrived));
	OK(aclrtIpcMemClose(keys.memory));
	close(channel);
	waitpid(producer, nullptr, 0);
}

} // namespace peers
