// A stand-in for a serving engine: it calls the runtime as an engine with captured graphs does, and computes nothing.
#ifndef SERVING_H
#define SERVING_H

#include "../common/example.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "aclnn/acl_meta.h"

enum class Decode { eager, full, piecewise };

struct Options {
	Decode decode = Decode::full;
	bool events = false;     // attention tasks wait for external events, not for values in memory
	bool outputs = false;    // a thread waits for outputs, and the main thread for its stream before it runs a graph
	bool side = false;       // a part of each layer runs on a side stream
	bool expandable = false; // device memory in mapped pieces
	bool helpers = false;    // release thread, report thread and watchdog
	bool unfused = false;    // a version without a fused operator
	bool peer = false;       // another process brings the keys and values of prompts
	size_t sizes = 3, steps = 40, layers = 2, seed = 1, ranks = 1, rank = 0;
	size_t requests = 0; // at a time; 0: the largest captured size
	size_t queue = 1;    // as TASK_QUEUE_ENABLE
	size_t at = 20;      // step of the fault
	std::string fault, truth;
};
extern Options options;

// ---- truth.cpp: what the program did ----

struct Graph;
struct Culprit { // must be named; empty fields don't matter
	std::string call, kernel, also; // function, operator, and a further word
	int code, thread, otherThread;
	const void *address;
};

namespace truth {
void step(const char *kind, const char *how, size_t tokens, size_t padded); // begins
void launched(const char *name);
void captures(Graph *g); // launches go to this graph; nullptr: they run
void updates(bool on);   // launches change a task of a graph
void ran(const Graph &g);
void allocated(const void *p, size_t bytes, const char *owner);
void freed(const void *p);
void thread(const char *name); // role of this thread
void live();                   // remembers live memory
void culprit(const Culprit &c);
bool faulty(); // there is a culprit
void write();
} // namespace truth

// Ends the program when a call fails, as frameworks do.
#define OK(call) check((call), #call, __FILE__, __LINE__)
void check(int code, const char *call, const char *file, int line);
int threadId();

// ---- threads.cpp ----

// A thread that runs tasks in order. Before start, tasks run at once on the caller.
class Worker {
public:
	void start(const char *name);
	void push(std::function<void()> task);
	void drain(); // waits until all tasks are done
	void stop();

private:
	struct Task {
		std::function<void()> run;
		int64_t at; // time of its push
	};
	void loop();
	std::mutex lock;
	std::condition_variable added, emptied;
	std::deque<Task> tasks;
	bool busy = false, ending = false, on = false;
	int64_t done = 0; // time
	std::thread thread;
};
extern Worker &queue, &output; // launches; waits for outputs

void startHelpers();
void stopHelpers();
void release(aclrtEvent e); // destroys it, on the release thread
void watch(aclrtEvent e);   // the watchdog queries it until it is complete
void hostWork(unsigned us); // the program's own time, also on a virtual clock
extern std::atomic<unsigned> &progress;

// ---- memory.cpp ----

aclrtEvent newEvent(uint32_t flag);

namespace memory {
void *device(size_t bytes, const char *owner); // an allocation of its own
void deviceFree(void *p);
void *block(size_t bytes, aclrtStream s);  // part of a segment
void used(void *p, aclrtStream other);     // another stream uses the block too
void giveBack(void *p);                    // free when its streams have passed
void *pinned(size_t bytes);                // a host buffer that no copy uses any more
void copied(void *p, aclrtStream s);       // a copy on s uses it
void end();
} // namespace memory

// ---- operators.cpp: each function launches an operator ----

namespace ops {
void indexSelect(aclrtStream s, void *table, void *index, void *out, int64_t n);
void fill(aclrtStream s, void *out, int64_t n, float v);
void rmsNorm(aclrtStream s, void *x, void *gamma, void *y, void *rstd, int64_t n);
void addRmsNorm(aclrtStream s, void *x, void *residual, void *gamma, void *y, void *rstd, int64_t n);
void add(aclrtStream s, void *x, void *y, void *out, int64_t n);
void matmul(aclrtStream s, void *a, void *b, void *out, int64_t n, int64_t in, int64_t columns);
void storeKeys(aclrtStream s, void *keys, void *cache, void *slots, int64_t n);
void attention(aclrtStream s, void *q, void *cache, void *blocks, void *out, std::vector<int64_t> lengths);
void swiGlu(aclrtStream s, void *x, void *out, int64_t n);
void argMax(aclrtStream s, void *logits, void *tokens, int64_t n);
void copy(aclrtStream s, void *to, void *from, int64_t n);
} // namespace ops

enum : int64_t { HIDDEN = 256, VOCABULARY = 1024, CACHE_SLOTS = 4096, BLOCK = 128 };

// ---- graphs.cpp ----

struct Update { // of an attention task
	aclrtTaskGrp group;
	void *word;       // the task waits until this is 1
	aclrtEvent event; // or for this event
	size_t layer;
};

struct Graph {
	aclmdlRI model;
	std::map<std::string, size_t> kernels;
	std::vector<Update> updates; // in the order of the layers
};

namespace graphs {
Graph *capture(const std::function<void()> &body);
Graph *capturing();                                                          // nullptr for none
void attentionTask(Graph &g, size_t layer, const std::function<void()> &op); // during a capture
void run(const Graph &g);
void update(const Graph &g, const std::function<void(aclrtStream, size_t layer)> &op);
} // namespace graphs

// ---- engine.cpp, peers.cpp ----

struct Streams {
	aclrtStream main, copy, side, update, capture;
};
extern Streams streams;

struct Buffers { // that all steps use; graphs have their addresses
	void *ids, *positions, *slots, *lengths, *blocks, *hidden, *residual, *normed, *rstd, *qkv, *attended, *wide, *narrow, *tokens;
};
extern Buffers buffers;
extern std::vector<void *> caches; // of keys and values, by layer

namespace engine {
void start();
void run();
void end();
} // namespace engine

namespace peers {
void start();                                       // joins the other ranks, starts the producer
void reduce(aclrtStream s, void *x, int64_t count); // a collective of all ranks
void fetch(size_t tokens);                          // keys and values of prompts
bool produce(int argc, char **argv);                // runs the producer, if this process is one
void end();
} // namespace peers

// ---- faults.cpp ----

enum class Point { start, capture, step, submit, end }; // places of faults

namespace faults {
bool choose(const std::string &name);
void list();
void setStep(size_t n);
void inject(Point p);       // makes the chosen fault if its place is here
bool is(const char *name);  // the fault is chosen
bool now(const char *name); // and its step has come
// The culprit is a call of this thread, or a launch of an operator.
void blames(const char *call, int code = 0, const char *also = "", const void *address = nullptr);
void blamesKernel(const char *kernel, const char *also = "", const void *address = nullptr);
} // namespace faults

#endif
