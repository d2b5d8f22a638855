// The faults of --fault. The table says, for each, where it was reported, the feature of acltrace that names its cause, and the flags that the
// program needs. blame, where, stats and diff are commands, strict is replay --strict, merge is stats of merged ranks, none is no feature yet.
#include "serving.h"

#include <csignal>

namespace {

enum When { start, capture, each_step, at_step, submit, at_end, by_engine }; // by_engine: the engine asks for the fault by its name

struct Fault {
	const char *name, *reported, *feature, *flags;
	When when;
	void (*make)();
};

// The culprit is a call that this thread makes.
void blames(const char *function, int code = 0, const char *also = "", const void *address = nullptr)
{
	Culprit c;
	c.call = function, c.code = code, c.also = also, c.address = address, c.thread = threadId();
	truth::culprit(c);
}

void blamesKernel(const char *kernel, const char *also = "", const void *address = nullptr)
{
	Culprit c;
	c.kernel = kernel, c.also = also, c.address = address;
	truth::culprit(c);
}

void never(void *) { pause(); }

// Has the simulator make a kernel fail.
void device(const char *list, const char *kernel, const char *also)
{
	setenv("ACLSIM_FAULTS", list, 1);
	blamesKernel(kernel, also);
}

void captureSync() { blames("aclrtSynchronizeStream", aclrtSynchronizeStream(streams.capture)); }

void captureCopy()
{
	Culprit c;
	c.call = "aclrtMemcpy", c.otherThread = threadId();
	std::thread([&] {
		static char bytes[64];
		OK(aclrtSetDevice(0));
		c.code = aclrtMemcpy(engine::buffers.lengths, 64, bytes, 64, ACL_MEMCPY_HOST_TO_DEVICE);
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

void callbackStuck()
{
	OK(aclrtLaunchCallback(never, nullptr, ACL_CALLBACK_BLOCK, streams.main));
	blames("aclrtLaunchCallback");
}

void functionStuck()
{
	OK(aclrtLaunchHostFunc(streams.main, never, nullptr));
	blames("aclrtLaunchHostFunc");
}

void waitTooShort()
{
	OK(aclrtLaunchHostFunc(streams.main, never, nullptr));
	blames("aclrtLaunchHostFunc", 0, "aclrtSynchronizeStreamWithTimeout");
	OK(aclrtSynchronizeStreamWithTimeout(streams.main, 50));
}

void noContext()
{
	std::thread([] {
		aclrtStream s;
		int code = aclrtCreateStream(&s);
		blames("aclrtCreateStream", code);
		OK(code);
	}).join();
}

void streamDestroyed()
{
	aclrtStream s;
	OK(aclrtCreateStream(&s));
	OK(aclrtDestroyStream(s));
	int code = aclrtSynchronizeStream(s);
	blames("aclrtSynchronizeStream", code, "aclrtDestroyStream");
	OK(code);
}

void afterFinalize()
{
	int code = aclrtSetDevice(0);
	blames("aclrtSetDevice", code, "aclFinalize");
	OK(code);
}

void freedTwice()
{
	void *p = memory::device(4096, "fault");
	memory::deviceFree(p);
	int code = aclrtFree(p);
	blames("aclrtFree", code);
	OK(code);
}

void badCopy()
{
	char bytes[64] = {};
	int code = aclrtMemcpy(engine::buffers.ids, 32, bytes, 64, ACL_MEMCPY_HOST_TO_DEVICE);
	blames("aclrtMemcpy", code);
	OK(code);
}

void outOfMemory()
{
	void *p;
	int code = aclrtMalloc(&p, size_t(1) << 45, ACL_MEM_MALLOC_HUGE_FIRST);
	blames("aclrtMalloc", code);
	OK(code);
}

void overrun()
{
	blamesKernel("aclnnInplaceFillScalar", "", engine::buffers.tokens);
	ops::fill(streams.main, engine::buffers.tokens, int64_t(1) << 30, 0);
}

void usedAfterFree()
{
	void *p = memory::device(8 << 20, "fault");
	memory::deviceFree(p);
	blamesKernel("aclnnInplaceCopy", "aclrtFree", p);
	ops::copy(streams.main, p, engine::buffers.ids, 256);
}

void graphStale()
{
	blames("aclrtFree", 0, "aclmdlRIExecuteAsync", engine::buffers.wide);
	memory::deviceFree(engine::buffers.wide);
}

void blockShared()
{
	void *p = memory::block(4096, streams.main);
	ops::fill(streams.side, p, 256, 1);
	memory::giveBack(p); // without memory::used(p, streams.side)
	p = memory::block(4096, streams.main);
	ops::copy(streams.main, p, engine::buffers.ids, 256);
	memory::giveBack(p);
	blamesKernel("aclnnInplaceCopy", "race-between-streams");
}

void pinnedReused()
{
	char *host = static_cast<char *>(memory::pinned(8192));
	for (int i = 0; i < 2; i++) {
		memset(host, i + 1, 8192);
		OK(aclrtMemcpyAsync(engine::buffers.blocks, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, streams.main));
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
	static char bytes[1024];
	queue.drain();
	OK(aclrtMemcpy(bytes, 1024, engine::buffers.hidden, 1024, ACL_MEMCPY_DEVICE_TO_HOST));
	blames("aclrtMemcpy", 0, "missing-synchronization");
}

void streamLeaked()
{
	aclrtStream s;
	OK(aclrtCreateStream(&s));
	blames("aclrtCreateStream", 0, "leak");
}

void memoryGrows()
{
	memory::device(1 << 20, "leak");
	blames("aclrtMallocAlign32", 0, "memory_grows");
}

void longStep()
{
	static std::vector<char> host(2 * CACHE_SLOTS * HIDDEN * 2);
	queue.drain();
	OK(aclrtSynchronizeStream(streams.main));
	OK(aclrtMemcpy(host.data(), host.size(), engine::caches[0], host.size(), ACL_MEMCPY_DEVICE_TO_HOST));
	blames("aclrtMemcpy");
}

void errorIgnored() { blames("aclrtQueryEventStatus", aclrtQueryEventStatus(nullptr, nullptr)); }

void killed()
{
	Culprit c;
	c.also = "SIGKILL";
	truth::culprit(c);
	truth::write();
	kill(getpid(), SIGKILL);
}

void hostSlow()
{
	hostWork(4000);
	blames("", 0, "own_time");
}

void extraSync()
{
	queue.drain();
	OK(aclrtSynchronizeDevice());
	blames("aclrtSynchronizeDevice");
}

void unfused()
{
	options.unfused = true;
	blamesKernel("aclnnAddRmsNorm", "aclnnRmsNorm");
}

void fallsEager()
{
	options.requests = 32;
	blames("", 0, "aclmdlRIExecuteAsync");
}

void rankLate()
{
	if (options.rank == 1)
		hostWork(4000);
	blames("", 0, "rank 1");
}

const Fault table[] = {
	{"capture-sync", "vllm-ascend#6002, #10700", "blame", "", capture, captureSync},
	{"capture-copy", "vllm-ascend PR 14566, xLLM PR 604", "blame", "", capture, captureCopy},
	{"capture-unjoined", "vllm-ascend#13792, xLLM#2284", "blame", "--side", by_engine, nullptr},
	{"update-count", "sglang#24887", "blame", "", by_engine, nullptr},
	{"update-swapped", "vllm-ascend#8370", "none", "", by_engine, nullptr},
	{"captured-lengths", "vllm-ascend#6535", "none", "", by_engine, nullptr},
	{"value-lost", "vllm-ascend PR 8354", "blame", "", by_engine, nullptr},
	{"event-lost", "vllm-ascend PR 4233", "blame", "--events", by_engine, nullptr},
	{"notify-lost", "class: a notify that nobody records", "blame", "", at_step, notifyLost},
	{"callback-stuck", "class: a callback that never returns", "blame", "--helpers", at_step, callbackStuck},
	{"function-stuck", "class: a host function that never returns", "blame", "", at_step, functionStuck},
	{"wait-too-short", "vllm-ascend#13218", "blame", "", at_step, waitTooShort},
	{"no-context", "llama.cpp#9250", "blame", "", at_step, noContext},
	{"stream-destroyed", "class: an object after its end", "blame", "", at_step, streamDestroyed},
	{"after-finalize", "Mooncake#4026", "blame", "", at_end, afterFinalize},
	{"freed-twice", "class: an object after its end", "blame", "", at_step, freedTwice},
	{"bad-copy", "class: an argument that is refused", "blame", "", at_step, badCopy},
	{"out-of-memory", "vllm-ascend#13219", "blame", "", at_step, outOfMemory},
	{"overrun", "llama.cpp#15330", "blame", "", at_step, overrun},
	{"used-after-free", "class: memory after its end", "blame", "", at_step, usedAfterFree},
	{"graph-stale", "sglang#22218", "blame", "", at_step, graphStale},
	{"kernel-failed", "class: a kernel fails", "blame", "--decode eager", start, [] { device("kernel:aclnnSwiGlu:30=507015", "aclnnSwiGlu", "507015"); }},
	{"kernel-freed", "class: memory after its end", "where", "--decode eager", start, [] { device("kernel:aclnnArgMax:10=freed", "aclnnArgMax", ""); }},
	{"kernel-timeout", "vllm-ascend#13218", "blame", "--decode eager", start, [] { device("kernel:aclnnMatmul:90=timeout", "aclnnMatmul", "507014"); }},
	{"copy-failed", "class: a copy fails", "blame", "--decode eager", start, [] { device("copy:60=507013", "", "aclrtMemcpyAsync"); }},
	{"device-lost", "class: a device is lost", "blame", "--decode eager", start, [] { device("lost:500", "", "507010"); }},
	{"join-lost", "class: a stream that nothing joins", "strict", "--side --decode eager", by_engine, nullptr},
	{"inputs-unordered", "vllm-ascend#5761", "strict", "--decode piecewise", by_engine, nullptr},
	{"block-shared", "class: a block without record_stream", "strict", "", at_step, blockShared},
	{"pinned-reused", "class: a pinned buffer before its copy", "strict", "", at_step, pinnedReused},
	{"freed-in-flight", "class: memory before its last use", "strict", "", submit, freedInFlight},
	{"read-early", "vllm-ascend PR 3005", "strict", "", submit, readEarly},
	{"stream-leaked", "class: objects at the end", "strict", "", at_step, streamLeaked},
	{"peer-unordered", "vllm-ascend PR 12202", "none", "--peer", by_engine, nullptr},
	{"memory-grows", "vllm-ascend#6478", "stats", "", each_step, memoryGrows},
	{"long-step", "class: a step is slow", "stats", "", at_step, longStep},
	{"error-ignored", "class: a failed call that nobody checks", "stats", "", at_step, errorIgnored},
	{"killed", "class: the engine is killed", "blame", "", submit, killed},
	{"host-slow", "vllm-ascend#6432", "stats", "", each_step, hostSlow},
	{"extra-sync", "vllm-ascend#8316", "diff", "", each_step, extraSync},
	{"unfused", "class: a fusion is lost", "diff", "", start, unfused},
	{"falls-eager", "vllm-ascend#14440, #16623", "diff", "", start, fallsEager},
	{"update-late", "vllm-ascend#6432", "none", "", by_engine, nullptr},
	{"rank-late", "class: a rank is late", "merge", "--ranks 2", each_step, rankLate},
	{"rank-missing", "vllm-ascend#13826, #9071", "none", "--ranks 2", by_engine, nullptr},
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

bool is(const char *name) { return chosen && !strcmp(chosen->name, name); }
bool now(const char *name) { return is(name) && step == options.at; }
void setStep(size_t n) { step = n; }

void inject(Point p)
{
	if (!chosen || !chosen->make)
		return;
	static bool captured;
	switch (chosen->when) {
	case start: p == Point::start ? chosen->make() : void(); break;
	case capture: p == Point::capture && !captured ? captured = true, chosen->make() : void(); break;
	case each_step: p == Point::step ? chosen->make() : void(); break;
	case at_step: p == Point::step && step == options.at ? chosen->make() : void(); break;
	case submit: p == Point::submit && step == options.at ? chosen->make() : void(); break;
	case at_end: p == Point::end ? chosen->make() : void(); break;
	case by_engine: break;
	}
}

} // namespace faults
