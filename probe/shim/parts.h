/* What the parts of the shim have of each other, and wrappers do not call. Each is told of where it is written. */
#ifndef ACLTRACE_SHIM_PARTS_H
#define ACLTRACE_SHIM_PARTS_H

#include "shim.h"

/* session.c */

/* Makes this process ready to record, once, and again in a child after a fork. False where it is not to be recorded. */
bool open_process(void);
/* A file of the session by its name, with a number behind it where it has one. */
long open_in_session(const char *name, uint64_t number, bool numbered, long flags);
/* Keeps the session within reach of a process that is about to change its root. */
void keep_session(void);
/* Makes a part of a file that is empty. Beyond the limit of a file's size it is not tried: the kernel would not only say no, but send a signal that ends programs. */
bool allocate(long fd, uint64_t from, uint64_t size);
/* Records nothing any more if somebody has removed the session. */
void look_for_session(void);
extern uint64_t used_before; /* by the rings of other processes, when this one came to the session */

/* thread.c */

/* A slot that nobody has, max_slots where there is none. */
uint32_t take_slot(void);
/* Memory for a ring, as far as session and cgroup allow. */
bool claim_memory(uint64_t size);
void return_memory(uint64_t size);
/* Maps a ring of size bytes that begins at from in a file to a range of addresses that is the caller's. */
bool map_ring(long at, long fd, uint64_t from, uint64_t size, long flags);

/* filter.c */

/* The first record of a ring in the pool of this process, NULL where it has none. */
uint8_t *range_at(uint32_t range);
/* The number of the calling thread, found without a system call; for its slot. */
uint32_t thread_id(uint32_t slot);

/* call.c */

/* Whether the thread runs on its alternate signal stack, as far as can be told. */
bool on_signal_stack(void);
/* Room for need more bytes in the record that is being written, which no other record follows yet. */
bool grow(struct shim_call *c, uint64_t need);
/* A piece with an address of its own; without its bytes where they are too many. */
void far_piece(struct shim_call *c, uint8_t param, uint32_t item, uint64_t addr, uint64_t len);

static inline void small_copy(void *to, const void *from, uint64_t len)
{
	typedef uint64_t word __attribute__((may_alias, aligned(1)));
	uint64_t i = 0;
	for (; i + 8 <= len; i += 8)
		*(word *)((uint8_t *)to + i) = *(const word *)((const uint8_t *)from + i);
	for (; i < len; i++)
		((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
}

/* payload.c */

struct payload {
	uint32_t slot;
	uint8_t param, flags, missing;
	bool run; /* of a graph, which brings this with all others of the same call */
	uint32_t item;
	uint64_t seq, addr, len;
	uint64_t since; /* clock: the time from here on goes with the next record of the payload; 0 while nothing is read */
};

/* Maps the memory for large payloads. */
bool open_arena(void);
void begin_payload(struct payload *p);
void keep_time(struct payload *p);
struct payload payload_of(uint64_t seq, uint8_t param, uint8_t flags, uint32_t item, const void *p, uint64_t len);
/* Streams memory to the recorder. Memory that the runtime has not just touched is read with care. */
void payload_bytes(struct payload *p, bool careful);
/* Rows become one piece without the gaps between them, which are read with care; pitch 0: they are one already. */
void payload_rows(struct payload *p, uint64_t pitch, uint64_t width, bool careful);
void payload_missing(struct payload *p, uint8_t why);
/* Why memory that should be there can't be read. */
uint8_t unreadable(void);
/* What lies there before the call, into its record, where that is to be kept and has room. */
bool fits_before(uint64_t len);
void payload_before(struct shim_call *c, uint8_t param, uint32_t item, uint64_t addr, uint64_t len, uint64_t pitch, uint64_t width);

/* Bytes from the first to behind the last, with the gaps between rows. */
static inline uint64_t extent_of(uint64_t len, uint64_t pitch, uint64_t width) { return pitch ? pitch * (len / width) : len; }

/* memory.c */

bool pinned(uint64_t addr);
bool on_device(uint64_t addr);
/* Whether memory may be pinned, or the device's, that is not known as such: there was no room to remember it. */
bool maybe_pinned(void);
bool maybe_on_device(void);

/* visible.c */

/* Memory that the device accesses has begun to be. After a wait: records what the device has stored. In a forked child: nothing is kept yet. */
void visible_new(uint64_t addr, uint64_t len);
void visible_after(void);
void visible_forked(void);

/* results.c */

/* What has become of the memory of a result before the program had waited for it. */
enum why { COPIED_OVER, FREED, UNREGISTERED, WHYS };

/* A result that is there once the program has waited for the stream; pitch 0: no rows. False where there is no room for it. */
bool add_pending(const struct payload *p, void *stream, uint64_t pitch, uint64_t width);
bool any_pending(void);
/* Something else gets this memory: a result that is still pending there is never seen. */
void give_up_pending(uint64_t addr, uint64_t len, enum why why);
/* The program has waited for these. */
void release(enum reach which, void *stream, uint64_t until);
void forget_pending(void);

/* captured.c */

void add_captured(void *graph, const void *node, uint64_t addr, uint64_t len, uint64_t pitch, uint64_t width);
/* Host memory that the graph reads at each run. */
void add_source(void *graph, const void *node, uint64_t addr, uint64_t len, uint64_t pitch, uint64_t width);
/* A node of a graph, or of the one that it was put into where that is NULL, makes its copy no more. The graph, NULL where none is known. */
void *drop_node(void *graph, const void *node);
/* Host memory has ended. */
void forget_captured(uint64_t from, uint64_t to);

/* events.c */

/* No wait for an event is known from here on to be one for a record: a graph records some that there was no room to remember. */
void shim_events_unknown(void);

/* Maps the table of pending results. */
bool open_places(void);

/* lists.c */

void open_lists(void);

/* An entry of a table that all threads use. */
enum { ENTRY_FREE = 0, ENTRY_BUSY = 1, ENTRY_FULL = 2 };

#endif
