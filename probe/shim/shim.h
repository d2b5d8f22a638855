/*
 * The shim is preloaded into the traced program. Its functions have the names of the runtime's. Each records the call in its thread's ring
 * and calls the real function. This header is all that generated wrappers include.
 *
 * Rules for code in the traced process:
 *
 *	1. A recorded call on a thread with a ring takes no lock, allocates no memory and makes no system call (TestHotPathMakesNoSystemCall).
 *	   It stores into memory that was allocated in full before. A call with a payload, a stack or a device time may make system calls.
 *	2. The shim is linked to nothing (no DT_NEEDED). It finds functions in the loader's own list (base/loader.h). It makes system calls by
 *	   sys6, which makes none once the program filters its system calls.
 *	3. A signal handler may interrupt at any instruction, and call the runtime. The stores to depth and frame are ordered for that, by fences.
 *	   A call inside another one writes no record (record/nested.c).
 *	4. A thread may leave a call by longjmp, or be cancelled in it. So no lock is held while the program's call is in the runtime, and
 *	   waits for the recorder, or for a thread that may be gone, end after a limit.
 *	5. A fork may come at any time. The child finds out at its first call (shim_process.ready), drops the parent's state by its hooks, and
 *	   never writes to the parent's rings.
 *	6. errno, dlerror, and the runtime's last error and last task stay the program's.
 *	7. Memory is read directly if the runtime has just used it in the same call, or has allocated it. Other memory is read with care
 *	   (base/copy.h), which fails if the memory is unmapped.
 *	8. No failure of the shim reaches the program: the real function is called anyway, and the call or payload is counted as lost.
 *	9. The recorder may stop or die at any time. Memory that is shared with it is accessed by atomic operations.
 *
 * Layers: the files of a folder use only folders that come before theirs, and no two files use each other (TestShimLayers).
 *
 *	base       state, clock, system calls, loader, hash
 *	session    the session's files, the process, rings of threads, filters of system calls
 *	record     the record of a call
 *	task       tasks on streams: order, ids, times, kernel arguments, host functions
 *	payload    memory that calls read and write
 *	bind       exported names, dlsym and late binding, counted calls
 *	acl, cuda  one runtime each: its wrappers (generated) and the functions of runtime.h
 *
 * Lower folders reach higher ones in two ways: hooks (base/hooks.h), and runtime.h.
 */
#ifndef ACLTRACE_SHIM_H
#define ACLTRACE_SHIM_H

#include "base/loader.h"
#include "bind/entry.h"
#include "bind/mark.h"
#include "bind/names.h"
#include "bind/passed.h"
#include "payload/captured.h"
#include "payload/copies.h"
#include "payload/events.h"
#include "payload/lists.h"
#include "payload/memory.h"
#include "payload/payload.h"
#include "payload/results.h"
#include "payload/visible.h"
#include "record/enclose.h"
#include "record/kept.h"
#include "record/piece.h"
#include "runtime.h"
#include "task/devtime.h"
#include "task/host.h"
#include "task/ids.h"
#include "task/order.h"
#include "task/sizes.h"

#endif
