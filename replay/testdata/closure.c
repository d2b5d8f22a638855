/* Launches that depend on more than the earlier writes to their memory: closure KERNELS SCENE [SEED]. A copy to the host follows every launch. */
#include <sys/wait.h>

#include "program.h"

enum { N = 64, MOST = 512 };

static const char *binary;
static uint32_t *shown, expected[MOST][N]; /* results */
static int results;

static aclrtStream stream(void)
{
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	return s;
}

static uint32_t *zeroed(void)
{
	uint32_t *x = device_memory(4 * N);
	CHECK(aclrtMemset(x, 4 * N, 0, 4 * N));
	return x;
}

static void begin(void)
{
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtMallocHost((void **)&shown, sizeof(expected)));
}

static void add(aclrtFuncHandle f, aclrtStream s, uint32_t *x, uint32_t *model, uint32_t by)
{
	struct add_args a = {x, N, by, 0};
	launch(f, 1, s, &a, sizeof a);
	for (uint32_t i = 0; i < N; i++)
		model[i] += by * (i + 1);
}

static void show(aclrtStream s, const uint32_t *x, const uint32_t *model)
{
	EXPECT(results < MOST);
	CHECK(aclrtMemcpyAsync(shown + N * results, 4 * N, x, 4 * N, ACL_MEMCPY_DEVICE_TO_HOST, s));
	memcpy(expected[results++], model, 4 * N);
}

static void check(void)
{
	CHECK(aclrtSynchronizeDevice());
	for (int i = 0; i < results; i++)
		EXPECT(memcmp(shown + N * i, expected[i], 4 * N) == 0);
}

/* Streams wait for values that others write. */
static void values(void)
{
	begin();
	aclrtFuncHandle f = kernel(binary, "add");
	aclrtStream s[3] = {stream(), stream(), stream()};
	uint32_t *x = zeroed(), model[N] = {0};
	uint64_t *flags = device_memory(512);
	CHECK(aclrtMemset(flags, 512, 0, 512));
	for (uint64_t t = 0; t < 9; t++) {
		if (t > 0)
			CHECK(aclrtValueWait(flags + 8, t, 0, s[t % 3]));
		add(f, s[t % 3], x, model, (uint32_t)t + 1);
		show(s[t % 3], x, model);
		CHECK(aclrtValueWrite(flags + 8, t + 1, 0, s[t % 3]));
	}
	check();
}

/* Streams wait for notifies. */
static void notifies(void)
{
	begin();
	aclrtFuncHandle f = kernel(binary, "add");
	aclrtStream s[2] = {stream(), stream()};
	aclrtNotify n[2];
	uint32_t *x = zeroed(), model[N] = {0};
	for (int i = 0; i < 2; i++)
		CHECK(aclrtCreateNotify(&n[i], 0));
	for (int t = 0; t < 6; t++) {
		if (t > 0)
			CHECK(aclrtWaitAndResetNotify(n[t % 2], s[t % 2], 0));
		add(f, s[t % 2], x, model, (uint32_t)t + 1);
		show(s[t % 2], x, model);
		CHECK(aclrtRecordNotify(n[(t + 1) % 2], s[t % 2]));
	}
	check();
}

