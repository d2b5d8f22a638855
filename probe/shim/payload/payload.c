/* Large payloads are copied to the arena, a file that is shared with the recorder, so that the ring keeps room for calls. */
#include "payload/payload.h"

#include <asm/fcntl.h>
#include <asm/stat.h>
#include <linux/mman.h>

#include "base/copy.h"
#include "base/hash.h"
#include "base/hooks.h"
#include "base/sys.h"
#include "record/piece.h"
#include "session/session.h"

#define PART (256 * 1024)

/* From here on the thread works for the recorder: it hashes, copies, or waits for room. Payload records carry that time. */
void begin_payload(struct payload *p)
{
	p->since = shim_now();
	__atomic_store_n(&shim_t.ring->in_payload, 1, __ATOMIC_RELAXED);
}

void keep_time(struct payload *p)
{
	if (p->since == 0)
		return;
	uint64_t now = shim_now();
	shim_t.ring->recording += now - p->since;
	p->since = now;
	__atomic_store_n(&shim_t.ring->in_payload, 0, __ATOMIC_RELAXED);
}

/* Bytes of a part in the ring, if so many are left. */
static uint64_t part_of(uint64_t left)
{
	uint64_t most = shim_t.size / 8 < PART ? shim_t.size / 8 : PART;
	return left < most ? left : most;
}

/* Begins a record for a part of a payload, or for the reason why it is missing. NULL if there is no room. */
static struct payload_record *begin_part(struct payload *p, uint64_t offset, uint64_t bytes)
{
	uint64_t need = sizeof(struct payload_record) + round8(bytes);
	if (!shim_room(need + sizeof(struct lost_record))) {
		keep_time(p);
		return NULL;
	}
	__atomic_store_n(&shim_t.ring->in_payload, p->since != 0, __ATOMIC_RELAXED);
	struct payload_record *r = shim_next_record();
	*r = (struct payload_record){
		.h = {.size = (uint32_t)need, .type = REC_PAYLOAD, .state = STATE_DONE},
		.slot = p->slot, .param = p->param, .flags = p->flags, .missing = p->missing, .seq = p->seq,
		.addr = p->addr, .len = p->len, .offset = offset, .time = shim_now(), .item = p->item, .bytes = (uint32_t)bytes,
	};
	return r;
}

static void end_part(struct payload *p, struct payload_record *r)
{
	struct ring *ring = shim_t.ring;
	keep_time(p);
	uint64_t spent = ring->recording / RECORDING_TICKS;
	r->recording = spent < UINT32_MAX ? (uint32_t)spent : UINT32_MAX;
	ring->recording = 0;
	shim_publish(r->h.size);
}

void payload_missing(struct payload *p, uint8_t why)
{
	p->missing = why;
	struct payload_record *r = begin_part(p, 0, 0);
	if (r)
		end_part(p, r);
}

uint8_t unreadable(void) { return shim_filtered() ? MISSING_FILTERED : MISSING_UNREADABLE; }

/* Records only the hash of a payload over the limit. */
static void payload_hash(struct payload *p, bool careful)
{
	uint64_t hash[2];
	if (shim_control->payload_limit == 0)
		payload_missing(p, MISSING_NOT_ASKED);
	else if (p->len <= RING_INLINE) /* shim_hash does not support short inputs; no limit is that low */
		payload_missing(p, MISSING_OVER_LIMIT);
	else if (!shim_hash((const void *)p->addr, p->len, careful, hash))
		payload_missing(p, unreadable());
	else {
		p->missing = MISSING_HASHED;
		struct payload_record *r = begin_part(p, 0, sizeof hash);
		if (r == NULL)
			return;
		small_copy(r + 1, hash, sizeof hash);
		end_part(p, r);
	}
}

/* The arena is mapped when the process has its first large payload. */
static uint8_t *arena;

static bool open_arena(void)
{
	if (__atomic_load_n(&arena, __ATOMIC_ACQUIRE) != NULL)
		return true;
	uint64_t size = (uint64_t)shim_control->arena_chunks * ARENA_CHUNK;
	return size != 0 && map_in_session("arena", size, &arena);
}

static void map_arena(void) { open_arena(); }
SHIM_HOOKS(.filter = map_arena);

