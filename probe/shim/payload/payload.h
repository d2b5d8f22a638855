/*
 * Payloads: memory of any size that a call has read or written, in records of its own after that of the call. They are written after shim_exit.
 * The time that they take is the recorder's, and goes into the records (begin_payload, keep_time).
 */
#ifndef ACLTRACE_SHIM_PAYLOAD_H
#define ACLTRACE_SHIM_PAYLOAD_H

#include "shim_hot.h"

struct payload {
	uint32_t slot;
	uint8_t param, flags, missing;
	bool run; /* of a graph; the graph's other results have the same seq */
	bool allocated; /* by the runtime: it can be read until it is freed */
	uint32_t item;
	uint64_t seq, addr, len;
	uint64_t since; /* clock: the time from here on goes into the payload's next record; 0: none */
};

/* Memory larger than RING_INLINE that a call has read: an argument block, or a binary. Kept whatever the limit of payloads is. */
void shim_large(uint64_t seq, uint8_t param, uint32_t item, const void *p, uint64_t len);
/* The content of a regular file. */
void shim_file(uint64_t seq, uint8_t param, const char *path);

struct payload payload_of(uint64_t seq, uint8_t param, uint8_t flags, uint32_t item, const void *p, uint64_t len);
void begin_payload(struct payload *p);
/* Charges the time since begin_payload to the thread's next payload record. */
void keep_time(struct payload *p);
/* Records the memory, its hash if it is larger than the limit, or a reason why it is missing. careful: the memory may be unmapped. */
void payload_bytes(struct payload *p, bool careful);
/* The same for rows, which are recorded without the gaps between them. Gaps are never read. pitch 0: the memory has no gaps. */
void payload_rows(struct payload *p, uint64_t pitch, uint64_t width, bool careful);
void payload_missing(struct payload *p, uint8_t why);
/* The reason for memory that should be readable and is not. */
uint8_t unreadable(void);
/* Adds memory to the record of the call before the real call, if it is wanted and there is room. */
bool fits_before(uint64_t len);
void payload_before(struct shim_call *c, uint8_t param, uint32_t item, uint64_t addr, uint64_t len, uint64_t pitch, uint64_t width);

/* Bytes from the first to the last one, with the gaps between rows. */
static inline uint64_t extent_of(uint64_t len, uint64_t pitch, uint64_t width) { return pitch ? pitch * (len / width) : len; }

/* States of an entry in a table that all threads use. */
enum { ENTRY_FREE = 0, ENTRY_BUSY = 1, ENTRY_FULL = 2 };

#endif
