// CALL calls a function of the runtime or of the operators, counts it, and ends the program if it fails.
#ifndef CALL_H
#define CALL_H

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>

#include "acl/acl.h"

#define CALL(function, ...) called(#function, function(__VA_ARGS__))

struct Tally {
	std::mutex lock;
	std::map<std::string, int> calls;

	void add(const char *name)
	{
		std::lock_guard<std::mutex> hold(lock);
		calls[name]++;
	}
};

inline Tally tally;

template <class Result> Result called(const char *name, Result result)
{
	tally.add(name);
	if constexpr (!std::is_pointer<Result>::value) {
		if (result != 0) {
			const char *why = aclGetRecentErrMsg();
			std::fprintf(stderr, "%s: %d: %s\n", name, static_cast<int>(result), why ? why : "no text");
			std::abort();
		}
	}
	return result;
}

#endif
