/* Communicators: how ranks meet, exchange their keys, and part. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"

enum {
	MAGIC = 0x6c636368, /* "hccl" */
	MAX_RANKS = 1024,
	POLL_MS = 1,
	LOOK_MS = 100, /* between two looks for processes that have ended */
};

/* What HcclRootInfo contains. */
struct root {
	char mark[8];
	uint64_t id;
	int32_t pid, file;
};

static const char mark[8] = "aclsim";

_Static_assert(sizeof(struct root) <= sizeof(HcclRootInfo), "the root information");

/* How far a rank has come. */
enum { ABSENT, JOINED, OFFERED, TAKEN, LEFT, FAILED };

struct row {
	_Atomic uint32_t phase;
	int32_t pid;
	uint64_t started; /* time at which the process started */
	char *buffer;     /* address in that process */
	char key[KEY];
	_Atomic uint64_t group; /* id of a communicator of some ranks that this rank makes, plus 1 */
	struct root root;       /* of that communicator */
	struct signal signals[][SIGNALS]; /* by the rank that records them */
};

struct table {
	uint64_t id;
	_Atomic uint32_t ranks;
	_Atomic uint32_t taken; /* the process that owns the file has closed it */
	_Alignas(64) char rows[];
};

static size_t row_size(uint32_t ranks) { return (sizeof(struct row) + ranks * sizeof(struct signal[SIGNALS]) + 63) / 64 * 64; }

static struct row *row(const struct communicator *c, uint32_t rank) { return (struct row *)(c->table->rows + rank * row_size(c->ranks)); }

aclrtNotify own_signal(struct communicator *c, uint32_t from, int kind) { return row(c, c->rank)->signals[from][kind].notify; }

struct communicator *communicator(HcclComm comm)
{
	struct communicator *c = comm;

	return c && c->magic == MAGIC ? c : NULL;
}

