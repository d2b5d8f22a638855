/* Calls that are counted by name and not recorded, in the session's file `passed`. */
#ifndef ACLTRACE_SHIM_PASSED_H
#define ACLTRACE_SHIM_PASSED_H

#include "base/state.h"

/* A function that SHIM_COUNTED counts. Generated, as all tables here. */
struct shim_counted {
	void *real; /* atomic */
	uint64_t *count; /* set before real */
};
extern struct shim_counted shim_counted[] HIDDEN;
extern const uint32_t shim_counted_count HIDDEN;
extern const char *const shim_counted_names[] HIDDEN;

/* A prefix of the names of the runtime's functions. capital: a capital letter follows it. The table ends with a NULL. */
struct shim_prefix {
	const char *name;
	bool capital;
};
extern const struct shim_prefix shim_prefixes[] HIDDEN;
/* Of functions under and beside the runtime: see bind/below.h. */
extern const struct shim_prefix shim_below[] HIDDEN;

bool passed_has_prefix(const struct shim_prefix *table, const char *name);
/* Whether a name looks like one of the runtime's functions. Operators (aclnn...) do not. */
static inline bool passed_of_runtime(const char *name) { return passed_has_prefix(shim_prefixes, name); }
/* Counts a request for an unknown function that was found at f, if it is the runtime's. */
void passed_found(const char *name, const void *f);
/* The counter of a name. Without a session or room, a counter that nobody reads. */
uint64_t *passed_counter(const char *name);
/* Counts one call, or one request for a function that can't be recorded. */
void shim_passed(const char *name) HIDDEN;

#endif
