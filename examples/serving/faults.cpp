// The faults of --fault. The table says, for each, where it was reported, the feature of acltrace that names its cause, and the flags that the
// program needs. blame, where, stats and diff are commands, strict is replay --strict, merge is stats of merged ranks, none is no feature yet.
#include "serving.h"

#include <csignal>

using faults::blames, faults::blamesKernel;

namespace {

struct Fault {
	const char *name, *reported, *feature, *flags;
	Point point;
	void (*make)();    // nullptr: the engine asks for the fault by its name
	bool each = false; // in each step
};

void *host;
char bytes[1024];
aclrtStream streamOfFault;

void never(void *) { pause(); }

// The program ends after a call that fails.
void ends(const char *call, int code, const char *also = "")
{
	blames(call, code, also);
	check(code, call, __FILE__, __LINE__);
}

// Has the simulator make something on the device fail.
void device(const char *list, const char *kernel, const char *also)
{
	setenv("ACLSIM_FAULTS", list, 1);
	blamesKernel(kernel, also);
}

void captureCopy()
{
	Culprit c = {"aclrtMemcpy", "", "", 0, 0, threadId(), nullptr};
	std::thread([&] {
		OK(aclrtSetDevice(0));
		c.code = aclrtMemcpy(buffers.lengths, 64, bytes, 64, ACL_MEMCPY_HOST_TO_DEVICE);
		c.thread = threadId();
	}).join();
	truth::culprit(c);
}

void notifyLost()
{
	aclrtNotify n;
	OK(aclrtCreateNotify(&n, 0));
	OK(aclrtWaitAndResetNotify(n, streams.main, 0));
	blames("aclrtWaitAndResetNotify");
}

void waitTooShort()
{
	OK(aclrtLaunchHostFunc(streams.main, never, nullptr));
	blames("aclrtLaunchHostFunc", 0, "aclrtSynchronizeStreamWithTimeout");
	OK(aclrtSynchronizeStreamWithTimeout(streams.main, 50));
}

void noContext()
{
	std::thread([] { ends("aclrtCreateStream", aclrtCreateStream(&streamOfFault)); }).join();
}

void streamDestroyed()
{
	OK(aclrtCreateStream(&streamOfFault));
	OK(aclrtDestroyStream(streamOfFault));
	ends("aclrtSynchronizeStream", aclrtSynchronizeStream(streamOfFault), "aclrtDestroyStream");
}

void freedTwice()
{
	void *p = memory::device(4096, "fault");
	memory::deviceFree(p);
	ends("aclrtFree", aclrtFree(p));
}

void usedAfterFree()
{
	void *p = memory::device(8 << 20, "fault");
	memory::deviceFree(p);
	blamesKernel("aclnnInplaceCopy", "aclrtFree", p);
	ops::copy(streams.main, p, buffers.ids, 256);
}

void blockShared()
{
	void *p = memory::block(4096, streams.main);
	ops::fill(streams.side, p, 256, 1);
	memory::giveBack(p); // without memory::used(p, streams.side)
	p = memory::block(4096, streams.main);
	ops::copy(streams.main, p, buffers.ids, 256);
	memory::giveBack(p);
	blamesKernel("aclnnInplaceCopy", "race-between-streams");
}

void pinnedReused()
{
	char *host = static_cast<char *>(memory::pinned(8192));
	for (int i = 0; i < 2; i++) {
		memset(host, i + 1, 8192);
		OK(aclrtMemcpyAsync(buffers.blocks, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, streams.main));
	}
	blames("aclrtMemcpyAsync", 0, "host-buffer-reused");
}

void freedInFlight()
{
	void *p = memory::device(8 << 20, "fault");
	ops::fill(streams.main, p, 256, 1);
	queue.drain();
	memory::deviceFree(p);
	blames("aclrtFree", 0, "freed-in-flight");
}

void readEarly()
{
	queue.drain();
	OK(aclrtMemcpy(bytes, 1024, buffers.hidden, 1024, ACL_MEMCPY_DEVICE_TO_HOST));
	blames("aclrtMemcpy", 0, "missing-synchronization");
}

void longStep()
{
	static std::vector<char> host(2 * CACHE_SLOTS * HIDDEN * 2);
	queue.drain();
	OK(aclrtSynchronizeStream(streams.main));
	OK(aclrtMemcpy(host.data(), host.size(), caches[0], host.size(), ACL_MEMCPY_DEVICE_TO_HOST));
	blames("aclrtMemcpy");
}

void late(const char *also, bool here)
{
	if (here)
		hostWork(4000);
	blames("", 0, also);
}

const Fault table[] = {
	{"capture-sync", "vllm-ascend#6002, #10700", "blame", "", Point::capture, [] { blames("aclrtSynchronizeStream", aclrtSynchronizeStream(streams.capture)); }},
	{"capture-copy", "vllm-ascend PR 14566, xLLM PR 604", "blame", "", Point::capture, captureCopy},
	{"capture-unjoined", "vllm-ascend#13792, xLLM#2284", "blame", "--side", Point::end, nullptr},
	{"update-count", "sglang#24887", "blame", "", Point::end, nullptr},
	{"update-swapped", "vllm-ascend#8370", "none", "", Point::end, nullptr},
	{"captured-lengths", "vllm-ascend#6535", "none", "", Point::end, nullptr},
	{"value-lost", "vllm-ascend PR 8354", "blame", "", Point::end, nullptr},
	{"event-lost", "vllm-ascend PR 4233", "blame", "--events", Point::end, nullptr},
	{"notify-lost", "class: a notify that nobody records", "blame", "", Point::step, notifyLost},
	{"callback-stuck", "class: a callback that never returns", "blame", "--helpers", Point::step,
	 [] { blames("aclrtLaunchCallback", aclrtLaunchCallback(never, nullptr, ACL_CALLBACK_BLOCK, streams.main)); }},
	{"function-stuck", "class: a function that never returns", "blame", "", Point::step,
	 [] { blames("aclrtLaunchHostFunc", aclrtLaunchHostFunc(streams.main, never, nullptr)); }},
	{"wait-too-short", "vllm-ascend#13218", "blame", "", Point::step, waitTooShort},
	{"no-context", "llama.cpp#9250", "blame", "", Point::step, noContext},
	{"stream-destroyed", "class: an object after its end", "blame", "", Point::step, streamDestroyed},
	{"init-twice", "Mooncake#4026", "blame", "", Point::step, [] { ends("aclInit", aclInit(nullptr)); }},
	{"freed-twice", "class: an object after its end", "blame", "", Point::step, freedTwice},
	{"bad-copy", "class: an argument that is refused", "blame", "", Point::step,
	 [] { ends("aclrtMemcpy", aclrtMemcpy(buffers.ids, 32, bytes, 64, ACL_MEMCPY_HOST_TO_DEVICE)); }},
	{"out-of-memory", "vllm-ascend#13219", "blame", "", Point::step,
	 [] { ends("aclrtMalloc", aclrtMalloc(&host, size_t(1) << 45, ACL_MEM_MALLOC_HUGE_FIRST)); }},
	{"overrun", "llama.cpp#15330", "blame", "", Point::step,
	 [] { blamesKernel("aclnnInplaceFillScalar", "", buffers.tokens), ops::fill(streams.main, buffers.tokens, int64_t(1) << 30, 0); }},
	{"used-after-free", "class: memory after its end", "blame", "", Point::step, usedAfterFree},
	{"graph-stale", "sglang#22218", "blame", "", Point::step,
	 [] { blames("aclmdlRIExecuteAsync", 0, "", buffers.wide), memory::deviceFree(buffers.wide); }},
	{"kernel-failed", "class: a kernel fails", "blame", "--decode eager", Point::start, [] { device("kernel:aclnnSwiGlu:30=507015", "aclnnSwiGlu", "507015"); }},
	{"kernel-freed", "class: memory after its end", "where", "--decode eager", Point::start, [] { device("kernel:aclnnArgMax:10=freed", "aclnnArgMax", ""); }},
	{"kernel-timeout", "vllm-ascend#13218", "blame", "--decode eager", Point::start, [] { device("kernel:aclnnMatmul:90=timeout", "aclnnMatmul", "507014"); }},
	{"copy-failed", "class: a copy fails", "blame", "--decode eager", Point::start, [] { device("copy:60=507013", "", "aclrtMemcpyAsync"); }},
	{"device-lost", "class: a device is lost", "blame", "--decode eager", Point::start, [] { device("lost:500", "", "507010"); }},
	{"join-lost", "class: a stream that nothing joins", "strict", "--side --decode eager", Point::end, nullptr},
	{"inputs-unordered", "vllm-ascend#5761", "strict", "--decode piecewise", Point::end, nullptr},
	{"block-shared", "class: a block without record_stream", "strict", "", Point::step, blockShared},
	{"pinned-reused", "class: a pinned buffer before its copy", "strict", "", Point::step, pinnedReused},
	{"freed-in-flight", "class: memory before its last use", "strict", "", Point::submit, freedInFlight},
	{"read-early", "vllm-ascend PR 3005", "strict", "", Point::submit, readEarly},
	{"stream-leaked", "class: objects at the end", "strict", "", Point::step,
	 [] { blames("aclrtCreateStream", aclrtCreateStream(&streamOfFault), "leak"); }},
	{"peer-unordered", "vllm-ascend PR 12202", "none", "--peer", Point::end, nullptr},
	{"memory-grows", "vllm-ascend#6478", "stats", "", Point::step,
	 [] { memory::device(1 << 20, "leak"), blames("aclrtMallocAlign32", 0, "memory_grows"); }, true},
	{"long-step", "class: a step is slow", "stats", "", Point::step, longStep},
	{"error-ignored", "class: a failed call that nobody checks", "stats", "", Point::step,
	 [] { blames("aclrtQueryEventStatus", aclrtQueryEventStatus(nullptr, nullptr)); }},
	{"killed", "class: the engine is killed", "blame", "", Point::submit,
	 [] { blamesKernel("", "SIGKILL"), truth::write(), kill(getpid(), SIGKILL); }},
	{"host-slow", "vllm-ascend#6432", "stats", "", Point::step, [] { late("own_time", true); }, true},
	{"extra-sync", "vllm-ascend#8316", "diff", "", Point::step,
	 [] { queue.drain(), OK(aclrtSynchronizeDevice()), blames("aclrtSynchronizeDevice"); }, true},
	{"unfused", "class: a fusion is lost", "diff", "", Point::start, [] { options.unfused = true, blamesKernel("aclnnAddRmsNorm", "aclnnRmsNorm"); }},
	{"falls-eager", "vllm-ascend#14440, #16623", "diff", "", Point::start, [] { options.requests = 32, blames("", 0, "graph"); }},
	{"update-late", "vllm-ascend#6432", "none", "", Point::end, nullptr},
	{"rank-late", "class: a rank is late", "merge", "--ranks 2", Point::step, [] { late("rank 1", options.rank == 1); }, true},
	{"rank-missing", "vllm-ascend#13826, #9071", "none", "--ranks 2", Point::end, nullptr},
};

const Fault *chosen;
size_t step;

} // namespace

namespace faults {

bool choose(const std::string &name)
{
	for (const Fault &f : table)
		if (name == f.name)
			chosen = &f;
	return chosen;
}

void list()
{
	for (const Fault &f : table)
		printf("%s\t%s\t%s\t%s\n", f.name, f.reported, f.feature, f.flags);
}

void blames(const char *call, int code, const char *also, const void *address) { truth::culprit({call, "", also, code, threadId(), 0, address}); }
void blamesKernel(const char *kernel, const char *also, const void *address) { truth::culprit({"", kernel, also, 0, 0, 0, address}); }
bool is(const char *name) { return chosen && !strcmp(chosen->name, name); }
bool now(const char *name) { return is(name) && step == options.at; }
void setStep(size_t n) { step = n; }

void inject(Point p)
{
	if (!chosen || !chosen->make || p != chosen->point)
		return;
	static bool captured;
	bool again = p == Point::capture && captured;
	captured = p == Point::capture;
	if (!again && (chosen->each || p < Point::step || p == Point::end || step == options.at))
		chosen->make();
}

} // namespace faults