/* Returns when a process started, 0 if it has ended. */
static uint64_t started(int32_t pid)
{
	char path[32], text[1024], *at;
	unsigned long long when = 0;
	char state = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	at = strrchr(text, ')'); /* the name before it may have any character */
	if (!at || sscanf(at, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &state, &when) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : when;
}

static uint32_t number(const char *variable, uint32_t otherwise)
{
	const char *text = getenv(variable);
	char *end;
	unsigned long n = text ? strtoul(text, &end, 10) : 0;

	return text && *text >= '0' && *text <= '9' && !*end && n <= INT32_MAX ? (uint32_t)n : otherwise;
}

/* Makes root information. Its file is open until all ranks have joined. */
static HcclResult make_root(struct root *r)
{
	struct table head = {0};

	*r = (struct root){.pid = getpid()};
	memcpy(r->mark, mark, sizeof mark);
	/* Not by functions that old C libraries lack. */
	if (syscall(SYS_getrandom, &r->id, sizeof r->id, 0) != sizeof r->id)
		return HCCL_E_SYSCALL;
	r->file = (int)syscall(SYS_memfd_create, "aclsim-hccl", 1u /* closed by exec */);
	head.id = r->id;
	if (r->file < 0 || pwrite(r->file, &head, sizeof head, 0) != sizeof head)
		return HCCL_E_SYSCALL;
	return HCCL_SUCCESS;
}

/* A deadline for the ranks that have not come. */
struct waiting {
	struct timespec end;
	unsigned polls;
	uint32_t seconds;
};

static struct waiting wait_begin(void)
{
	struct waiting w = {.seconds = number("HCCL_CONNECT_TIMEOUT", 120)};

	clock_gettime(CLOCK_MONOTONIC, &w.end);
	w.end.tv_sec += w.seconds;
	return w;
}

/* Returns false after the time limit. look is set from time to time. */
static bool wait_on(struct waiting *w, bool *look)
{
	struct timespec now, pause = {.tv_nsec = POLL_MS * 1000000L};

	*look = ++w->polls % (LOOK_MS / POLL_MS) == 0;
	nanosleep(&pause, NULL);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec < w->end.tv_sec || (now.tv_sec == w->end.tv_sec && now.tv_nsec < w->end.tv_nsec);
}

static bool ended(const struct row *r) { return r->pid != getpid() && started(r->pid) != r->started; }

/* Returns the first rank that has failed, or whose process has ended before it left; the number of ranks if there is none. */
static uint32_t lost(const struct communicator *c)
{
	uint32_t i = 0;

	for (; i < c->ranks; i++) {
		uint32_t p = atomic_load(&row(c, i)->phase);

		if (p == FAILED || (p != ABSENT && p != LEFT && ended(row(c, i))))
			break;
	}
	return i;
}

/* Waits until all ranks have come to a phase. */
static HcclResult await(struct communicator *c, uint32_t phase)
{
	struct waiting w = wait_begin();
	bool look = false;
	uint32_t p;

	for (uint32_t i = 0; i < c->ranks; i++)
		while ((p = atomic_load(&row(c, i)->phase)) < phase || p == FAILED) {
			uint32_t gone = look ? lost(c) : c->ranks;

			if (gone < c->ranks) {
				fprintf(stderr, "aclsim: rank %u of %u waits for rank %u, which has failed or ended\n", c->rank, c->ranks, gone);
				return HCCL_E_REMOTE;
			}
			if (!wait_on(&w, &look)) {
				fprintf(stderr, "aclsim: rank %u of %u waits for rank %u, which has not come in %u s; HCCL_CONNECT_TIMEOUT sets the limit\n", c->rank, c->ranks, i,
					w.seconds);
				return HCCL_E_TIMEOUT;
			}
		}
	return HCCL_SUCCESS;
}

/* Opens the table, and enters this rank. */
static HcclResult join(struct communicator *c, const struct root *root)
{
	struct table head;
	uint32_t none = 0;
	char path[64];
	struct row *r;
	int fd;

	if (memcmp(root->mark, mark, sizeof mark))
		return HCCL_E_PARA;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", root->pid, root->file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "aclsim: rank %u: open the root information of process %d: %s\n", c->rank, root->pid, strerror(errno));
		return HCCL_E_TCP_CONNECT;
	}
	/* After all ranks have joined, the number may be another file's. */
	if (pread(fd, &head, sizeof head, 0) != sizeof head || head.id != root->id) {
		fprintf(stderr, "aclsim: rank %u: the root information of process %d was used by other ranks already\n", c->rank, root->pid);
		close(fd);
		return HCCL_E_PARA;
	}
	c->table_size = sizeof(struct table) + c->ranks * row_size(c->ranks);
	/* All ranks set the same size. */
	if (ftruncate(fd, (off_t)c->table_size) || (c->table = mmap(NULL, c->table_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
		close(fd);
		c->table = NULL;
		return HCCL_E_MEMORY;
	}
	close(fd);
	if (!atomic_compare_exchange_strong(&c->table->ranks, &none, c->ranks) && none != c->ranks)
		return HCCL_E_PARA;
	r = row(c, c->rank);
	if (atomic_load(&r->phase) != ABSENT)
		return HCCL_E_PARA; /* another caller has this rank */
	r->pid = getpid();
	r->started = started(r->pid);
	if (root->pid == r->pid)
		c->file = root->file;
	c->joined = true;
	atomic_store(&r->phase, JOINED);
	return HCCL_SUCCESS;
}

/* Makes what other ranks use. */
static HcclResult offer(struct communicator *c)
{
	struct row *own = row(c, c->rank);
	bool outside = false;
	void *buffer;

	c->half = (uint64_t)c->mebibytes << 20;
	if (c->ranks == 1)
		return HCCL_SUCCESS;
	if (aclrtMalloc(&buffer, 2 * c->half, ACL_MEM_MALLOC_HUGE_FIRST))
		return HCCL_E_OOM;
	own->buffer = c->buffer = buffer;
	for (uint32_t i = 0; i < c->ranks; i++) {
		struct signal *s = own->signals[i];
		bool other = row(c, i)->pid != getpid();

		if (i == c->rank)
			continue;
		for (int k = 0; k < SIGNALS; k++)
			if (aclrtCreateNotify(&s[k].notify, ACL_NOTIFY_DEFAULT) ||
			    (other && aclrtNotifyGetExportKey(s[k].notify, s[k].key, KEY, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION)))
				return HCCL_E_RUNTIME;
		outside |= other;
	}
	/* Other ranks read the first half only. */
	if (outside && aclrtIpcMemGetExportKey(buffer, c->half, own->key, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION))
		return HCCL_E_RUNTIME;
	return HCCL_SUCCESS;
}

/* Opens what other ranks have made. */
static HcclResult take(struct communicator *c)
{
	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct row *r = row(c, i);
		const struct signal *s = r->signals[c->rank];
		struct other *o = &c->others[i];
		void *buffer;

		if (i == c->rank)
			continue;
		if (r->pid == getpid()) {
			*o = (struct other){r->buffer, {s[FILLED].notify, s[READ].notify}, false};
			continue;
		}
		if (aclrtIpcMemImportByKey(&buffer, r->key, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS))
			return HCCL_E_RUNTIME;
		o->imported = true;
		o->buffer = buffer;
		for (int k = 0; k < SIGNALS; k++)
			if (aclrtNotifyImportByKey(&o->signals[k], s[k].key, ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS))
				return HCCL_E_RUNTIME;
	}
	return HCCL_SUCCESS;
}

/* Closes the file of the table after all ranks have joined. */
static void close_table(struct communicator *c)
{
	if (c->file >= 0 && !atomic_exchange(&c->table->taken, 1))
		close(c->file);
	c->file = -1;
}

static void end(struct communicator *c, uint32_t phase)
{
	c->magic = 0;
	if (c->joined) {
		struct row *own = row(c, c->rank);

		close_table(c);
		for (uint32_t i = 0; i < c->ranks; i++) {
			struct other *o = &c->others[i];

			if (o->imported) {
				aclrtIpcMemClose(row(c, i)->key);
				for (int k = 0; k < SIGNALS; k++)
					if (o->signals[k])
						aclrtDestroyNotify(o->signals[k]);
			}
			for (int k = 0; k < SIGNALS; k++)
				if (own->signals[i][k].notify)
					aclrtDestroyNotify(own->signals[i][k].notify);
		}
		if (c->buffer)
			aclrtFree(c->buffer);
		atomic_store(&own->phase, phase);
	}
	if (c->table)
		munmap(c->table, c->table_size);
	reduce_end(c);
	pthread_mutex_destroy(&c->lock);
	free(c->others);
	free(c);
}

static struct communicator *create(uint32_t ranks, uint32_t rank, const HcclCommConfig *config)
{
	struct communicator *c = calloc(1, sizeof *c);

	if (!c || !(c->others = calloc(ranks, sizeof *c->others))) {
		free(c);
		return NULL;
	}
	c->magic = MAGIC;
	c->rank = rank;
	c->ranks = ranks;
	c->file = -1;
	c->mebibytes = number("HCCL_BUFFSIZE", 200);
	c->time_limit = number("HCCL_EXEC_TIMEOUT", 1836);
	if (config && config->configSize >= sizeof *config) {
		/* UINT32_MAX stands for no value. */
		if (config->hcclBufferSize != UINT32_MAX)
			c->mebibytes = config->hcclBufferSize;
		memcpy(c->name, config->hcclCommName, sizeof c->name - 1);
	}
	if (c->mebibytes == 0)
		c->mebibytes = 1;
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

/* Takes ranks of this process through all phases. devices has the device of each, or is NULL for the current one. */
static HcclResult meet(struct communicator **all, uint32_t n, const struct root *root, const int32_t *devices)
{
	static HcclResult (*const phases[])(struct communicator *) = {[OFFERED] = offer, [TAKEN] = take};
	HcclResult e = HCCL_SUCCESS;

	for (uint32_t i = 0; i < n && !e; i++)
		e = join(all[i], root);
	for (uint32_t p = OFFERED; p <= TAKEN && !e; p++)
		for (uint32_t i = 0; i < n && !e; i++) {
			e = await(all[i], p - 1);
			if (!e && devices && aclrtSetDevice(devices[i]))
				e = HCCL_E_RUNTIME;
			if (!e && !(e = phases[p](all[i])))
				atomic_store(&row(all[i], all[i]->rank)->phase, p);
		}
	for (uint32_t i = 0; i < n && !e; i++)
		e = await(all[i], TAKEN);
	for (uint32_t i = 0; i < n; i++) {
		if (all[i]->table && !all[i]->name[0])
			snprintf(all[i]->name, sizeof all[i]->name, "aclsim_%016llx", (unsigned long long)root->id);
		if (e)
			end(all[i], FAILED);
		else
			close_table(all[i]);
	}
	return e;
}

static HcclResult form(uint32_t ranks, uint32_t rank, const struct root *root, const HcclCommConfig *config, HcclComm *comm)
{
	struct communicator *c;
	HcclResult e;

	if (!comm)
		return HCCL_E_PTR;
	if (ranks == 0 || ranks > MAX_RANKS || rank >= ranks)
		return HCCL_E_PARA;
	if (!(c = create(ranks, rank, config)))
		return HCCL_E_MEMORY;
	e = meet(&c, 1, root, NULL);
	if (!e)
		*comm = c;
	return e;
}

/* Counts the ranks that a rank table names. */
static uint32_t ranks_in(const char *file)
{
	char line[4096];
	uint32_t n = 0;
	FILE *f = file ? fopen(file, "r") : NULL;

	if (!f)
		return 0;
	while (fgets(line, sizeof line, f))
		for (const char *s = line; (s = strstr(s, "\"rank_id\"")); s++)
			n++;
	fclose(f);
	return n;
}

static HcclResult from_table(const char *clusterInfo, uint32_t rank, const HcclCommConfig *config, HcclComm *comm)
{
	uint32_t ranks = ranks_in(clusterInfo);
	struct root root;
	HcclResult e;

	if (ranks > 1) {
		SAY_ONCE("a rank table of %u ranks is not simulated; returns %d; use HcclCommInitRootInfo\n", ranks, HCCL_E_NOT_SUPPORT);
		return HCCL_E_NOT_SUPPORT;
	}
	if (ranks == 0 || rank)
		return HCCL_E_PARA;
	e = make_root(&root);
	return e ? e : form(1, 0, &root, config, comm);
}

EXPORT HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm) { return from_table(clusterInfo, rank, NULL, comm); }

EXPORT HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank, HcclCommConfig *config, HcclComm *comm)
{
	return from_table(clusterInfo, rank, config, comm);
}

