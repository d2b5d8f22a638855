/* Slots of the session, and memory for rings. */
#ifndef ACLTRACE_SHIM_SLOT_H
#define ACLTRACE_SHIM_SLOT_H

#include "base/state.h"

/* Takes a free slot. Returns max_slots if there is none. */
uint32_t take_slot(void);
/* Counts the memory of a ring. False if the session or the process's cgroup has none left. */
bool claim_memory(uint64_t size);
void return_memory(uint64_t size);
/* Maps a ring of size bytes, stored at `from` in a file, to the reserved addresses at `at`: header, records, and the records again. */
bool map_ring(long at, long fd, uint64_t from, uint64_t size, long flags);

#endif