/* Takes a free chunk. Returns its number, -1 if all are in use. The lowest first: they are in the cache. */
static int64_t take_chunk(void)
{
	for (uint32_t w = 0; w < ARENA_WORDS; w++) {
		uint64_t v = __atomic_load_n(&shim_control->arena_free[w], __ATOMIC_ACQUIRE);
		while (v != 0) {
			uint64_t bit = v & -v;
			if (__atomic_compare_exchange_n(&shim_control->arena_free[w], &v, v & ~bit, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				return w * 64 + __builtin_ctzll(bit);
		}
	}
	return -1;
}

/*
 * Copies to a chunk. On x86-64, non-temporal stores bypass the caches: the target is not read first, and the program's data stays cached. Two pages
 * are copied in turn, to use more memory banks, with the next two prefetched. This is as fast as a C library's memcpy of tens of MiB; a string
 * instruction has two thirds of that speed.
 */
static void copy_to_chunk(uint8_t *to, const uint8_t *from, uint64_t n)
{
#if defined(__x86_64__)
	typedef long long vector __attribute__((vector_size(16)));
	typedef vector unaligned __attribute__((may_alias, aligned(1)));
	enum { PAGE = 4096, LINE = 64, PAGES = 2 };
	for (; n >= PAGES * PAGE; n -= PAGES * PAGE, to += PAGES * PAGE, from += PAGES * PAGE)
		for (int i = 0; i < PAGE; i += LINE)
			for (int k = 0; k < PAGES; k++) {
				uint8_t *d = to + k * PAGE + i;
				const unaligned *s = (const unaligned *)(from + k * PAGE + i);
				__builtin_prefetch((const uint8_t *)s + PAGES * PAGE);
				vector a = s[0], b = s[1], c = s[2], e = s[3];
				__asm__ volatile("movntdq %1, (%0)\n\tmovntdq %2, 16(%0)\n\tmovntdq %3, 32(%0)\n\tmovntdq %4, 48(%0)"
						 : : "r"(d), "x"(a), "x"(b), "x"(c), "x"(e) : "memory");
			}
	/* Non-temporal stores are not ordered with the store that publishes the record. */
	__asm__ volatile("sfence" : : : "memory");
#endif
	memcpy(to, from, n);
}

/* Maps all pages of a chunk when this process first uses it: one system call instead of a fault a page. Has no effect before Linux 5.14. */
static void map_chunk(int64_t n)
{
	static uint64_t filled[ARENA_WORDS];
	uint64_t bit = 1ULL << (n % 64);
	if ((__atomic_fetch_or(&filled[n / 64], bit, __ATOMIC_RELAXED) & bit) == 0)
		sys3(__NR_madvise, SYS_ARG(arena + n * ARENA_CHUNK), ARENA_CHUNK, MADV_POPULATE_WRITE);
}

static void give_chunk(int64_t n)
{
	__atomic_fetch_or(&shim_control->arena_free[n / 64], 1ULL << (n % 64), __ATOMIC_RELEASE);
}

/* Records a part of a large payload in the arena. Returns 1 if done, 0 if no chunk is free, -1 if the payload has failed. */
static int part_in_arena(struct payload *p, uint64_t off, uint64_t n, bool careful)
{
	int64_t chunk = take_chunk();
	if (chunk < 0)
		return 0;
	map_chunk(chunk);
	uint8_t *to = arena + chunk * ARENA_CHUNK;
	const void *from = (const void *)(p->addr + off);
	bool there = !careful || shim_readable(from, n);
	if (there)
		copy_to_chunk(to, from, n);
	struct payload_record *r = there ? begin_part(p, off, 0) : NULL;
	if (r == NULL) {
		give_chunk(chunk);
		if (!there)
			payload_missing(p, unreadable());
		return -1;
	}
	r->bytes = (uint32_t)n;
	r->chunk = (uint32_t)chunk + 1;
	end_part(p, r);
	return 1;
}

void payload_bytes(struct payload *p, bool careful)
{
	if (p->len < shim_control->payload_least) {
		payload_missing(p, MISSING_NOT_ASKED);
		return;
	}
	if (shim_control->payload_limit != 0)
		begin_payload(p);
	if (p->len > shim_control->payload_limit) {
		payload_hash(p, careful);
		return;
	}
	bool large = p->len >= ARENA_CHUNK / 4 && open_arena();
	for (uint64_t off = 0; off < p->len || off == 0;) {
		if (large) {
			uint64_t n = p->len - off < ARENA_CHUNK ? p->len - off : ARENA_CHUNK;
			int done = part_in_arena(p, off, n, careful);
			if (done < 0)
				return;
			if (done > 0) {
				off += n;
				continue;
			}
		}
		uint64_t n = part_of(p->len - off);
		struct payload_record *r = begin_part(p, off, n);
		if (r == NULL) {
			/* To the recorder, a payload without its last parts is dropped. */
			return;
		}
		if (careful && !shim_readable((const void *)(p->addr + off), n)) {
			payload_missing(p, unreadable());
			return;
		}
		memcpy(r + 1, (const void *)(p->addr + off), n);
		end_part(p, r);
		off += n;
		if (n == 0)
			return;
	}
}

struct payload payload_of(uint64_t seq, uint8_t param, uint8_t flags, uint32_t item, const void *p, uint64_t len)
{
	return (struct payload){.slot = shim_t.slot, .param = param, .flags = flags, .item = item, .seq = seq, .addr = (uint64_t)p, .len = len};
}

void shim_large(uint64_t seq, uint8_t param, uint32_t item, const void *p, uint64_t len)
{
	if (p == NULL || len <= RING_INLINE)
		return;
	struct payload d = payload_of(seq, param, 0, item, p, len);
	begin_payload(&d);
	/* No limit: without arguments and binaries the trace can't be read. */
	for (uint64_t off = 0, n; off < len; off += n) {
		n = part_of(len - off);
		struct payload_record *r = begin_part(&d, off, n);
		if (r == NULL)
			return;
		memcpy(r + 1, (const uint8_t *)p + off, n);
		end_part(&d, r);
	}
}

void shim_file(uint64_t seq, uint8_t param, const char *path)
{
	if (path == NULL)
		return;
	/* Only a regular file: the runtime has already read a pipe. */
	enum { KIND = 0170000, REGULAR = 0100000 };
	struct stat st;
	long fd = sys_open(path, O_RDONLY | O_NONBLOCK);
	if (fd < 0 && shim_filtered()) {
		struct payload d = payload_of(seq, param, 0, 1, NULL, 0);
		payload_missing(&d, MISSING_FILTERED);
	}
	if (fd < 0)
		return;
	bool regular = sys2(__NR_fstat, fd, &st) == 0 && (st.st_mode & KIND) == REGULAR;
	struct payload d = payload_of(seq, param, 0, 1, NULL, regular ? (uint64_t)st.st_size : 0);
	begin_payload(&d);
	for (uint64_t off = 0, n; off < d.len; off += n) {
		n = part_of(d.len - off);
		struct payload_record *r = begin_part(&d, off, n);
		if (r == NULL || sys3(__NR_read, fd, r + 1, n) != (long)n)
			break;
		end_part(&d, r);
	}
	sys1(__NR_close, fd);
}

void payload_rows(struct payload *p, uint64_t pitch, uint64_t width, bool careful)
{
	if (pitch == 0 || pitch == width) {
		payload_bytes(p, careful);
		return;
	}
	if (p->len > shim_control->payload_limit) {
		payload_missing(p, shim_control->payload_limit ? MISSING_OVER_LIMIT : MISSING_NOT_ASKED);
		return;
	}
	if (width > shim_t.size / 8) {
		payload_missing(p, MISSING_OVER_LIMIT);
		return;
	}
	begin_payload(p);
	uint64_t rows = width ? p->len / width : 0, at_once = part_of(p->len) / width ? part_of(p->len) / width : 1;
	for (uint64_t row = 0, k; row < rows; row += k) {
		k = rows - row < at_once ? rows - row : at_once;
		struct payload_record *r = begin_part(p, row * width, k * width);
		if (r == NULL)
			return;
		if (!shim_careful_rows(r + 1, (const uint8_t *)p->addr + row * pitch, pitch, width, k)) {
			payload_missing(p, unreadable());
			return;
		}
		end_part(p, r);
	}
}

bool fits_before(uint64_t len) { return len <= shim_t.size / 4; }

void payload_before(struct shim_call *c, uint8_t param, uint32_t item, uint64_t addr, uint64_t len, uint64_t pitch, uint64_t width)
{
	if (len == 0 || len < shim_control->payload_least || len > shim_control->payload_limit || !fits_before(len))
		return;
	uint8_t *to = begin_far(c, (struct piece){.param = param}, (struct far){.addr = addr, .len = len, .item = item}, len);
	if (to == NULL)
		return;
	const uint8_t *from = (const uint8_t *)addr;
	uint64_t since = shim_now();
	__atomic_store_n(&shim_t.ring->in_payload, 1, __ATOMIC_RELAXED);
	if (pitch == 0 || pitch == width ? shim_careful_copy(to, from, len) : shim_careful_rows(to, from, pitch, width, len / width))
		c->end = to + round8(len);
	shim_t.ring->recording += shim_now() - since;
	__atomic_store_n(&shim_t.ring->in_payload, 0, __ATOMIC_RELAXED);
}