/* The first rank makes root information, which the others find in its row of the table. */
EXPORT HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId, uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm)
{
	struct communicator *c = comm ? communicator(*comm) : NULL;
	struct waiting w = wait_begin();
	bool look = false;
	struct root root;
	struct row *first;
	HcclResult e;

	if (!c || (rankNum && !rankIds))
		return HCCL_E_PTR;
	if (subCommRankId >= rankNum || rankIds[subCommRankId] != c->rank || rankIds[0] >= c->ranks)
		return HCCL_E_PARA;
	first = row(c, rankIds[0]);
	if (subCommRankId == 0) {
		if ((e = make_root(&root)))
			return e;
		first->root = root;
		atomic_store(&first->group, subCommId + 1);
	} else {
		while (atomic_load(&first->group) != subCommId + 1)
			if (!wait_on(&w, &look) || (look && ended(first)))
				return HCCL_E_TIMEOUT;
		root = first->root;
	}
	e = form(rankNum, subCommRankId, &root, config, subComm);
	if (subCommRankId == 0)
		atomic_store(&first->group, 0);
	return e;
}

EXPORT HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo)
{
	struct root root;
	HcclResult e;

	if (!rootInfo)
		return HCCL_E_PTR;
	if ((e = make_root(&root)))
		return e;
	memset(rootInfo, 0, sizeof *rootInfo);
	memcpy(rootInfo, &root, sizeof root);
	return HCCL_SUCCESS;
}

