/* Host memory that a copy reads or writes, given by parameters or by a descriptor. Called after shim_exit. */
#ifndef ACLTRACE_SHIM_COPIES_H
#define ACLTRACE_SHIM_COPIES_H

#include "shim_hot.h"

/*
 * `host`: the direction of the copy says that the memory is the host's. Memory on the device is skipped. An asynchronous write to pinned memory is
 * recorded once the program has waited for the stream.
 */
void shim_reads_rows(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t pitch, uint64_t width, uint64_t rows, bool host, bool async);
void shim_writes_rows(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t pitch, uint64_t width, uint64_t rows, bool host, bool async, void *stream);

/* The same for memory without gaps. */
static inline void shim_reads(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t len, bool host, bool async)
{
	shim_reads_rows(c, param, item, p, 0, len, 1, host, async);
}

static inline void shim_writes(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t len, bool host, bool async, void *stream)
{
	shim_writes_rows(c, param, item, p, 0, len, 1, host, async, stream);
}

/* Whether memory is the host's, for a copy whose direction depends on the addresses. */
bool shim_on_host(const void *p, uint64_t len);
/* Whether a value below 16 has its bit set: for the kinds of copies. */
static inline bool shim_one_of(uint32_t v, uint16_t bits) { return v < 16 && (bits >> v & 1); }

/* A copy descriptor, by the offsets of its fields. */
#define SHIM_NO_FIELD (~(uint32_t)0)
struct shim_side { uint32_t kind, host, device, x, y, z, pitch, rows; };
struct shim_block { struct shim_side from, to; uint32_t width, height, depth; };

/* Records the memory of one side, from or to, of the copy that s describes, if it is the host's. */
void shim_block(struct shim_call *c, uint8_t param, uint32_t item, const void *s, const struct shim_block *b, const struct shim_side *side, bool async, void *stream);
/* Before the call: the copy overwrites pending results. */
void shim_block_overwrites(const void *s, const struct shim_block *b);
/* A graph makes the copy at each run, by a node or under capture. graph NULL: the graph that has the node. */
void shim_block_captured(void *graph, const void *node, const void *s, const struct shim_block *b);

#endif
