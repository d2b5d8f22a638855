/*
 * A process describes itself in the session's file process.N: the recorder may run in another container and not see the process. The process locks
 * the file, by a lock that belongs to the open file. The mapping keeps the file open, and so the lock lasts as long as the process. Forked children
 * do not inherit the mapping.
 */
#include "session/process.h"

#include <asm/fcntl.h>
#include <asm/stat.h>
#include <link.h>
#include <linux/mman.h>

#include "base/clock.h"
#include "base/hooks.h"
#include "base/loader.h"
#include "base/lookup.h"
#include "base/sys.h"
#include "base/text.h"
#include "session/session.h"

#define ENOENT 2
#define EEXIST 17
#define MADV_NO_FORK 10
#define MADV_WIPE_ON_FORK 18
#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#endif

extern char **environ __attribute__((weak));

static uint32_t self_number; /* 1 + N */

/* 1 + N of this process, or of its parent if a call was recorded there before the fork. */
static uint32_t caller;

void shim_calls(void) { __atomic_store_n(&caller, self_number, __ATOMIC_RELAXED); }

/* The text at the end of struct process. */
struct text { char *at, *end; };

static void put(struct text *t, const char *s)
{
	while (*s && t->at < t->end)
		*t->at++ = *s++;
	if (t->at < t->end)
		*t->at++ = 0;
}

static void put_file(struct text *t, const char *path)
{
	long n = sys_read_once(sys_open(path, O_RDONLY), t->at, (uint64_t)(t->end - t->at));
	t->at += n > 0 ? n : 0;
}

/* Reads a list of the recorder's, one name a line. Empty without a file. */
static void read_list(const char *file, char *names, size_t size)
{
	long n = sys_read_once(open_in_session(file, 0, false, O_RDONLY), names, size - 1);
	names[n > 0 ? n : 0] = 0;
}

/* Adds the variables that the recorder has listed: names, or prefixes that end with a _. */
static void put_variables(struct text *t)
{
	char names[1024];
	read_list("variables", names, sizeof names);
	if (&environ == NULL || environ == NULL)
		return;
	for (char **e = environ; *e; e++)
		for (const char *s = names; *s; s = text_next_line(s)) {
			const char *v = *e;
			while (*s && *s != '\n' && *s == *v)
				s++, v++;
			if ((*s == 0 || *s == '\n') && v > *e && (*v == '=' || v[-1] == '_')) {
				put(t, *e);
				break;
			}
		}
}

/* Adds those symbols that exist, from the recorder's list. */
static void put_symbols(struct text *t)
{
	char names[256];
	read_list("symbols", names, sizeof names);
	for (char *s = names, *next; *s; s = next) {
		for (next = s; *next && *next != '\n'; next++)
			;
		if (*next)
			*next++ = 0;
		if (shim_next(s) != NULL)
			put(t, s);
	}
}

/* Adds the loaded libraries of the runtime and of operators, and the symbols. */
static void put_libraries(struct text *t)
{
	for (const struct link_map *l = shim_objects(); l; l = l->l_next)
		if (lookup_of_runtime(l->l_name) || lookup_of_operators(l->l_name))
			put(t, l->l_name);
	put_symbols(t);
}

void process_maps(const char *library)
{
	struct process *p = shim_own_process();
	if (p == NULL)
		return;
	char *from = p->text + p->exe + p->args + p->variables;
	struct text t = {from + p->libraries, p->text + sizeof p->text};
	for (const char *s = from; s < t.at; s += text_length(s) + 1)
		if (lookup_same(s, library))
			return;
	if (text_length(library) < (uint64_t)(t.end - t.at)) {
		put(&t, library);
		__atomic_store_n(&p->libraries, (uint32_t)(t.at - from), __ATOMIC_RELEASE);
	}
}

static void put_arguments(struct text *t) { put_file(t, "/proc/self/cmdline"); }

/* Adds a part of at most size bytes. Returns how many it has. */
static uint32_t put_part(struct text *t, long size, void (*add)(struct text *))
{
	char *from = t->at;
	t->end = from + size;
	add(t);
	return (uint32_t)(t->at - from);
}

