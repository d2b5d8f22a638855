// A stand-in for a serving engine: it calls the runtime as an engine with captured graphs does, and computes nothing.
// The headers are parts of one program. Each uses only the parts that it includes.
#pragma once

#include "../common/example.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>
#include <sys/syscall.h>

inline struct Options { // described in main.cpp
	size_t events, side, helpers, unfused, peer, sizes = 3, requests, steps = 40, layers = 2, seed = 1, queue = 1, ranks = 1, rank, at = 20;
	std::string decode = "full", fault, truth;
} options;

inline struct {
	aclrtStream main, copy, side, update, capture;
} streams;

enum : int64_t { HIDDEN = 256, VOCABULARY = 1024, CACHE_SLOTS = 4096, BLOCK = 128 };

inline struct Buffers { // that all steps use; graphs have their addresses
	void *ids, *positions, *slots, *lengths, *blocks, *hidden, *residual, *normed, *rstd, *qkv, *attended, *wide, *narrow;
} buffers;
inline std::vector<char *> caches; // of keys and values, by layer

// What the program did, a line for each fact, in the order of their truth. acltrace's results are compared with it.
inline std::ofstream &truthFile = *new std::ofstream; // never destroyed: threads may use it when the program ends
inline std::mutex truthLock;

template <class... A> void truth(const A &...fields)
{
	std::lock_guard<std::mutex> hold(truthLock);
	((truthFile << fields << '\t'), ...);
	truthFile << std::endl;
}

inline long threadId() { return syscall(SYS_gettid); }
