// A stand-in for a serving engine: it calls the runtime as an engine with captured graphs does, and computes nothing.
// The headers are parts of one program. Each uses only the parts that it includes.
#pragma once

#include "../common/example.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <sys/syscall.h>

enum class Decode { eager, full, piecewise };

struct Options { // described in main.cpp
	Decode decode = Decode::full;
	bool events, side, helpers, unfused, peer;
	size_t sizes = 3, requests, steps = 40, layers = 2, seed = 1, queue = 1, ranks = 1, rank, at = 20;
	std::string fault, truth;
};
inline Options options;

struct Streams {
	aclrtStream main, copy, side, update, capture;
};
inline Streams streams;

enum : int64_t { HIDDEN = 256, VOCABULARY = 1024, CACHE_SLOTS = 4096, BLOCK = 128 };

struct Buffers { // that all steps use; graphs have their addresses
	void *ids, *positions, *slots, *lengths, *blocks, *hidden, *residual, *normed, *rstd, *qkv, *attended, *wide, *narrow;
};
inline Buffers buffers;
inline std::vector<char *> caches; // of keys and values, by layer

// What the program did, a line for each fact, in the order of their truth. acltrace's results are compared with it.
inline std::ofstream &truthFile = *new std::ofstream; // never destroyed: threads may use it when the program ends

template <class... A> void truth(const A &...fields)
{
	static std::mutex lock;
	std::ostringstream line;
	((line << fields << '\t'), ...);
	std::lock_guard<std::mutex> hold(lock);
	truthFile << line.str() << std::endl;
}

inline long threadId() { return syscall(SYS_gettid); }

// Ends the program when a call fails, as frameworks do.
#define OK(call) check((call), #call, __FILE__, __LINE__)

inline void check(int code, const char *call, const char *file, int line)
{
	if (!code)
		return;
	const char *text = aclGetRecentErrMsg();
	fprintf(stderr, "%s:%d: %s returned %d: %s\n", file, line, call, code, text ? text : "no message");
	_exit(1);
}
