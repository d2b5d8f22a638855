/* Clocks: wall time, the processor's counter, and processor time. */
#include "player.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Takes the fastest reading, which was not preempted. */
void read_clocks(uint64_t *count, uint64_t *ns)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 20; i++) {
		uint64_t before = counter(), n = nanoseconds(), after = counter();
		if (after - before < least) {
			least = after - before;
			*count = before + least / 2;
			*ns = n;
		}
	}
}

void pause_ns(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	nanosleep(&t, NULL);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/*
 * The spin is as long as nine sleeps in ten are late, but not more than MOST nanoseconds: a spinning thread takes a processor from the
 * runtime.
 */
void learn_clock(void)
{
	enum { SLEEPS = 64, SLEEP_NS = 300000, LEAST = 5000, MOST = 100000 };
	uint64_t late[SLEEPS], before = nanoseconds(), count, ns;
	for (int i = 0; i < SLEEPS; i++) {
		pause_ns(SLEEP_NS);
		uint64_t now = nanoseconds(), took = now - before;
		late[i] = took > SLEEP_NS ? took - SLEEP_NS : 0;
		before = now;
	}
	qsort(late, SLEEPS, sizeof *late, by_size);
	uint64_t most = late[SLEEPS * 9 / 10] + LEAST;
	P.spin_ns = most < MOST ? (int64_t)most : MOST;
	read_clocks(&count, &ns);
	P.counts_per_ns = (double)(count - P.result->counter[0]) / (double)(ns - P.result->ns[0]);
}

/* Times count from the run's beginning. So a call that takes longer than recorded delays only the calls that it overlaps. */
uint64_t keep_time(uint64_t at)
{
	const int64_t spin = P.spin_ns;
	uint64_t now, due = P.result->origin + (uint64_t)((double)at * P.counts_per_ns);
	while ((int64_t)(due - (now = counter())) > 0) {
		int64_t left = (int64_t)((double)(due - now) / P.counts_per_ns);
		if (left > 2 * spin && !stopped())
			pause_ns((uint64_t)(left - spin < 100000000 ? left - spin : 100000000));
		else
			relax();
	}
	if (P.lib.late != NULL)
		P.lib.late((int64_t)((double)(now - due) / P.counts_per_ns));
	return now;
}

/* Reads the first bytes of a file in /proc as text. */
static const char *glance(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	return text;
}

static struct core_time core_time(const char *thread)
{
	char path[64], text[96];
	unsigned long long ran = 0, waited = 0;
	snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", thread);
	if (sscanf(glance(path, text, sizeof text), "%llu %llu", &ran, &waited) != 2)
		ran = waited = 0;
	return (struct core_time){ran, waited};
}

struct core_time my_core_time(void)
{
	char thread[24];
	snprintf(thread, sizeof thread, "%ld", syscall(SYS_gettid));
	return core_time(thread);
}

struct core_time others_core_time(void)
{
	struct core_time sum = {0, 0};
	char self[24];
	snprintf(self, sizeof self, "%ld", syscall(SYS_gettid));
	DIR *d = opendir("/proc/self/task");
	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
		if (e->d_name[0] == '.' || strcmp(e->d_name, self) == 0)
			continue;
		struct core_time t = core_time(e->d_name);
		sum.ran += t.ran;
		sum.waited += t.waited;
	}
	if (d != NULL)
		closedir(d);
	return sum;
}

uint64_t stolen(void)
{
	char text[256];
	unsigned long long ticks = 0;
	if (sscanf(glance("/proc/stat", text, sizeof text), "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		return 0;
	return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}
