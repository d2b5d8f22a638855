#include "session/session.h"

#include <asm/fcntl.h>
#include <asm/stat.h>
#include <asm/statfs.h>
#include <linux/mman.h>
#include <linux/resource.h>

#include "base/limits.h"
#include "base/maps.h"
#include "base/sys.h"
#include "base/text.h"
#include "runtime.h"

#define AT_SECURE 23
#define EINTR 4

uint64_t used_before;
static bool attached; /* shim_control maps the session's file */

static char session[256]; /* folder, from ACLTRACE_SESSION */
/* The open folder, after its path may have become invalid. The program may close the descriptor by mistake, so it is checked. */
static struct { long fd; uint64_t dev, ino; } session_dir = {.fd = -1};

extern char **environ __attribute__((weak));

static const char *variable(const char *name)
{
	if (&environ == NULL || environ == NULL)
		return NULL;
	for (char **e = environ; *e; e++) {
		const char *value = text_after(*e, name);
		if (value != NULL && *value == '=')
			return value + 1;
	}
	return NULL;
}

extern unsigned long getauxval(unsigned long) __attribute__((weak));

/* Whether the program runs with more rights than its caller (set-uid). Then nothing is recorded. */
static bool secure(void)
{
	if (getauxval != NULL)
		return getauxval(AT_SECURE) != 0;
	uint64_t v[64];
	long n = sys_read_once(sys_open("/proc/self/auxv", O_RDONLY), v, sizeof v);
	for (long i = 0; i + 1 < n / 8; i += 2)
		if (v[i] == AT_SECURE)
			return v[i + 1] != 0;
	return true;
}

/* Stores the device and inode of an open file. */
static bool same_dir(long fd, uint64_t *dev, uint64_t *ino)
{
	struct stat st;
	if (fd < 0 || sys2(__NR_fstat, fd, &st) < 0)
		return false;
	*dev = st.st_dev, *ino = st.st_ino;
	return true;
}

void keep_session(void)
{
	if (__atomic_load_n(&session_dir.fd, __ATOMIC_ACQUIRE) >= 0)
		return;
	long fd = sys_open(session, O_PATH | O_DIRECTORY), none = -1;
	if (same_dir(fd, &session_dir.dev, &session_dir.ino) &&
	    !__atomic_compare_exchange_n(&session_dir.fd, &none, fd, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sys1(__NR_close, fd);
}

struct session_path { char text[300]; };

/* Makes the path of a file of the session. Returns the folder that it begins in, for openat. */
static long path_in_session(struct session_path *p, const char *name, uint64_t number, bool numbered)
{
	char *path = p->text;
	uint64_t dev, ino;
	long dir = __atomic_load_n(&session_dir.fd, __ATOMIC_ACQUIRE);
	bool kept = same_dir(dir, &dev, &ino) && dev == session_dir.dev && ino == session_dir.ino;
	size_t n = 0;
	if (!kept) {
		n = text_length(session);
		memcpy(path, session, n);
		path[n++] = '/';
	}
	size_t m = text_length(name);
	memcpy(path + n, name, m);
	n += m;
	if (numbered) {
		char digits[20];
		int d = 0;
		do
			digits[d++] = (char)('0' + number % 10);
		while (number /= 10);
		while (d)
			path[n++] = digits[--d];
	}
	path[n] = 0;
	return kept ? dir : -100;
}

long open_in_session(const char *name, uint64_t number, bool numbered, long flags)
{
	struct session_path p;
	long dir = path_in_session(&p, name, number, numbered);
	return sys4(__NR_openat, dir, p.text, flags | O_CLOEXEC, 0600);
}

void remove_from_session(const char *name, uint64_t number)
{
	struct session_path p;
	long dir = path_in_session(&p, name, number, true);
	sys3(__NR_unlinkat, dir, p.text, 0);
}

uint64_t session_left(void)
{
	struct statfs fs;
	long fd = open_in_session(".", 0, false, O_PATH | O_DIRECTORY);
	bool known = fd >= 0 && sys2(__NR_fstatfs, fd, &fs) == 0 && fs.f_blocks != 0; /* no blocks: a tmpfs without a limit */
	if (fd >= 0)
		sys1(__NR_close, fd);
	return known ? (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize : NO_LIMIT;
}

bool map_in_session(const char *name, uint64_t size, void *at)
{
	long fd = open_in_session(name, 0, false, O_RDWR);
	bool mapped = fd >= 0 && shim_map_once(at, size, fd);
	if (fd >= 0)
		sys1(__NR_close, fd);
	return mapped;
}

bool allocate(long fd, uint64_t from, uint64_t size)
{
	enum { PART = 256 * 1024, TRIES = 1000 };
	if (shim_limit(RLIMIT_FSIZE) < from + size)
		return false;
	/* In parts: before Linux 6.0 a signal ends the call, so a program with many signals would never allocate all at once. */
	for (uint64_t at = 0; at < size; at += PART) {
		uint64_t n = size - at < PART ? size - at : PART;
		long e = -EINTR;
		for (int i = 0; i < TRIES && e == -EINTR; i++)
			e = sys4(__NR_fallocate, fd, 0, from + at, n);
		if (e < 0)
			return false;
	}
	return true;
}

uint32_t session_pid;

/* At load time, since a program may clear its environment later. The session is opened at the first call, which most processes never make. */
__attribute__((constructor)) static void find_session(void)
{
	const char *dir = variable("ACLTRACE_SESSION");
	if (dir == NULL || dir[0] != '/' || text_length(dir) >= sizeof session)
		return;
	memcpy(session, dir, text_length(dir) + 1);
	if (session_pid == 0)
		session_pid = (uint32_t)sys0(__NR_getpid);
}

bool session_attached(void) { return attached; }

bool attach_session(void)
{
	if (attached)
		return true;
	if (session[0] == 0)
		find_session(); /* a call before the constructor, or the program has set the variable itself */
	if (session[0] == 0 || secure())
		return false;
	long fd = open_in_session("control", 0, false, O_RDWR);
	if (fd < 0)
		return false;
	struct control *c = shim_control;
	bool mapped = !sys_failed(sys_map(sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0, c));
	sys1(__NR_close, fd);
	if (!mapped)
		return false;
	attached = c->magic == RING_MAGIC && c->version == RING_VERSION && c->functions == shim_functions;
	if (attached)
		used_before = __atomic_load_n(&c->memory_used, __ATOMIC_RELAXED);
	else {
		if (c->magic == RING_MAGIC)
			__atomic_store_n(&c->stranger, (uint32_t)sys0(__NR_getpid), __ATOMIC_RELEASE);
		sys_map(sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0, c);
	}
	return attached;
}

void look_for_session(void)
{
	if (!find_mapping((uint64_t)shim_control).deleted)
		return;
	__atomic_store_n(&shim_control->off, OFF_ENDED, __ATOMIC_RELAXED);
	__atomic_store_n(&shim_control->quiet, QUIET_ALL, __ATOMIC_RELAXED);
}
