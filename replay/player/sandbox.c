/*
 * The sandbox of the player. A trace may come from a stranger, and its calls and kernels run here with the user's rights. Three rules:
 *
 *	1. It is entered once, by the one thread of the process, before processes are forked and a library is opened. Landlock and seccomp
 *	   bind the calling thread and its children. Processes in separate sandboxes could not share memory.
 *	2. A layer that the kernel lacks is left out. The caller decides whether to go on.
 *	3. Landlock lists the allowed files. Seccomp lists the refused calls: a C library, a Go runtime and a simulator make too many
 *	   system calls to list them all.
 *
 * Landlock's numbers are repeated here: bundles are built on machines whose headers may be older than the kernel.
 */
#define _GNU_SOURCE
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A test leaves layers out, to show the effect of each. */
#ifdef SANDBOX_TEST
static bool wants(enum sandbox_layer l) { return getenv("SANDBOX_WITHOUT") == NULL || !(atoi(getenv("SANDBOX_WITHOUT")) & (int)l); }
#else
#define wants(l) true
#endif

/* Closes all descriptors except the standard streams. A shell or an editor may have left some open, to any file. */
static bool close_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	if (d == NULL)
		return false;
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		int fd = atoi(e->d_name);
		if (fd > 2 && fd != dirfd(d))
			close(fd);
	}
	closedir(d);
	return true;
}

/* Root keeps the capabilities to read and write files of other users, within the limits of Landlock. */
static bool drop_privileges(void)
{
	enum { VERSION_3 = 0x20080522, DAC_OVERRIDE = 1, DAC_READ_SEARCH = 2, KEEP = 1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH };
	struct { uint32_t version; int pid; } head = {VERSION_3, 0};
	struct { uint32_t effective, permitted, inheritable; } caps[2];
	if (syscall(SYS_capget, &head, caps) != 0)
		return false;
	caps[0].effective &= KEEP;
	caps[0].permitted &= KEEP;
	caps[0].inheritable = caps[1].effective = caps[1].permitted = caps[1].inheritable = 0;
	return syscall(SYS_capset, &head, caps) == 0;
}

/* Landlock, see landlock(7). */
enum { LANDLOCK_CREATE = 444, LANDLOCK_ADD, LANDLOCK_RESTRICT };
enum {
	WRITE_FILE = 1 << 1,
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	REMOVE_FILE = 1 << 5,
	MAKE_REG = 1 << 8,
	TRUNCATE = 1 << 14,
	OF_FILES = WRITE_FILE | READ_FILE | TRUNCATE,
	READS = READ_FILE | READ_DIR,
	/* No folders, links, pipes and sockets: acltrace, outside the sandbox, uses the folder too, and counts its files. */
	ALL = READS | WRITE_FILE | REMOVE_FILE | MAKE_REG | TRUNCATE
};

struct landlock {
	int fd;
	uint64_t handled;
};

/* Allows accesses below a path. A missing path needs no rule. */
static void allow(const struct landlock *l, const char *path, uint64_t access)
{
	struct { uint64_t access; int32_t parent; } __attribute__((packed)) rule = {access & l->handled, open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)};
	if (rule.parent < 0) {
		rule.access &= OF_FILES;
		rule.parent = open(path, O_PATH | O_CLOEXEC);
	}
	if (rule.parent < 0)
		return;
	syscall(LANDLOCK_ADD, l->fd, 1 /* below a path */, &rule, 0);
	close(rule.parent);
}

/* Paths below which the sandbox may read. */
struct readable {
	const char **paths;
	size_t count;
};

/*
 * Lists the loader's folders, those in LD_LIBRARY_PATH, where a C library in another folder is, and those that the caller names. Memory
 * is never freed.
 */
