// Preloaded into tiny_decoder, it wraps the clock that the program reads before and after each token. It appends to the file in
// TOKENS three times in microseconds: for a token, on a processor and waiting for one, both in the calling thread. Each is a mean
// over all tokens except the first, which make rings and start threads.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace {

struct moment {
	double wall, cpu, wait; // microseconds
};

const unsigned first = 8;
moment before, sum;
unsigned reads;

long long monotonic()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// Kernel statistics for the first thread.
moment account(long long wall)
{
	static const int file = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	char text[128] = "", *end;
	if (pread(file, text, sizeof text - 1, 0) <= 0)
		abort();
	double cpu = strtod(text, &end), wait = strtod(end, nullptr);
	return {static_cast<double>(wall) / 1e3, cpu / 1e3, wait / 1e3};
}

__attribute__((destructor)) void tell()
{
	const char *to = getenv("TOKENS");
	unsigned n = reads / 2 - first;
	FILE *f = to && reads / 2 > first ? fopen(to, "a") : nullptr;
	if (f == nullptr)
		return;
	fprintf(f, "%.1f %.1f %.1f\n", sum.wall / n, sum.cpu / n, sum.wait / n);
	fclose(f);
}

} // namespace

std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept
{
	if (reads++ % 2 == 0) {
		before = account(0);
		long long at = monotonic();
		before.wall = static_cast<double>(at) / 1e3;
		return time_point(duration(at));
	}
	long long at = monotonic();
	moment after = account(at);
	if (reads / 2 > first) {
		sum.wall += after.wall - before.wall;
		sum.cpu += after.cpu - before.cpu;
		sum.wait += after.wait - before.wait;
	}
	return time_point(duration(at));
}
