/*
 * Ranks of one machine, in threads or in processes.
 *
 * A communicator has a table in shared memory, a page of rows with one row a rank. The process that makes the root information owns the
 * table's file, and the others open it through /proc. Nothing has a name in a file system, and all ends with the last process.
 *
 * Data moves by public calls of the runtime, as tasks on the caller's stream. Each rank has a buffer in device memory and, for each other
 * rank, a notify that says "your part of my buffer is filled" (FILLED) and one that says "I have read yours" (READ). Ranks of other
 * processes import them by their keys. So a trace shows what a collective does, and a replay of all ranks repeats it.
 */
#ifndef HCCL_RANKS_H
#define HCCL_RANKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../lib/say.h"
#include "acl/acl.h"
#include "hccl_gen.h"

enum { FILLED, READ, SIGNALS };
enum { KEY = 65 }; /* bytes of a key of the runtime */

/* A notify that another rank records and this rank waits for. */
struct signal {
	aclrtNotify notify;
	char key[KEY];
};

struct other {
	char *buffer;                 /* address here */
	aclrtNotify signals[SIGNALS]; /* of that rank, recorded by this one */
	bool imported;                /* from another process */
};

struct communicator {
	uint32_t magic;
	uint32_t rank, ranks;
	uint32_t mebibytes; /* of each half of the buffer */
	char name[128];
	struct table *table;
	size_t table_size;
	bool joined;   /* the row is this rank's */
	int file;      /* of the table, -1 if other processes own it */
	char *buffer;  /* one half is read by other ranks, the other one receives */
	uint64_t half; /* bytes */
	uint32_t time_limit; /* of a wait on a stream, in seconds; 0 for none */
	struct other *others;
	pthread_mutex_t lock; /* keeps the tasks of a collective together */
	aclrtBinHandle binary;
	aclrtFuncHandle reduction;
};

/* Returns NULL for what is not a communicator. */
struct communicator *communicator(HcclComm comm);
/* A notify of this rank. */
aclrtNotify own_signal(struct communicator *c, uint32_t from, int kind);
/* Bytes of an element, 0 for an unknown type. */
uint64_t element_size(HcclDataType type);
/* Reports whether reduce can join elements of a type. */
bool reduces(HcclDataType type, HcclReduceOp op);
/* Joins elements to others in device memory, on the stream. */
HcclResult reduce(struct communicator *c, void *to, const void *from, uint64_t bytes, HcclDataType type, HcclReduceOp op, aclrtStream stream);
/* Ends what reduce has loaded. */
void reduce_end(struct communicator *c);

#endif
