/*
 * Calls in quick succession on several threads, and a stand-in for the runtime (LIBRARY) that counts them in a shared file: the number survives the
 * program, and nothing of the recorder takes part in it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

enum { THREADS = 3 };

struct shared {
	atomic_ulong calls;
	atomic_ulong pid, stop;
};

static struct shared *shared(void)
{
	int fd = open(getenv("SUM"), O_RDWR | O_CLOEXEC);
	void *p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		abort();
	close(fd);
	return p;
}

#ifdef LIBRARY

static struct shared *s;
__attribute__((constructor)) static void begin(void) { s = shared(); }

#define COUNTED(name, ...) \
	int name(__VA_ARGS__) \
	{ \
		atomic_fetch_add(&s->calls, 1); \
		return 0; \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
COUNTED(aclInit, const char *config)
COUNTED(aclrtMemset, void *p, size_t max, int32_t value, size_t n)
COUNTED(aclrtMemcpy, void *dst, size_t max, const void *src, size_t n, int kind)
COUNTED(aclrtProcessReport, int32_t timeout)

#else

int aclInit(const char *config);
int aclrtMemset(void *p, size_t max, int32_t value, size_t n);
int aclrtMemcpy(void *dst, size_t max, const void *src, size_t n, int kind);
int aclrtProcessReport(int32_t timeout);

static void *calls(void *arg)
{
	struct shared *s = arg;
	static char host[256] = "contents";
	void *device = (void *)0x124000000000;
	while (!s->stop) {
		for (int i = 0; i < 200; i++) {
			aclrtMemset(device, 4096, i, 4096);
			aclrtMemcpy(device, 4096, host, i % 2 ? 16 : sizeof host, 1);
		}
		aclrtProcessReport(1); /* a call that may enclose others */
		usleep(100);
	}
	return NULL;
}

int main(void)
{
	struct shared *s = shared();
	pthread_t t[THREADS];
	aclInit(NULL);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, calls, s))
			return 1;
	s->pid = getpid();
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	return 0;
}

#endif
