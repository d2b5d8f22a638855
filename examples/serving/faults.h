// The faults of --fault. A row has its public report, the things to name, the feature of acltrace that names them, and the flags of the program.
// Features: blame, where, stats and diff are commands. strict is replay --strict. merge and ranks are stats and blame of merged ranks.
#pragma once

#include "memory.h"
#include "operators.h"

#include <csignal>

namespace faults {
enum class Point { start, capture, step, graph, submit, engine }; // places of faults. The engine asks for its own by their names

struct Fault {
	const char *name, *reported, *named, *feature, *flags;
	Point point;
	void (*make)() = nullptr;
	bool each = false; // in each step
};

// The code and the thread of the call must be named too.
inline int named(int code)
{
	truth("named", code);
	truth("named", threadId());
	return code;
}

inline char host[4 << 20];
inline aclrtStream other;
inline aclrtNotify lost;
inline void *block;

inline void never(void *) { pause(); }
inline void failOnDevice(const char *list) { setenv("ACLSIM_FAULTS", list, 1); }

inline void captureCopy()
{
	truth("named", threadId());
	std::thread([] {
		CHECK(aclrtSetDevice(0));
		named(aclrtMemcpy(buffers.lengths, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE));
	}).join();
}

inline void *freed()
{
	block = memory::device(8 << 20, "fault");
	memory::deviceFree(block);
	truth("named", block);
	return block;
}

inline void blockShared()
{
	block = memory::block(4096, streams.main);
	ops::fill(streams.side, block, 256);
	memory::giveBack(block); // without memory::used(block, streams.side)
	ops::copy(streams.main, memory::block(4096, streams.main), buffers.ids, 256);
}

inline void pinnedReused()
{
	block = memory::pinned(8192);
	for (int i = 0; i < 2; i++) {
		memset(block, i + 1, 8192);
		CHECK(aclrtMemcpyAsync(buffers.blocks, 4096, block, 4096, ACL_MEMCPY_HOST_TO_DEVICE, streams.main));
	}
}

inline void freedInFlight()
{
	block = memory::device(8 << 20, "fault");
	ops::fill(streams.main, block, 256);
	queue.drain();
	memory::deviceFree(block);
}

const Fault table[] = {
	{"capture-sync", "vllm-ascend#6002, #10700", "aclrtSynchronizeStream", "blame", "", Point::capture, [] { named(aclrtSynchronizeStream(streams.capture)); }},
	{"capture-copy", "vllm-ascend PR 14566, xLLM PR 604", "aclrtMemcpy", "blame", "", Point::capture, captureCopy},
	{"capture-unjoined", "vllm-ascend#13792, xLLM#2284", "aclmdlRICaptureEnd 107025", "blame", "--side", Point::engine},
	{"update-count", "sglang#24887", "aclnnFusedInferAttentionScoreV3", "blame", "", Point::engine},
	{"update-swapped", "vllm-ascend#8370", "aclnnFusedInferAttentionScoreV3", "blame", "--sizes 3", Point::engine}, // each graph runs often
	{"captured-lengths", "vllm-ascend#6535", "kept_arguments aclnnFusedInferAttentionScoreV3", "stats", "", Point::engine},
	{"value-lost", "vllm-ascend PR 8354", "aclmdlRIExecuteAsync", "blame", "", Point::engine},
	{"event-lost", "vllm-ascend PR 4233", "aclmdlRIExecuteAsync", "blame", "--events", Point::engine},
	{"notify-lost", "class: a notify that nobody records", "aclrtWaitAndResetNotify", "blame", "", Point::step,
	 [] { CHECK(aclrtCreateNotify(&lost, 0)), CHECK(aclrtWaitAndResetNotify(lost, streams.main, 0)); }},
	{"callback-stuck", "class: a callback that never returns", "aclrtLaunchCallback", "blame", "--helpers", Point::step,
	 [] { CHECK(aclrtLaunchCallback(never, nullptr, ACL_CALLBACK_BLOCK, streams.main)); }},
	{"function-stuck", "class: a function that never returns", "aclrtLaunchHostFunc", "blame", "", Point::step,
	 [] { CHECK(aclrtLaunchHostFunc(streams.main, never, nullptr)); }},
	{"wait-too-short", "vllm-ascend#13218", "aclrtLaunchHostFunc aclrtSynchronizeStreamWithTimeout", "blame", "", Point::step,
	 [] { CHECK(aclrtLaunchHostFunc(streams.main, never, nullptr)), CHECK(aclrtSynchronizeStreamWithTimeout(streams.main, 50)); }},
	{"no-context", "llama.cpp#9250", "aclrtCreateStream", "blame", "", Point::step,
	 [] { std::thread([] { CHECK(named(aclrtCreateStream(&other))); }).join(); }},
	{"stream-destroyed", "class: an object after its end", "aclrtSynchronizeStream aclrtDestroyStream", "blame", "", Point::step,
	 [] { CHECK(aclrtCreateStream(&other)), CHECK(aclrtDestroyStream(other)), CHECK(named(aclrtSynchronizeStream(other))); }},
	{"init-twice", "Mooncake#4026", "aclInit", "blame", "", Point::step, [] { CHECK(named(aclInit(nullptr))); }},
	{"freed-twice", "class: an object after its end", "aclrtFree", "blame", "", Point::step, [] { CHECK(named(aclrtFree(freed()))); }},
	{"bad-copy", "class: an argument that is refused", "aclrtMemcpy", "blame", "", Point::step,
	 [] { CHECK(named(aclrtMemcpy(buffers.ids, 32, host, 64, ACL_MEMCPY_HOST_TO_DEVICE))); }},
	{"out-of-memory", "vllm-ascend#13219", "aclrtMalloc", "blame", "", Point::step,
	 [] { CHECK(named(aclrtMalloc(&block, size_t(1) << 45, ACL_MEM_MALLOC_HUGE_FIRST))); }},
	{"overrun", "llama.cpp#15330", "aclnnInplaceFillScalar", "blame", "", Point::step,
	 [] { truth("named", buffers.positions), ops::fill(streams.main, buffers.positions, int64_t(1) << 30); }},
	{"used-after-free", "class: memory after its end", "aclnnInplaceCopy aclrtFree", "blame", "", Point::step,
	 [] { ops::copy(streams.main, freed(), buffers.ids, 256); }},
	{"graph-stale", "sglang#22218", "aclmdlRIExecuteAsync", "blame", "", Point::graph,
	 [] { truth("named", buffers.wide), memory::deviceFree(buffers.wide); }},
	{"kernel-failed", "class: a kernel fails", "aclnnSwiGlu 507015", "blame", "--decode eager", Point::start,
	 [] { failOnDevice("kernel:aclnnSwiGlu:30=507015"); }},
	{"kernel-freed", "class: memory after its end", "aclnnSwiGlu", "where", "--decode eager", Point::start, [] { failOnDevice("kernel:aclnnSwiGlu:10=freed"); }},
	{"kernel-timeout", "vllm-ascend#13218", "aclnnMatmul 507014", "blame", "--decode eager", Point::start, [] { failOnDevice("kernel:aclnnMatmul:90=timeout"); }},
	{"copy-failed", "class: a copy fails", "aclrtMemcpyAsync", "blame", "--decode eager --peer", Point::start, [] { failOnDevice(("copy:" + std::to_string(6 * options.layers + 3) + "=507013").c_str()); }},
	{"device-lost", "class: a device is lost", "507010", "blame", "--decode eager", Point::start, [] { failOnDevice("lost:500"); }},
	{"join-lost", "class: a stream that nothing joins", "aclnnScatterPaKvCache race-between-streams", "strict", "--side --decode eager", Point::engine},
	{"inputs-unordered", "vllm-ascend#5761", "aclrtMemcpyAsync race-between-streams", "strict", "--decode piecewise", Point::engine},
	{"block-shared", "class: a block without record_stream", "aclnnInplaceCopy race-between-streams", "strict", "", Point::step, blockShared},
	{"pinned-reused", "class: a pinned buffer before its copy", "aclrtMemcpyAsync host-buffer-reused", "strict", "", Point::step, pinnedReused},
	{"freed-in-flight", "class: memory before its last use", "aclrtFree freed-in-flight", "strict", "", Point::submit, freedInFlight},
	{"read-early", "vllm-ascend PR 3005", "aclrtMemcpy missing-synchronization", "strict", "", Point::submit,
	 [] { queue.drain(), CHECK(aclrtMemcpy(host, 1024, buffers.hidden, 1024, ACL_MEMCPY_DEVICE_TO_HOST)); }},
	{"event-leaked", "class: objects at the end", "aclrtCreateEventWithFlag leak", "strict", "", Point::step, [] { aclrtEvent e; CHECK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC)); }},
	{"peer-unordered", "vllm-ascend PR 12202", "aclrtMemcpyAsync", "blame", "--peer", Point::engine},
	{"memory-grows", "vllm-ascend#6478", "memory_grows", "stats", "", Point::step, [] { memory::device(1 << 20, "leak"); }, true},
	{"long-step", "class: a step is slow", "aclrtMemcpy", "stats", "", Point::step,
	 [] { queue.drain(), CHECK(aclrtSynchronizeStream(streams.main)), CHECK(aclrtMemcpy(host, sizeof host, caches[0], sizeof host, ACL_MEMCPY_DEVICE_TO_HOST)); }},
	{"error-ignored", "class: a failed call that nobody checks", "aclrtQueryEventStatus", "stats", "", Point::step,
	 [] { named(aclrtQueryEventStatus(nullptr, nullptr)); }},
	{"killed", "class: the engine is killed", "SIGKILL", "blame", "", Point::submit, [] { kill(getpid(), SIGKILL); }},
	{"host-slow", "vllm-ascend#6432", "own_time", "stats", "", Point::step, [] { hostWork(4000); }, true},
	{"extra-sync", "vllm-ascend#8316", "aclrtSynchronizeDevice", "diff", "", Point::step,
	 [] { queue.drain(), CHECK(aclrtSynchronizeDevice()); }, true},
	{"unfused", "class: a fusion is lost", "aclnnAddRmsNorm aclnnRmsNorm", "diff", "", Point::start, [] { options.unfused = true; }},
	{"falls-eager", "vllm-ascend#14440, #16623", "graph", "diff", "", Point::start, [] { options.requests = 256; }},
	{"update-late", "vllm-ascend#6432", "aclmdlRICaptureTaskUpdateBegin aclmdlRIExecuteAsync", "stats", "", Point::engine},
	{"rank-late", "class: a rank is late", "rank 1", "merge", "--ranks 2", Point::step, [] { hostWork(options.rank ? 4000 : 0); }, true},
	{"rank-missing", "vllm-ascend#13826, #9071", "HcclAllReduce rank_1_called", "ranks", "--ranks 2", Point::engine},
};

inline const Fault *chosen;
inline size_t step; // of the engine

// Chooses a fault by its name, or prints all.
inline bool choose(const std::string &name)
{
	for (const Fault &f : table)
		if (name == f.name)
			chosen = &f;
		else if (name == "list")
			printf("%s\t%s\t%s\t%s\t%s\n", f.name, f.reported, f.named, f.feature, f.flags);
	return chosen || name.empty();
}

// Whether the engine makes the fault here.
inline bool is(const char *name)
{
	bool so = chosen && !strcmp(chosen->name, name);
	if (so)
		truth("fault");
	return so;
}

// The same, in the step of the fault: the first one from options.at with such a place.
inline bool now(const char *name)
{
	static size_t in = SIZE_MAX;
	bool so = step >= options.at && step <= in && is(name);
	if (so)
		in = step;
	return so;
}

inline void inject(Point p)
{
	static bool made;
	if (!chosen || chosen->point != p || (!chosen->each && (made || (p > Point::capture && step < options.at))))
		return;
	truth("fault");
	made = true;
	chosen->make();
}
} // namespace faults