static HcclResult from_root(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, const HcclCommConfig *config, HcclComm *comm)
{
	struct root root;

	if (!rootInfo)
		return HCCL_E_PTR;
	memcpy(&root, rootInfo, sizeof root);
	return form(nRanks, rank, &root, config, comm);
}

EXPORT HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm)
{
	return from_root(nRanks, rootInfo, rank, NULL, comm);
}

EXPORT HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, const HcclCommConfig *config, HcclComm *comm)
{
	return from_root(nRanks, rootInfo, rank, config, comm);
}

EXPORT HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms)
{
	struct communicator *all[MAX_RANKS];
	struct root root;
	HcclResult e;
	int32_t device;
	bool had;

	if (!devices || !comms)
		return HCCL_E_PTR;
	if (ndev == 0 || ndev > MAX_RANKS)
		return HCCL_E_PARA;
	if ((e = make_root(&root)))
		return e;
	had = !aclrtGetDevice(&device);
	for (uint32_t i = 0; i < ndev; i++)
		if (!(all[i] = create(ndev, i, NULL))) {
			while (i)
				end(all[--i], FAILED);
			close(root.file);
			return HCCL_E_MEMORY;
		}
	e = meet(all, ndev, &root, devices);
	if (had)
		aclrtSetDevice(device);
	if (!e)
		memcpy(comms, all, ndev * sizeof *all);
	return e;
}

EXPORT HcclResult HcclCommDestroy(HcclComm comm)
{
	struct communicator *c = communicator(comm);

	if (!c)
		return HCCL_E_PARA;
	end(c, LEFT);
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize)
{
	struct communicator *c = communicator(comm);

	if (!c || !rankSize)
		return HCCL_E_PTR;
	*rankSize = c->ranks;
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank)
{
	struct communicator *c = communicator(comm);

	if (!c || !rank)
		return HCCL_E_PTR;
	*rank = c->rank;
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclGetCommName(HcclComm comm, char *commName)
{
	struct communicator *c = communicator(comm);

	if (!c || !commName)
		return HCCL_E_PTR;
	strcpy(commName, c->name);
	return HCCL_SUCCESS;
}

/* A rank is lost if its process has ended before HcclCommDestroy. */
EXPORT HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError)
{
	struct communicator *c = communicator(comm);

	if (!c || !asyncError)
		return HCCL_E_PTR;
	*asyncError = HCCL_SUCCESS;
	if (lost(c) < c->ranks)
		*asyncError = HCCL_E_REMOTE;
	return HCCL_SUCCESS;
}