/* Returns 1 + the number of seccomp filters of the process, 0 if the kernel does not report it. */
static uint32_t count_filters(char *room, size_t size)
{
	static const char field[] = "\nSeccomp_filters:\t";
	struct text t = {room, room + size};
	uint32_t n = 0;
	put_file(&t, "/proc/self/status");
	for (const char *s = room; s + sizeof field < t.at && n == 0; s++) {
		const char *digit = text_after(s, field);
		if (digit == NULL)
			continue;
		for (; digit < t.at && *digit >= '0' && *digit <= '9'; digit++)
			n = 10 * n + (uint32_t)(*digit - '0');
		n++;
	}
	memset(room, 0, (size_t)(t.at - room));
	return n;
}

/* Returns a hash that stands for the program: of its file, and of its first argument without a dash, which may be a script. */
static uint64_t program_hash(const char *exe, const char *args, const char *end)
{
	uint64_t h = text_hash(TEXT_HASH, exe, text_length(exe) + 1), n;
	for (int i = 0; args < end; i++, args += n + 1) {
		for (n = 0; args + n < end && args[n]; n++)
			;
		if (i > 0 && *args != '-')
			return text_hash(h, args, n);
	}
	return h;
}

bool process_refused(void)
{
	const struct process *p = shim_own_process();
	return session_attached() && (p == NULL || !p->untraced);
}

static void note_code(int code, void *none)
{
	struct process *p = shim_own_process();
	(void)none;
	if (p != NULL)
		__atomic_store_n(&p->code, 1 + (code & 0xff), __ATOMIC_RELAXED);
}

/* Only functions registered by on_exit get the exit code. A C library without on_exit leaves it unknown. Children inherit the registration. */
static void watch_exit(void)
{
	static uint32_t watched;
	if (__atomic_exchange_n(&watched, 1, __ATOMIC_RELAXED))
		return;
	int (*on_exit)(void (*)(int, void *), void *) = (int (*)(void (*)(int, void *), void *))shim_next("on_exit");
	if (on_exit != NULL)
		on_exit(note_code, NULL);
}

/* Creates, locks and maps the file with the next free number. The recorder reads files below next_process: a number counts once its file is there. */
static long make_file(uint32_t *number)
{
	struct flock whole = {.l_type = F_WRLCK};
	uint32_t n = __atomic_load_n(&shim_control->next_process, __ATOMIC_ACQUIRE);
	long fd, m = -1;
	while ((fd = open_in_session("process.", n, true, O_RDWR | O_CREAT | O_EXCL)) == -EEXIST)
		n++;
	if (fd == -ENOENT)
		look_for_session();
	if (fd < 0)
		return fd;
	if (allocate(fd, 0, PROCESS_BYTES) && sys3(__NR_fcntl, fd, F_OFD_SETLK, &whole) == 0) {
		sys2(__NR_fchmod, fd, 0660);
		m = sys_map(PROCESS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0, NULL);
	}
	/* The mapping keeps the file open, and the lock. */
	sys1(__NR_close, fd);
	if (sys_failed(m))
		remove_from_session("process.", n);
	else
		raise_to(&shim_control->next_process, n + 1);
	*number = n;
	return m;
}

