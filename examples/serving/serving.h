// A stand-in for a serving engine: it calls the runtime as an engine with captured graphs does, and computes nothing. Its parts:
//
//   truth.cpp      writes down what the program did, while it does it
//   operators.cpp  launches operators in two phases, here or on the task queue
//   memory.cpp     device and host memory in blocks that are used again
//   threads.cpp    the task queue, the release thread, the thread that polls for reports, the watchdog
//   graphs.cpp     captures and runs graphs, and updates their attention tasks
//   engine.cpp     the model, requests, steps
//   peers.cpp      other ranks, and a process that brings keys and values
//   faults.cpp     the table of faults
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

// ---- options ----

enum class Decode { eager, full, piecewise };

struct Options {
	Decode decode = Decode::full;
	bool events = false;     // attention tasks wait for external events, not for values in memory
	bool outputs = false;    // a thread waits for the outputs, and the main thread for the stream before it runs a graph
	bool side = false;       // a part of each layer runs on a side stream
	bool expandable = false; // device memory in mapped pieces
	bool helpers = false;    // release thread, thread for reports, watchdog
	bool unfused = false;    // a version without a fused operator
	size_t sizes = 3;        // captured batch sizes
	size_t steps = 40;
	size_t layers = 2;
	size_t requests = 0;  // at most at a time; 0 for as many as the largest captured size
	unsigned seed = 1;
	unsigned queue = 1; // as TASK_QUEUE_ENABLE
	size_t ranks = 1, rank = 0;
	bool peer = false;  // another process brings the keys and values of prompts
	size_t at = 20;     // step of the fault
	std::string fault, truth;
};
extern Options options;

// ---- truth ----

// What must be named. Empty fields don't matter.
struct Culprit {
	std::string call;    // function; its last call by the thread at the moment of the fault
	std::string kernel;  // operator
	int thread = 0;      // thread id, which runs the call
	const void *address = nullptr;
	aclrtStream stream = nullptr;
	int code = 0;              // that the call returns
	std::string also;          // another function or word that must be named
	int otherThread = 0;       // a second thread that must be named
};

struct Graph;

namespace truth {
void stepBegins(const char *kind, const char *how, size_t tokens, size_t padded);
void stepEnds();
void launched(const char *name);     // by the program's thread that makes steps
void captures(Graph *g);             // launches go to this graph; nullptr: they run
void updates(bool on);               // launches change a graph's task
void ran(const Graph &g);
void allocated(const void *p, size_t bytes, const char *owner);
void freed(const void *p);
void thread(const char *name);       // the calling thread's role
void live();                         // remembers the live memory
void culprit(const Culprit &c);
bool faulty();                       // there is a culprit
void write();
} // namespace truth

// Ends the program when a call fails, as frameworks do.
#define OK(call) serving_check((call), #call, __FILE__, __LINE__)
void serving_check(int code, const char *call, const char *file, int line);
int threadId();
void hostWork(unsigned us); // the program's own time, also on the simulator's virtual clock

// ---- threads ----

// Runs calls on a thread of its own, in order. With --queue 0 they run at once.
class TaskQueue {
public:
	void start();
	void push(std::function<void()> task);
	void drain(); // waits until all calls were made
	void stop();
	int thread() const { return tid; } // that makes the calls
	bool direct() const { return !on; }

private:
	void loop();
	std::mutex lock;
	std::condition_variable added, emptied;
	std::deque<std::function<void()>> tasks;
	bool busy = false, ending = false, on = false;
	std::thread worker;
	int tid = 0;
};
extern TaskQueue &queue;

namespace helpers {
void start();
void release(aclrtEvent e);                 // the release thread destroys it
void watch(aclrtEvent e);                   // the watchdog queries it until it is complete
void output(aclrtEvent e, std::function<void()> then); // the output thread waits for it
void waitOutputs();                         // until the output thread has seen all
void beat();                                // the engine makes progress
void stop();
} // namespace helpers

// ---- memory ----

namespace memory {
void *device(size_t bytes, const char *owner); // an allocation of its own
void deviceFree(void *p);
void *block(size_t bytes, aclrtStream s);      // of a segment; given back by giveBack, in the order of stream s
void used(void *p, aclrtStream other);         // another stream uses it too: it is free when that stream has passed
void giveBack(void *p);
void *pinned(size_t bytes);                    // a buffer that no copy uses any more
void copied(void *p, aclrtStream s);           // a copy on s uses it
void end();
} // namespace memory

// ---- streams and operators ----

struct Streams {
	aclrtStream main, copy, side, update, capture;
};
extern Streams streams;

struct Handles { // of one call of an operator
	aclTensor *tensor(void *p, std::vector<int64_t> dims, aclDataType type = ACL_FLOAT16);
	aclTensorList *list(std::vector<aclTensor *> tensors);
	aclIntArray *ints(std::vector<int64_t> v);
	aclScalar *scalar(float v);
	~Handles();
	std::vector<const aclTensor *> tensors;
	std::vector<const aclTensorList *> lists;
	std::vector<const aclIntArray *> arrays;
	std::vector<const aclScalar *> scalars;
};

namespace ops { // each launches an operator of this name
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

// ---- graphs ----

struct Update { // of an attention task, in the order of the layers
	aclrtTaskGrp group;
	void *word;       // the task waits until this is 1
	aclrtEvent event; // or for this event, with --events
	size_t layer;
};

struct Graph {
	aclmdlRI model;
	size_t size;
	std::map<std::string, size_t> kernels;
	std::vector<Update> updates;
};

namespace graphs {
Graph *capture(size_t size, const std::function<void()> &body);
void attentionTask(Graph &g, size_t layer, const std::function<void()> &attention); // during a capture
void run(const Graph &g);
void update(const Graph &g, const std::function<void(aclrtStream, size_t layer)> &attention);
Graph *capturing(); // nullptr for none
} // namespace graphs

// ---- engine, peers ----

namespace engine {
void start();
void run();
void end();
struct Buffers { // that all steps use; graphs have their addresses
	void *ids, *positions, *slots, *lengths, *blocks, *hidden, *residual, *normed, *rstd, *qkv, *attended, *wide, *narrow, *logits, *tokens;
};
extern Buffers buffers;
extern std::vector<void *> caches; // of keys and values, by layer
} // namespace engine

namespace peers {
void start();                                       // joins the other ranks, starts the producer
void reduce(aclrtStream s, void *x, int64_t count); // a collective of all ranks
void fetch(size_t tokens);                          // keys and values of prompts
bool produce(int argc, char **argv);                // runs the producer, if this process is one
void end();
} // namespace peers

// ---- faults ----

enum class Point { start, capture, step, submit, end }; // places of faults

namespace faults {
bool choose(const std::string &name);
void list();
void setStep(size_t n);
void inject(Point p);       // makes the chosen fault if its place is here
bool is(const char *name);  // the fault is chosen
bool now(const char *name); // and its step has come
} // namespace faults

#endif