/* A kernel of device 1 works in the memory of device 0. */
static void peers(void)
{
	begin();
	uint32_t *x = zeroed(), model[N] = {0};
	aclrtStream own = stream();
	CHECK(aclrtDeviceEnablePeerAccess(1, 0));
	CHECK(aclrtSetDevice(1));
	CHECK(aclrtDeviceEnablePeerAccess(0, 0));
	aclrtFuncHandle f = kernel(binary, "add");
	aclrtStream s = stream();
	uint32_t *y = device_memory(4 * N);
	add(f, s, x, model, 3);
	CHECK(aclrtSynchronizeStream(s));
	CHECK(aclrtSetDevice(0));
	show(own, x, model);
	CHECK(aclrtSynchronizeStream(own));
	CHECK(aclrtSetDevice(1));
	CHECK(aclrtMemcpyAsync(y, 4 * N, x, 4 * N, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	add(f, s, y, model, 5);
	show(s, y, model);
	check();
}

struct job {
	aclrtStream s;
	aclrtEvent e;
	uint32_t *x, *model;
};

static void *shower(void *arg)
{
	struct job *j = arg;
	CHECK(aclrtSetDevice(0));
	show(j->s, j->x, j->model);
	CHECK(aclrtRecordEvent(j->e, j->s));
	return NULL;
}

/* Each result is copied by a thread of its own. */
static void threads(void)
{
	begin();
	aclrtFuncHandle f = kernel(binary, "add");
	uint32_t model[N] = {0};
	struct job j = {stream(), NULL, zeroed(), model};
	CHECK(aclrtCreateEventExWithFlag(&j.e, ACL_EVENT_SYNC));
	for (uint32_t t = 0; t < 4; t++) {
		pthread_t p;
		add(f, j.s, j.x, model, t + 1);
		pthread_create(&p, NULL, shower, &j);
		pthread_join(p, NULL);
		CHECK(aclrtSynchronizeEvent(j.e));
	}
	check();
}

/* Two blocks of physical memory, mapped beside each other, twice, and swapped. */
static void mappings(void)
{
	enum { SIZE = 2 << 20 };
	aclrtPhysicalMemProp p = {0};
	aclrtDrvMemHandle h[2];
	char *at;
	uint32_t model[N] = {0}, half[N];
	begin();
	p.memAttr = ACL_HBM_MEM_HUGE;
	p.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	CHECK(aclrtReserveMemAddress((void **)&at, 4 * SIZE, 0, NULL, 0));
	for (int i = 0; i < 2; i++) {
		CHECK(aclrtMallocPhysical(&h[i], SIZE, &p, 0));
		CHECK(aclrtMapMem(at + i * SIZE, SIZE, 0, h[i], 0));
		CHECK(aclrtMemset(at + i * SIZE, SIZE, 0, SIZE));
	}
	aclrtFuncHandle f = kernel(binary, "add");
	aclrtStream s = stream();
	add(f, s, (uint32_t *)(at + SIZE) - N / 2, model, 2); /* into both */
	show(s, (uint32_t *)(at + SIZE) - N / 2, model);
	CHECK(aclrtSynchronizeStream(s));
	CHECK(aclrtUnmapMem(at));
	CHECK(aclrtUnmapMem(at + SIZE));
	CHECK(aclrtMapMem(at, SIZE, 0, h[1], 0)); /* begins with the second half */
	CHECK(aclrtMapMem(at + 2 * SIZE, SIZE, 0, h[1], 0));
	memset(half, 0, sizeof half);
	memcpy(half, model + N / 2, 2 * N);
	add(f, s, (uint32_t *)(at + 2 * SIZE), half, 7);
	show(s, (uint32_t *)at, half);
	check();
}

/* The runtime is initialized three times, and the device reset in between. */
static void epochs(void)
{
	for (uint32_t k = 0; k < 3; k++) {
		uint32_t model[N] = {0}, *x;
		aclrtBinHandle b;
		aclrtFuncHandle f;
		begin();
		CHECK(aclrtBinaryLoadFromFile(binary, NULL, &b));
		CHECK(aclrtBinaryGetFunction(b, "add", &f));
		if (k == 1) {
			x = zeroed();
			CHECK(aclrtResetDevice(0));
			CHECK(aclrtSetDevice(0));
			CHECK(aclrtBinaryLoadFromFile(binary, NULL, &b));
			CHECK(aclrtBinaryGetFunction(b, "add", &f));
		}
		x = zeroed();
		aclrtStream s = stream();
		results = 0;
		add(f, s, x, model, k + 1);
		show(s, x, model);
		check();
		CHECK(aclrtResetDevice(0));
		CHECK(aclFinalize());
	}
}

/* A kernel fails on a stream, which works again after a synchronization. */
static void errors(void)
{
	begin();
	aclrtFuncHandle f = kernel(binary, "add");
	aclrtStream s = stream();
	uint32_t *x = zeroed(), model[N] = {0};
	struct add_args beyond = {x, 1 << 20, 1, 0};
	add(f, s, x, model, 1);
	show(s, x, model);
	CHECK(aclrtSynchronizeStream(s));
	launch(f, 1, s, &beyond, sizeof beyond);
	EXPECT(aclrtSynchronizeStream(s) != 0);
	EXPECT(aclrtMemcpy(x, 4, shown, 4 * N, ACL_MEMCPY_HOST_TO_DEVICE) != 0);
	CHECK(aclrtMemset(x, 4 * N, 0, 4 * N));
	memset(model, 0, sizeof model);
	add(f, s, x, model, 2);
	show(s, x, model);
	check();
}

/* Two processes take turns in the same memory. */
static void processes(void)
{
	enum { KEY = 65, TURNS = 3 };
	int to[2], from[2], status;
	char key[KEY], turn = 0;
	uint32_t model[N] = {0}, *x;
	EXPECT(pipe(to) == 0 && pipe(from) == 0);
	pid_t child = fork();
	if (child == 0)
		EXPECT(read(to[0], key, KEY) == KEY);
	begin();
	if (child == 0) {
		CHECK(aclrtIpcMemImportByKey((void **)&x, key, 0));
	} else {
		x = zeroed();
		CHECK(aclrtIpcMemGetExportKey(x, 4 * N, key, KEY, 0));
		CHECK(aclrtIpcMemSetImportPid(key, &child, 1));
		EXPECT(write(to[1], key, KEY) == KEY);
	}
	aclrtFuncHandle f = kernel(binary, "add");
	aclrtStream s = stream();
	for (int t = 0; t < 2 * TURNS; t++) {
		if (t % 2 == (child == 0)) {
			add(f, s, x, model, (uint32_t)t + 1);
			show(s, x, model);
			CHECK(aclrtSynchronizeStream(s));
			EXPECT(write(child == 0 ? from[1] : to[1], &turn, 1) == 1);
		} else {
			EXPECT(read(child == 0 ? to[0] : from[0], &turn, 1) == 1);
			for (uint32_t i = 0; i < N; i++)
				model[i] += ((uint32_t)t + 1) * (i + 1);
		}
	}
	check();
	if (child == 0)
		exit(0);
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

/* Random calls by two threads on three streams, ordered by events. */
enum { BUFFERS = 6, STREAMS = 3 };
static uint32_t *buffers[BUFFERS], models[BUFFERS][N], *pinned[8], seed;
static aclrtEvent events[BUFFERS];
static int recorded[BUFFERS], left = 60;
static aclrtStream streams[STREAMS];
static aclrtFuncHandle function;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static uint32_t number(uint32_t below)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % below;
}

static void before(uint32_t b, aclrtStream s)
{
	if (recorded[b])
		CHECK(aclrtStreamWaitEvent(s, events[b]));
}

static void after(uint32_t b, aclrtStream s)
{
	CHECK(aclrtRecordEvent(events[b], s));
	recorded[b] = 1;
}

static void step(void)
{
	uint32_t b = number(BUFFERS), c = number(BUFFERS), what = number(6), from = number(N / 2), n = 1 + number(N / 2);
	aclrtStream s = streams[number(STREAMS)];
	before(b, s);
	switch (what) {
	case 0:
	case 1:
		add(function, s, buffers[b], models[b], number(50));
		show(s, buffers[b], models[b]);
		break;
	case 2:
		CHECK(aclrtMemsetAsync(buffers[b], 4 * N, 1, 4 * N, s));
		memset(models[b], 1, 4 * N);
		break;
	case 3:
		if (b == c)
			break;
		before(c, s);
		CHECK(aclrtMemcpyAsync(buffers[c] + from, 4 * n, buffers[b] + from, 4 * n, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
		memcpy(models[c] + from, models[b] + from, 4 * n);
		after(c, s);
		break;
	case 4:
		for (uint32_t i = 0; i < N; i++)
			pinned[c][i] = models[b][i] = i * n;
		CHECK(aclrtMemcpyAsync(buffers[b], 4 * N, pinned[c], 4 * N, ACL_MEMCPY_HOST_TO_DEVICE, s));
		CHECK(aclrtSynchronizeStream(s));
		break;
	case 5:
		CHECK(aclrtSynchronizeStream(s));
		break;
	}
	after(b, s);
}

static void *worker(void *arg)
{
	CHECK(aclrtSetDevice(0));
	for (int go = 1; go;) {
		pthread_mutex_lock(&mutex);
		if ((go = left-- > 0))
			step();
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void random_calls(void)
{
	begin();
	function = kernel(binary, "add");
	for (int i = 0; i < BUFFERS; i++) {
		buffers[i] = zeroed();
		CHECK(aclrtMallocHost((void **)&pinned[i], 4 * N));
		CHECK(aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_SYNC));
	}
	for (int i = 0; i < STREAMS; i++)
		streams[i] = stream();
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, worker, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	check();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenes[] = {{"values", values}, {"notifies", notifies}, {"peers", peers}, {"threads", threads}, {"mappings", mappings},
		{"epochs", epochs}, {"errors", errors}, {"processes", processes}, {"random", random_calls}};
	EXPECT(argc > 2);
	binary = argv[1];
	seed = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
	for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
		if (strcmp(scenes[i].name, argv[2]) == 0) {
			scenes[i].run();
			return 0;
		}
	EXPECT(!"a scene");
}
