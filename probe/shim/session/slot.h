/* Slots of the session, and memory for rings. */
#ifndef ACLTRACE_SHIM_SLOT_H
#define ACLTRACE_SHIM_SLOT_H

#include "base/state.h"

/* Takes a free slot. Returns max_slots if there is none. */
uint32_t take_slot(void);
/* Gives a slot back that has got no ring. */
void return_slot(uint32_t n);
/*
 * Chooses the size of new rings, at most `most` each, and counts their memory. Returns 0, and the reason, if the session or the process has too little
 * memory left.
 */
uint64_t claim_memory(uint32_t rings, uint64_t most, enum refusal *why);
void return_memory(uint64_t size);
/* Records of a new ring are touched so far, later ones when a thread comes to them: see shim_make_room. */
#define RING_TOUCHED (512 * 1024)
/*
 * Maps a ring of size bytes, stored at `from` in a file, to the reserved addresses at `at`: header, records, and the records again. used: a thread is about
 * to write to it, so its first pages are touched now.
 */
bool map_ring(long at, long fd, uint64_t from, uint64_t size, bool used);
/* The addresses that a ring takes. */
static inline uint64_t ring_addresses(uint64_t size) { return RING_HEADER + 2 * size; }

#endif
