/* Two processes: one shares memory and a notify by their keys, the other writes to the memory and sets the notify. */
#include <sys/wait.h>

#include "program.h"

enum { COUNT = 128, ROUNDS = 4, KEY = 65 };

struct keys {
	char memory[KEY], ready[KEY];
};

static void all(ssize_t n, size_t want) { EXPECT(n == (ssize_t)want); }

static void writer(const char *path, int from, int to)
{
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	aclrtFuncHandle add = kernel(path, "add");
	struct keys k;
	int32_t pid = (int32_t)getpid();
	all(write(to, &pid, sizeof pid), sizeof pid);
	all(read(from, &k, sizeof k), sizeof k);
	uint32_t *x;
	aclrtNotify ready;
	CHECK(aclrtIpcMemImportByKey((void **)&x, k.memory, 0));
	CHECK(aclrtNotifyImportByKey(&ready, k.ready, 0));
	for (uint32_t round = 0; round < ROUNDS; round++) {
		char go;
		all(read(from, &go, 1), 1);
		struct add_args args = {x, COUNT, round + 1, 0};
		launch(add, 1, s, &args, sizeof args);
		CHECK(aclrtRecordNotify(ready, s));
		CHECK(aclrtSynchronizeStream(s));
	}
	uint32_t last;
	to_host(&last, x + COUNT - 1, sizeof last); /* inside the other's memory, not at its start */
	EXPECT(last > 1000 * (COUNT - 1));
	CHECK(aclrtIpcMemClose(k.memory));
	CHECK(aclrtDestroyNotify(ready));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
}

int main(int argc, char **argv)
{
	(void)argc;
	int down[2], up[2];
	EXPECT(pipe(down) == 0 && pipe(up) == 0);
	pid_t child = fork();
	if (child == 0) {
		writer(argv[1], down[0], up[1]);
		return 0;
	}
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	int32_t pid;
	all(read(up[0], &pid, sizeof pid), sizeof pid);
	uint32_t host[COUNT], *x = device_memory(sizeof host);
	for (uint32_t i = 0; i < COUNT; i++)
		host[i] = 1000 * i;
	to_device(x, host, sizeof host);
	struct keys k;
	aclrtNotify ready;
	CHECK(aclrtCreateNotify(&ready, 0));
	CHECK(aclrtIpcMemGetExportKey(x, sizeof host, k.memory, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
	CHECK(aclrtIpcMemSetImportPid(k.memory, &pid, 1));
	CHECK(aclrtNotifyGetExportKey(ready, k.ready, KEY, ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT));
	CHECK(aclrtNotifySetImportPid(ready, &pid, 1));
	all(write(down[1], &k, sizeof k), sizeof k);
	uint32_t total = 0;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		CHECK(aclrtWaitAndResetNotify(ready, s, 0));
		all(write(down[1], "g", 1), 1);
		CHECK(aclrtSynchronizeStream(s));
		total += round + 1;
		to_host(host, x, sizeof host);
		for (uint32_t i = 0; i < COUNT; i++)
			EXPECT(host[i] == 1000 * i + total * (i + 1));
	}
	int status;
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
	CHECK(aclrtDestroyNotify(ready));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
