/* Two processes share memory, physical memory, a notify and an event; then one of them is killed while the other waits. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum { SIZE = 70000, KEY = 65, UNIT = 2 << 20 };

/* Messages between the processes. */
struct letter {
	int32_t pid;
	char memory[KEY], notify[KEY];
	uint64_t physical;
	aclrtIpcEventHandle event;
};

static int to_child[2], to_parent[2];

static void tell(int *pipe, const struct letter *l)
{
	CHECK(write(pipe[1], l, sizeof *l) == sizeof *l);
}

static struct letter hear(int *pipe)
{
	struct letter l;

	CHECK(read(pipe[0], &l, sizeof l) == sizeof l);
	return l;
}

static void *map(aclrtDrvMemHandle h)
{
	void *p;

	OK(aclrtReserveMemAddress(&p, UNIT, 0, NULL, 1));
	OK(aclrtMapMem(p, UNIT, 0, h, 0));
	return p;
}

static void begin(struct letter *me, aclrtStream *s)
{
	alarm(30);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(s));
	OK(aclrtDeviceGetBareTgid(&me->pid));
}

static void child(void)
{
	struct letter me = {0}, l;
	aclrtStream s;
	aclrtNotify n;
	aclrtEvent ev;
	aclrtDrvMemHandle h;
	void *d, *p;
	char *host = malloc(SIZE);

	begin(&me, &s);
	tell(to_parent, &me);
	l = hear(to_child);
	OK(aclrtIpcMemImportByKey(&d, l.memory, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
	OK(aclrtNotifyImportByKey(&n, l.notify, ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS));
	OK(aclrtMemImportFromShareableHandle(l.physical, 0, &h));
	OK(aclrtIpcOpenEventHandle(l.event, &ev));
	p = map(h);
	tell(to_parent, &me);

	/* The parent fills the memory, then records the event. */
	hear(to_child);
	OK(aclrtStreamWaitEvent(s, ev));
	OK(aclrtSynchronizeStream(s));
	OK(aclrtMemcpy(host, SIZE, d, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(host[0] == 3 && host[SIZE - 1] == 3);
	OK(aclrtMemcpy(host, SIZE, p, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(host[0] == 4 && host[SIZE - 1] == 4);

	/* The parent waits for the notify and finds the earlier task's result. */
	OK(aclrtMemsetAsync(d, SIZE, 5, SIZE, s));
	OK(aclrtRecordNotify(n, s));
	OK(aclrtSynchronizeStream(s));
	tell(to_parent, &me);
	pause(); /* until it is killed */
}

int main(void)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	struct letter me = {0}, you;
	aclrtStream s;
	aclrtNotify n;
	aclrtEvent ev;
	aclrtDrvMemHandle h;
	void *d, *p;
	char *host = malloc(SIZE);
	pid_t pid;

	CHECK(!pipe(to_child) && !pipe(to_parent));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		child();

	begin(&me, &s);
	you = hear(to_parent);
	OK(aclrtMalloc(&d, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtIpcMemGetExportKey(d, SIZE, me.memory, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
	OK(aclrtIpcMemSetImportPid(me.memory, &you.pid, 1));
	OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
	OK(aclrtNotifyGetExportKey(n, me.notify, KEY, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	OK(aclrtMallocPhysical(&h, UNIT, &prop, 0));
	OK(aclrtMemExportToShareableHandle(h, ACL_MEM_HANDLE_TYPE_NONE, ACL_RT_VMM_EXPORT_FLAG_DEFAULT, &me.physical));
	OK(aclrtMemSetPidToShareableHandle(me.physical, &you.pid, 1));
	OK(aclrtCreateEventExWithFlag(&ev, ACL_EVENT_IPC));
	OK(aclrtIpcGetEventHandle(ev, &me.event));
	p = map(h);
	tell(to_child, &me);
	hear(to_parent);

	OK(aclrtMemsetAsync(d, SIZE, 3, SIZE, s));
	OK(aclrtMemsetAsync(p, SIZE, 4, SIZE, s));
	OK(aclrtRecordEvent(ev, s));
	tell(to_child, &me);
	OK(aclrtWaitAndResetNotify(n, s, 0));
	OK(aclrtMemcpyAsync(host, SIZE, d, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, s));
	OK(aclrtSynchronizeStream(s));
	CHECK(host[0] == 5 && host[SIZE - 1] == 5);
	hear(to_parent);

	/* No process can set the notify any more: the wait ends with an error instead of hanging. */
	OK(aclrtWaitAndResetNotify(n, s, 0));
	WANT(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(s, 300));
	CHECK(!kill(pid, SIGKILL));
	CHECK(waitpid(pid, NULL, 0) == pid);
	WANT(ACL_ERROR_RT_IPC_ERROR, aclrtSynchronizeStream(s));
	OK(aclrtDestroyStreamForce(s));
	OK(aclrtDestroyNotify(n));
	OK(aclrtIpcMemClose(me.memory));
	OK(aclrtFree(d));
	OK(aclrtFreePhysical(h));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