static bool register_process(void)
{
	struct stat st;
	uint32_t n = 0;
	shim_self = NULL;
	long m = make_file(&n);
	if (sys_failed(m))
		return false;
	sys3(__NR_madvise, m, PROCESS_BYTES, MADV_NO_FORK);
	struct process *p = (struct process *)m;
	p->pid = (uint32_t)sys0(__NR_getpid);
	p->ppid = (uint32_t)sys0(__NR_getppid);
	p->start = shim_now();
	p->forked_from = __atomic_load_n(&caller, __ATOMIC_RELAXED);
	if (sys4(__NR_newfstatat, -100, "/proc/self/ns/pid", &st, 0) == 0)
		p->pid_namespace = st.st_ino;
	p->filters = count_filters(p->text, sizeof p->text);
	struct text t = {p->text, p->text + sizeof p->text};
	long got = sys4(__NR_readlinkat, -100, "/proc/self/exe", t.at, 1024);
	t.at += got > 0 ? got : 0;
	*t.at++ = 0;
	p->exe = (uint32_t)(t.at - p->text);
	p->args = put_part(&t, 4096, put_arguments);
	p->program = program_hash(p->text, t.at - p->args, t.at);
	p->variables = put_part(&t, 4096, put_variables);
	p->libraries = put_part(&t, p->text + sizeof p->text - t.at, put_libraries);
	/* The crash guard: see probe/ring/crashguard.go. */
	long fd = open_in_session("guard.", p->program, true, O_RDONLY);
	if (fd >= 0) {
		sys1(__NR_close, fd);
		p->untraced = 1;
	}
	self_number = n + 1;
	__atomic_store_n(&p->ready, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&shim_self, p, __ATOMIC_RELEASE);
	watch_exit();
	return !p->untraced;
}

bool open_process(void)
{
	struct shim_process *p = shim_p;
	uint32_t was = PROCESS_NEW;
	if (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) == PROCESS_RECORDS)
		return true;
	static bool unfit; /* the kernel has no MADV_WIPE_ON_FORK: a child would write into its parent's rings */
	if (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) == PROCESS_NEW && sys3(__NR_madvise, SYS_ARG(p), SHIM_PAGE, MADV_WIPE_ON_FORK) < 0)
		unfit = true;
	if (__atomic_compare_exchange_n(&p->ready, &was, PROCESS_OPENING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		p->pid = (uint32_t)sys0(__NR_getpid);
		SHIM_RUN_HOOKS(process);
		bool on = !shim_filtered() && attach_session() && register_process();
		if (shim_filtered())
			shim_self = NULL; /* a child that can't make its file */
		on = on && !unfit;
		p->generation = shim_self != NULL ? self_number : NO_FILE | p->pid;
		p->plain = shim_visible == 0 ? p->generation : 0;
		shim_after_task = on && (shim_control->task_ids || shim_control->time_every);
		__atomic_store_n(&p->ready, on ? PROCESS_RECORDS : PROCESS_OFF, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) == PROCESS_OPENING)
		sys0(__NR_sched_yield);
	return p->ready == PROCESS_RECORDS;
}

/* Notes that the process ends by itself. A process that is gone without this note has crashed, or was killed. */
__attribute__((destructor)) static void note_end(void)
{
	SHIM_RUN_HOOKS(end);
	struct process *p = shim_own_process();
	if (p != NULL)
		__atomic_store_n(&p->ended, 1, __ATOMIC_RELAXED);
}

SHIM_EXPORT __attribute__((noreturn)) void _exit(int code)
{
	struct process *p = shim_own_process();
	/* A child of vfork shares its parent's memory and must not note its own end there. */
	if (p != NULL && p->pid == (uint32_t)sys0(__NR_getpid)) {
		note_code(code, NULL);
		note_end();
	}
	for (;;)
		sys_raw(__NR_exit_group, code, 0, 0, 0, 0, 0);
}

SHIM_EXPORT __attribute__((noreturn)) void _Exit(int code) { _exit(code); }

/* Wrapped, since the C library's quick_exit does not call the exported _exit. */
SHIM_EXPORT __attribute__((noreturn)) void quick_exit(int code)
{
	void (*real)(int) = (void (*)(int))shim_next("quick_exit");
	note_code(code, NULL);
	note_end();
	if (real != NULL)
		real(code);
	_exit(code);
}

/* A server may change its root before its first call of the runtime: the session stays reachable. */
SHIM_EXPORT int chroot(const char *path)
{
	static void *next;
	int (*real)(const char *) = (int (*)(const char *))shim_real(&next, "chroot");
	if (real == NULL)
		return -1;
	if (open_process())
		keep_session();
	return real(path);
}

extern __typeof__(chroot) shim_chroot __attribute__((alias("chroot"), copy(chroot), visibility("hidden")));
