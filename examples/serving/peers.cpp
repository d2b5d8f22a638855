// Other processes: ranks, which meet in collectives, and a producer of keys and values, which are copied from its memory.
#include "serving.h"

#include <spawn.h>
#include <sys/wait.h>

#include "hccl_gen.h"

namespace {

const size_t TOKEN = HIDDEN * 4, SHARED = 256 * TOKEN; // bytes of a token's keys and values, and of all in the shared memory

struct Keys {
	char memory[65], notify[65];
};

HcclComm world;
pid_t producer;
int toProducer = -1, fromProducer = -1;
Keys keys;
void *shared;
aclrtNotify arrived;

void transfer(ssize_t (*call)(int, void *, size_t), int fd, void *p, size_t n)
{
	if (call(fd, p, n) != static_cast<ssize_t>(n)) {
		fputs("serving: the other process has ended\n", stderr);
		exit(1);
	}
}

ssize_t writes(int fd, void *p, size_t n) { return ::write(fd, p, n); }

} // namespace

namespace peers {

void start()
{
	if (options.ranks > 1) {
		std::string job = "ranks." + std::to_string(options.ranks);
		OK(HcclCommInitClusterInfo(job.c_str(), static_cast<uint32_t>(options.rank), &world));
	}
	if (!options.peer)
		return;
	int down[2], up[2];
	if (pipe(down) || pipe(up)) {
		perror("pipe");
		exit(1);
	}
	std::string in = std::to_string(down[0]), out = std::to_string(up[1]), close = std::to_string(down[1]);
	char self[] = "serving", flag[] = "--produce";
	char *argv[] = {self, flag, in.data(), out.data(), close.data(), nullptr};
	if (posix_spawn(&producer, "/proc/self/exe", nullptr, nullptr, argv, environ)) {
		perror("posix_spawn");
		exit(1);
	}
	::close(down[0]);
	::close(up[1]);
	toProducer = down[1];
	fromProducer = up[0];
	transfer(::read, fromProducer, &keys, sizeof keys);
	OK(aclrtIpcMemImportByKey(&shared, keys.memory, 0));
	OK(aclrtNotifyImportByKey(&arrived, keys.notify, 0));
}

void reduce(aclrtStream s, void *x, int64_t count)
{
	if (!world)
		return;
	if (faults::now("rank-missing") && options.rank == 1)
		return faults::blames("HcclAllReduce", 0, "rank 1");
	queue.push([=] { OK(HcclAllReduce(x, x, static_cast<uint64_t>(count), HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, world, s)); });
}

void fetch(size_t tokens)
{
	if (!producer)
		return;
	transfer(writes, toProducer, &tokens, sizeof tokens);
	queue.push([=] {
		if (!faults::now("peer-unordered"))
			OK(aclrtWaitAndResetNotify(arrived, streams.main, 0));
		for (void *cache : caches)
			OK(aclrtMemcpyAsync(cache, tokens * TOKEN, shared, tokens * TOKEN, ACL_MEMCPY_DEVICE_TO_DEVICE, streams.main));
	});
	queue.drain();
	if (faults::now("peer-unordered"))
		faults::blames("aclrtMemcpyAsync", 0, "", shared);
}

// The producer: for each number of tokens that it reads, it writes their keys and values and records the notify.
bool produce(int argc, char **argv)
{
	if (argc != 5 || strcmp(argv[1], "--produce"))
		return false;
	int in = atoi(argv[2]), out = atoi(argv[3]);
	close(atoi(argv[4]));
	aclrtStream s;
	void *memory, *host;
	aclrtNotify done;
	Keys mine = {};
	OK(aclInit(nullptr));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtMalloc(&memory, SHARED, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMallocHost(&host, SHARED));
	memset(host, 1, SHARED);
	OK(aclrtIpcMemGetExportKey(memory, SHARED, mine.memory, sizeof mine.memory, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	OK(aclrtCreateNotify(&done, 0));
	OK(aclrtNotifyGetExportKey(done, mine.notify, sizeof mine.notify, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	transfer(writes, out, &mine, sizeof mine);
	for (size_t tokens; read(in, &tokens, sizeof tokens) == sizeof tokens;) {
		OK(aclrtMemcpyAsync(memory, SHARED, host, tokens * TOKEN, ACL_MEMCPY_HOST_TO_DEVICE, s));
		OK(aclrtRecordNotify(done, s));
		OK(aclrtSynchronizeStream(s));
	}
	OK(aclrtDestroyNotify(done));
	OK(aclrtIpcMemClose(mine.memory));
	OK(aclrtFree(memory));
	OK(aclrtFreeHost(host));
	OK(aclrtDestroyStream(s));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return true;
}

void end()
{
	if (world)
		HcclCommDestroy(world);
	if (!producer)
		return;
	OK(aclrtDestroyNotify(arrived));
	OK(aclrtIpcMemClose(keys.memory));
	close(toProducer);
	waitpid(producer, nullptr, 0);
}

} // namespace peers
