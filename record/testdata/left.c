/*
 * With -DRUNTIME, a runtime whose aclrtProcessReport runs a callback, and whose aclrtProcessHostFunc does so by a jump through a pointer.
 * Otherwise a program: five callbacks make two calls and leave their caller by longjmp, and five return.
 */
#include <setjmp.h>
#include <stddef.h>

int aclrtMemset(void *, size_t, int, size_t);
int aclrtLaunchCallback(void (*)(void *), void *, int, void *);
int aclrtProcessReport(int);
int aclrtProcessHostFunc(int);

#ifdef RUNTIME
static void (*volatile next)(void *);
int aclrtMemset(void *p, size_t max, int value, size_t n) { return p != NULL && value && n > max; }
int aclrtLaunchCallback(void (*fn)(void *), void *data, int block, void *stream) { next = fn; return data || block || stream; }
static int run(int timeout)
{
	next(NULL);
	return timeout < 0;
}
int aclrtProcessReport(int timeout) { int rc = run(timeout); __asm__ volatile(""); return rc; }
static int (*volatile hidden)(int) = run;
int aclrtProcessHostFunc(int timeout) { return hidden(timeout); }
#else
static jmp_buf out;

static void callback(void *unused)
{
	aclrtMemset(unused, 1, 0, 1);
	aclrtMemset(unused, 1, 0, 1);
	__asm__ volatile("");
}

static void leave(void *unused)
{
	callback(unused);
	longjmp(out, 1);
}

int main(void)
{
	for (volatile int i = 0; i < 10; i++) {
		aclrtLaunchCallback(i % 2 ? leave : callback, NULL, 0, NULL);
		if (setjmp(out) == 0)
			aclrtProcessReport(1);
	}
	aclrtLaunchCallback(callback, NULL, 0, NULL);
	return aclrtProcessHostFunc(1);
}
#endif