static struct readable readable_paths(const char *const *read, size_t count)
{
	static const char *const system[] = {"/proc", "/sys", "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64",
		"/etc/ld.so.cache", "/dev/urandom", "/dev/zero"};
	const size_t fixed = sizeof system / sizeof *system;
	const char *list = getenv("LD_LIBRARY_PATH");
	struct readable r = {calloc(fixed + count + (list ? strlen(list) : 0) + 1, sizeof *r.paths), 0};
	if (r.paths == NULL)
		return r;
	for (size_t i = 0; i < fixed; i++)
		r.paths[r.count++] = system[i];
	for (size_t i = 0; i < count; i++)
		r.paths[r.count++] = read[i];
	for (size_t n; list != NULL && *list; list += n + (list[n] == ':')) {
		n = strcspn(list, ":");
		if (n > 0 && (r.paths[r.count] = strndup(list, n)) != NULL) /* an empty entry means the current folder */
			r.count++;
	}
	return r;
}

/* stat() of the C library has a version that older ones lack. */
static bool query(const char *path, struct stat *st, int flags) { return syscall(SYS_newfstatat, AT_FDCWD, path, st, flags) == 0; }

/* Makes the folders above a path, and an empty folder or file for it. */
static void make_place(const char *path, bool folder)
{
	char at[PATH_MAX];
	if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at)
		return;
	for (char *slash = strchr(at + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(at, 0755);
		*slash = '/';
	}
	if (folder)
		mkdir(at, 0755);
	else
		close(open(at, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

/* Enters a mount namespace. An ordinary user needs a user namespace for it, with the same ids. */
static bool new_mounts(void)
{
	const unsigned uid = geteuid(), gid = getegid();
	if (unshare(CLONE_NEWNS) != 0) {
		if (uid == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
			return false;
		const struct { const char *file; unsigned id; } maps[] = {{"/proc/self/uid_map", uid}, {"/proc/self/gid_map", gid}};
		int deny = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
		if (deny >= 0) {
			dprintf(deny, "deny");
			close(deny);
		}
		for (size_t i = 0; i < 2; i++) {
			int fd = open(maps[i].file, O_WRONLY | O_CLOEXEC);
			if (fd < 0 || dprintf(fd, "%u %u 1", maps[i].id, maps[i].id) < 0)
				return false;
			close(fd);
		}
	}
	return mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) == 0;
}

/* Mounts an empty folder over another one. */
static bool cover(const char *path) { return mount("none", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") == 0; }

/*
 * Hides the names of all other files, whose sizes and times Landlock does not protect: covers the folders below the root, and shows the readable
 * paths and the own folder again. Folders with programs and libraries stay.
 */
static bool hide_names(const char *own, const struct readable *r)
{
	static const char *const kept[] = {".", "..", "proc", "sys", "dev", "usr", "lib", "lib32", "lib64", "libx32", "bin", "sbin"};
	struct shown { const char *path; int fd; struct stat st; } *shown = calloc(r->count + 1, sizeof *shown);
	char *here = getcwd(NULL, 0);
	DIR *root = opendir("/");
	if (shown == NULL || root == NULL || !new_mounts())
		return false;
	size_t n = 0;
	for (size_t i = 0; i <= r->count; i++) {
		struct shown *s = &shown[n];
		s->path = i < r->count ? r->paths[i] : own;
		if (s->path != NULL && *s->path != '/')
			s->path = realpath(s->path, NULL);
		if (s->path == NULL || !query(s->path, &s->st, 0))
			continue;
		s->fd = open(s->path, O_PATH | O_CLOEXEC);
		n += s->fd >= 0;
	}
	bool all = true;
	for (struct dirent *e; (e = readdir(root)) != NULL;) {
		char path[NAME_MAX + 2];
		struct stat st;
		bool keep = false;
		for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
			keep |= strcmp(e->d_name, kept[i]) == 0;
		snprintf(path, sizeof path, "/%s", e->d_name);
		/* A query of a dead server's folder would hang. */
		if (!keep && (e->d_type == DT_DIR || (e->d_type == DT_UNKNOWN && query(path, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode))))
			all &= cover(path);
	}
	all &= cover("/dev/shm") || errno == ENOENT;
	closedir(root);
	for (size_t i = 0; i < n; i++) {
		struct shown *s = &shown[i];
		struct stat st;
		char from[64];
		if (!query(s->path, &st, 0) || st.st_dev != s->st.st_dev || st.st_ino != s->st.st_ino) {
			snprintf(from, sizeof from, "/proc/self/fd/%d", s->fd);
			make_place(s->path, S_ISDIR(s->st.st_mode));
			all &= mount(from, s->path, NULL, MS_BIND | MS_REC, NULL) == 0;
		}
		close(s->fd);
	}
	free(shown);
	/* The current folder may be covered, and is open: enter the new one, so that relative paths lead to shown files. */
	if (here != NULL && *here == '/') /* else it is outside of the root */
		make_place(here, true);
	if ((here == NULL || chdir(here) != 0) && chdir("/") != 0)
		all = false;
	free(here);
	return all;
}

static uint32_t restrict_files(const char *own, const struct readable *r)
{
	long abi = syscall(LANDLOCK_CREATE, NULL, 0, 1 /* its version */);
	if (abi < 1)
		return 0;
	struct { uint64_t fs, net, scoped; } attr = {(1 << 13) - 1, 0, 0};
	size_t size = abi >= 6 ? sizeof attr : abi >= 4 ? offsetof(__typeof__(attr), scoped) : sizeof attr.fs;
	uint32_t layers = SANDBOX_FILES | (uint32_t)abi << SANDBOX_ABI;
	if (abi >= 2)
		attr.fs |= 1 << 13; /* links and renames between folders; else the kernel refuses them all */
	if (abi >= 3)
		attr.fs |= TRUNCATE;
	if (abi >= 4 && wants(SANDBOX_TCP)) {
		attr.net = 3; /* bind and connect */
		layers |= SANDBOX_TCP;
	}
	if (abi >= 5)
		attr.fs |= 1 << 15; /* ioctl of devices */
	if (abi >= 6 && wants(SANDBOX_SIGNALS)) {
		attr.scoped = 3; /* abstract sockets and signals */
		layers |= SANDBOX_SIGNALS;
	}
	if (!wants(SANDBOX_FILES)) {
		attr.fs = 0;
		layers &= ~(uint32_t)SANDBOX_FILES;
	}
	const struct landlock l = {(int)syscall(LANDLOCK_CREATE, &attr, size, 0), attr.fs};
	if (l.fd < 0)
		return 0;
	for (size_t i = 0; i < r->count; i++)
		allow(&l, r->paths[i], READS);
	allow(&l, "/dev/null", READS | WRITE_FILE);
	if (own != NULL)
		allow(&l, own, ALL);
	if (syscall(LANDLOCK_RESTRICT, l.fd, 0) != 0)
		layers = 0;
	close(l.fd);
	return layers;
}

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#define CALL(name, x86_64, aarch64) x86_64
enum { CALL_ALSO = 1 << 30 }; /* x32 */
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#define CALL(name, x86_64, aarch64) aarch64
#endif

#ifdef MACHINE
/* System calls that no replay needs. They fail with EPERM. -1: the architecture does not have the call. */
static const int denied[] = {
	/* Programs */
	CALL(execve, 59, 221), CALL(execveat, 322, 281),
	/* Network */
	CALL(socket, 41, 198), CALL(socketpair, 53, 199), CALL(bind, 49, 200), CALL(listen, 50, 201), CALL(accept, 43, 202), CALL(accept4, 288, 242),
	CALL(connect, 42, 203), CALL(getsockname, 51, 204), CALL(getpeername, 52, 205), CALL(sendto, 44, 206), CALL(recvfrom, 45, 207),
	CALL(setsockopt, 54, 208), CALL(getsockopt, 55, 209), CALL(shutdown, 48, 210), CALL(sendmsg, 46, 211), CALL(recvmsg, 47, 212),
	CALL(sendmmsg, 307, 269), CALL(recvmmsg, 299, 243),
	/* io_uring, which makes system calls that no filter sees */
	CALL(io_uring_setup, 425, 425), CALL(io_uring_enter, 426, 426), CALL(io_uring_register, 427, 427),
	/* Other processes */
	CALL(ptrace, 101, 117), CALL(process_vm_readv, 310, 270), CALL(process_vm_writev, 311, 271), CALL(process_madvise, 440, 440),
	CALL(process_mrelease, 448, 448), CALL(kcmp, 312, 272), CALL(pidfd_send_signal, 424, 424),
	/* Tracing and page faults */
	CALL(bpf, 321, 280), CALL(perf_event_open, 298, 241), CALL(userfaultfd, 323, 282),
	/* Keys */
	CALL(add_key, 248, 217), CALL(request_key, 249, 218), CALL(keyctl, 250, 219),
	/* Mounts */
	CALL(mount, 165, 40), CALL(umount2, 166, 39), CALL(pivot_root, 155, 41), CALL(chroot, 161, 51), CALL(open_tree, 428, 428),
	CALL(move_mount, 429, 429), CALL(fsopen, 430, 430), CALL(fsconfig, 431, 431), CALL(fsmount, 432, 432), CALL(fspick, 433, 433),
	CALL(mount_setattr, 442, 442), CALL(open_tree_attr, 467, 467), CALL(swapon, 167, 224), CALL(swapoff, 168, 225),
	/* Namespaces; CLONE_NEW* is below */
	CALL(unshare, 272, 97), CALL(setns, 308, 268),
	/* Modules and kernels */
	CALL(init_module, 175, 105), CALL(finit_module, 313, 273), CALL(delete_module, 176, 106), CALL(kexec_load, 246, 104),
	CALL(kexec_file_load, 320, 294),
	/* Files by handle */
	CALL(open_by_handle_at, 304, 265), CALL(name_to_handle_at, 303, 264),
	/* Watching files and folders, which Landlock does not restrict */
	CALL(fanotify_init, 300, 262), CALL(inotify_init, 253, -1), CALL(inotify_init1, 294, 26), CALL(inotify_add_watch, 254, 27),
	/* Changes that Landlock does not restrict: owners, modes, times, attributes and, before its ABI 3, sizes of files that can't be written */
	CALL(chmod, 90, -1), CALL(fchmod, 91, 52), CALL(fchmodat, 268, 53), CALL(fchmodat2, 452, 452), CALL(chown, 92, -1), CALL(lchown, 94, -1),
	CALL(fchown, 93, 55), CALL(fchownat, 260, 54), CALL(utime, 132, -1), CALL(utimes, 235, -1), CALL(futimesat, 261, -1), CALL(utimensat, 280, 88),
	CALL(setxattr, 188, 5), CALL(lsetxattr, 189, 6), CALL(fsetxattr, 190, 7), CALL(removexattr, 197, 14), CALL(lremovexattr, 198, 15),
	CALL(fremovexattr, 199, 16), CALL(setxattrat, 463, 463), CALL(removexattrat, 466, 466), CALL(file_setattr, 469, 469), CALL(truncate, 76, 45),
	/* System V and POSIX objects, which have no path */
	CALL(shmget, 29, 194), CALL(shmat, 30, 196), CALL(shmctl, 31, 195), CALL(shmdt, 67, 197), CALL(semget, 64, 190), CALL(semop, 65, 193),
	CALL(semctl, 66, 191), CALL(semtimedop, 220, 192), CALL(msgget, 68, 186), CALL(msgsnd, 69, 189), CALL(msgrcv, 70, 188), CALL(msgctl, 71, 187),
	CALL(mq_open, 240, 180), CALL(mq_unlink, 241, 181),
	/* Leaving the replay's session, by which acltrace finds its processes; priorities of other processes */
	CALL(setsid, 112, 157), CALL(setpgid, 109, 154), CALL(setpriority, 141, 140), CALL(ioprio_set, 251, 30), CALL(migrate_pages, 256, 238),
	CALL(move_pages, 279, 239),
	/* The machine */
	CALL(reboot, 169, 142), CALL(acct, 163, 89), CALL(quotactl, 179, 60), CALL(quotactl_fd, 443, 443), CALL(settimeofday, 164, 170),
	CALL(clock_settime, 227, 112), CALL(adjtimex, 159, 171), CALL(clock_adjtime, 305, 266), CALL(sethostname, 170, 161), CALL(setdomainname, 171, 162),
	CALL(syslog, 103, 116), CALL(iopl, 172, -1), CALL(ioperm, 173, -1), CALL(vhangup, 153, 58),
};

/* System calls whose first argument names a process, of the same user without any privilege. They are allowed with 0, for the caller. */
static const int own_only[] = {
	CALL(prlimit64, 302, 261), CALL(sched_setaffinity, 203, 122), CALL(sched_setscheduler, 144, 119), CALL(sched_setparam, 142, 118),
	CALL(sched_setattr, 314, 274),
};

static uint32_t restrict_calls(void)
{
	enum {
		COUNT = sizeof denied / sizeof *denied,
		OWN_ONLY = sizeof own_only / sizeof *own_only,
		NEW_NAMESPACES = 0x7e020000, /* CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET */
		PUSH = 0x5412, PASTE = 0x541c, /* TIOCSTI and TIOCLINUX fake input of the terminal */
		FASTER = 4, /* SECCOMP_FILTER_FLAG_SPEC_ALLOW */
	};
	static struct sock_filter code[2 * COUNT + 5 * OWN_ONLY + 40];
	const struct sock_filter allowed = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), refused = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	struct sock_filter *c = code;
#define LOAD(field) *c++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(test, value, skip) *c++ = (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, skip)
	LOAD(arch);
	*c++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
	*c++ = refused;
	LOAD(nr);
#ifdef __x86_64__
	UNLESS(BPF_JGE, CALL_ALSO, 1);
	*c++ = refused;
#endif
	for (int i = 0; i < COUNT; i++) {
		if (denied[i] < 0)
			continue;
		UNLESS(BPF_JEQ, (uint32_t)denied[i], 1);
		*c++ = refused;
	}
	/* Its flags are in memory, where no filter sees them. After ENOSYS the C library uses clone. */
	UNLESS(BPF_JEQ, CALL(clone3, 435, 435), 1);
	*c++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
	UNLESS(BPF_JEQ, CALL(clone, 56, 220), 4);
	LOAD(args[0]);
	UNLESS(BPF_JSET, NEW_NAMESPACES, 1);
	*c++ = refused;
	*c++ = allowed;
	UNLESS(BPF_JEQ, CALL(ioctl, 16, 29), 5);
	LOAD(args[1]);
	*c++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PUSH, 1, 0);
	UNLESS(BPF_JEQ, PASTE, 1);
	*c++ = refused;
	*c++ = allowed;
	for (int i = 0; i < OWN_ONLY; i++) {
		UNLESS(BPF_JEQ, (uint32_t)own_only[i], 4);
		LOAD(args[0]);
		*c++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
		*c++ = refused;
		*c++ = allowed;
	}
	*c++ = allowed;
#undef LOAD
#undef UNLESS
	struct sock_fprog prog = {.len = (unsigned short)(c - code), .filter = code};
	/* FASTER: kernels before 5.16 would disable speculative stores, which makes some programs a third slower. */
	if (syscall(CALL(seccomp, 317, 277), 1 /* a filter */, FASTER, &prog) == 0 || prctl(PR_SET_SECCOMP, 2 /* a filter */, &prog, 0, 0) == 0)
		return SANDBOX_CALLS;
	return 0;
}
#else
static uint32_t restrict_calls(void) { return 0; }
#endif

uint32_t sandbox_enter(const char *own, const char *const *read, size_t count, bool hide)
{
	uint32_t layers = 0;
	/* A user may use Landlock and seccomp only with it. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return 0;
	if (wants(SANDBOX_DESCRIPTORS) && close_descriptors())
		layers |= SANDBOX_DESCRIPTORS;
	const struct readable r = readable_paths(read, count);
	if (hide && wants(SANDBOX_NAMES) && hide_names(own, &r))
		layers |= SANDBOX_NAMES;
	if (wants(SANDBOX_PRIVILEGES) && drop_privileges())
		layers |= SANDBOX_PRIVILEGES;
	layers |= restrict_files(own, &r);
	if (wants(SANDBOX_CALLS))
		layers |= restrict_calls();
	return layers;
}
