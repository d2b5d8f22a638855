// Other processes: ranks, which meet in collectives, and a producer of keys and values, which are copied from its memory.
#include "serving.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "hccl_gen.h"

namespace {

const size_t TOKEN = HIDDEN * 4, SHARED = 256 * TOKEN; // bytes of a token's keys and values, and of all in the shared memory

struct Keys {
	char memory[65], notify[65];
};

HcclComm world;
pid_t producer;
int channel; // to the producer
Keys keys;
void *shared;
aclrtNotify arrived;

const char *const ROOT = "root"; // file with the root information, in the current folder

// Rank 0 writes the file and the others wait for it.
void share(HcclRootInfo *root)
{
	const char *part = "root.new";
	bool first = options.rank == 0;
	FILE *f = first ? fopen(part, "wb") : nullptr;
	if (first)
		OK(HcclGetRootInfo(root));
	else
		while (!(f = fopen(ROOT, "rb")))
			usleep(1000);
	if (!f || (first ? fwrite(root, sizeof *root, 1, f) : fread(root, sizeof *root, 1, f)) != 1 || fclose(f) || (first && rename(part, ROOT))) {
		fputs("serving: the root information can't be passed\n", stderr);
		exit(1);
	}
}

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
		HcclRootInfo root;
		share(&root);
		OK(HcclCommInitRootInfo(static_cast<uint32_t>(options.ranks), &root, static_cast<uint32_t>(options.rank), &world));
		if (options.rank == 0)
			remove(ROOT); // all ranks have read it
	}
	if (!options.peer)
		return;
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || fcntl(ends[0], F_SETFD, FD_CLOEXEC)) {
		perror("socketpair");
		exit(1);
	}
	channel = ends[0];
	std::string end = std::to_string(ends[1]);
	char self[] = "serving", flag[] = "--produce", *argv[] = {self, flag, end.data(), nullptr};
	if (posix_spawn(&producer, "/proc/self/exe", nullptr, nullptr, argv, environ)) {
		perror("posix_spawn");
		exit(1);
	}
	close(ends[1]);
	transfer(read, channel, &keys, sizeof keys);
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
	transfer(writes, channel, &tokens, sizeof tokens);
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
	if (argc != 3 || strcmp(argv[1], "--produce"))
		return false;
	int end = atoi(argv[2]);
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
	transfer(writes, end, &mine, sizeof mine);
	for (size_t tokens; read(end, &tokens, sizeof tokens) == sizeof tokens;) {
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
	close(channel);
	waitpid(producer, nullptr, 0);
}

} // namespace peers
