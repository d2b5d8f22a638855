/*
 * Processes that clone has made with their parent's memory (CLONE_VM), but without thread-local storage of their own. Such a child shares shim_t
 * with the thread that has made it, and may call the runtime at the same time. The thread's calls are recorded, and the child's are counted as
 * lost: they are recognized by their thread id, before they change any of the thread's state. A child of vfork calls while its parent waits, and counts as the parent.
 */
#include "session/share.h"

#include "base/loader.h"
#include "base/state.h"
#include "base/sys.h"
#include "session/thread.h"

enum { VM = 0x100, VFORK = 0x4000, SETTLS = 0x80000 };

bool shim_shares(void)
{
	const struct shim_thread *t = &shim_t;
	return !shim_filtered() && (t->generation == 0 || t->generation == shim_p->generation) && t->owner != (uint32_t)sys0(__NR_gettid);
}

static void *real_clone;

SHIM_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, void *parent, void *tls, void *child)
{
	int (*next)(int (*)(void *), void *, int, void *, void *, void *, void *) =
		(int (*)(int (*)(void *), void *, int, void *, void *, void *, void *))shim_real(&real_clone, "clone");
	struct shim_thread *t = &shim_t;
	if ((flags & (VM | VFORK | SETTLS)) != VM || t->owner != 0 || shim_filtered())
		return next(fn, stack, flags, arg, parent, tls, child);
	t->owner = (uint32_t)sys0(__NR_gettid);
	t->room = 0;
	int pid = next(fn, stack, flags, arg, parent, tls, child);
	if (pid < 0)
		t->owner = 0;
	return pid;
}
