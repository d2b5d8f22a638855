/*
 * Tries a way out of the sandbox of the player: ways OWN OUTSIDE NAME. Exit code 0: it leads out; 1: it is refused, with the reason on
 * standard output; 2: this machine has no such way. OWN is the folder of the replay. OUTSIDE has a file "secret" with a line in it.
 */
#define _GNU_SOURCE
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *own, *outside, *self;
static char secret[4096], made[4096], mine[4096];
static pid_t victim; /* a process outside, made before the sandbox is entered */
static int inherited = -1, listener = -1;
static uint16_t port;
static struct sockaddr_un place;
static socklen_t place_len;
static volatile long word = 42; /* of the victim, at the same address */

static void need(int ok, const char *what)
{
	if (!ok) {
		printf("%s: %s\n", what, strerror(errno));
		exit(2);
	}
}

/* Prepared outside. */
static void with_victim(void)
{
	if ((victim = fork()) == 0)
		for (;;)
			pause();
	need(victim > 0, "fork");
}

static void with_file(void) { need((inherited = open(secret, O_RDWR)) >= 0, secret); }
static void with_folder(void) { need((inherited = open(outside, O_PATH | O_DIRECTORY)) >= 0, outside); }

static void with_unix(int abstract)
{
	place.sun_family = AF_UNIX;
	int n = snprintf(place.sun_path + abstract, sizeof place.sun_path - 1, abstract ? "acltrace-test-%d" : "s%d", (int)getpid());
	if (!abstract)
		need(chdir(outside) == 0, outside);
	place_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)(abstract + n) + !abstract);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	need(bind(listener, (void *)&place, place_len) == 0 && listen(listener, 1) == 0, "listen");
	with_victim(); /* which holds it */
}

static void with_socket(void) { with_unix(0); }
static void with_abstract_socket(void) { with_unix(1); }

static void with_tcp(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	listener = socket(AF_INET, SOCK_STREAM, 0);
	need(bind(listener, (void *)&a, len) == 0 && listen(listener, 1) == 0 && getsockname(listener, (void *)&a, &len) == 0, "listen");
	port = a.sin_port;
	with_victim();
}

static void with_terminal(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	need(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0, "terminal");
	pid_t child = fork(); /* it alone may begin a session */
	if (child > 0) {
		int status;
		waitpid(child, &status, 0);
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
	}
	setsid();
	int slave = open(ptsname(master), O_RDWR);
	need(slave >= 0 && ioctl(slave, TIOCSCTTY, 0) == 0 && dup2(slave, 0) == 0, "terminal");
}

static union { struct file_handle h; char room[sizeof(struct file_handle) + MAX_HANDLE_SZ]; } handle;
static int mount_fd;
static void with_handle(void)
{
	int id;
	handle.h.handle_bytes = MAX_HANDLE_SZ;
	need(name_to_handle_at(AT_FDCWD, secret, &handle.h, &id, 0) == 0, "name_to_handle_at");
}

/* The ways: at least 0 if it led out. */
static long readable(const char *path)
{
	int fd = open(path, O_RDONLY);
	char c;
	return fd < 0 ? -1 : read(fd, &c, 1) == 1 ? 0 : -1;
}
static long read_file(void) { return readable(secret); }
static long query_file(void)
{
	struct stat st;
	return stat(secret, &st);
}
static long query_by_path(void) { return open(secret, O_PATH); }
static long query_folder(void) { return access(outside, F_OK); }
static long list_folder(void) { return open(outside, O_RDONLY | O_DIRECTORY); }
static long make_file(void) { return open(made, O_WRONLY | O_CREAT | O_EXCL, 0600); }
static long overwrite(void) { return open(secret, O_WRONLY | O_TRUNC); }
static long truncate_file(void) { return truncate(secret, 0); }
static long remove_file(void) { return unlink(secret); }
static long rename_file(void) { return rename(secret, mine); }
static long link_file(void) { return link(secret, mine); }
static long make_link(void) { return symlink("/etc", mine); }
static long make_pipe(void) { return mkfifo(mine, 0600); }
static long make_device(void) { return mknod(mine, S_IFCHR | 0600, 1 << 8 | 3); }
static long make_folder(void) { return mkdir(made, 0700); }
static long make_own_folder(void) { return mkdir(mine, 0700); }
static long change_mode(void) { return chmod(secret, 0666); }
static long change_owner(void) { return chown(secret, getuid(), getgid()); }
static long change_time(void) { return utimensat(AT_FDCWD, secret, NULL, 0); }
static long set_attribute(void) { return setxattr(secret, "user.x", "1", 1, 0); }
static long use_descriptor(void) { return write(inherited, "x", 1); }
static long use_folder(void) { return openat(inherited, "secret", O_RDONLY); }
static long by_handle(void) { return (mount_fd = open(own, O_RDONLY)) < 0 ? -1 : open_by_handle_at(mount_fd, &handle.h, O_RDONLY); }
static long set_kernel(void) { return open("/proc/sys/kernel/core_pattern", O_WRONLY); }

/* In a child, which is the program if it can be started. */
static long started(int of_memory)
{
	char *const argv[] = {(char *)self, NULL}, *const env[] = {NULL};
	int fd = -1;
	if (of_memory) {
		int from = open(self, O_RDONLY);
		char b[1 << 16];
		fd = memfd_create("program", 0);
		for (ssize_t n; (n = read(from, b, sizeof b)) > 0;)
			if (write(fd, b, (size_t)n) != n)
				return -1;
	}
	pid_t child = fork();
	if (child == 0) {
		if (of_memory)
			execveat(fd, "", argv, env, AT_EMPTY_PATH);
		else
			execve(self, argv, env);
		_exit(errno);
	}
	int status;
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) /* main() without arguments */
		return 0;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
	return -1;
}
static long start_program(void) { return started(0); }
static long start_memory(void) { return started(1); }

static long connect_place(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	return fd < 0 ? -1 : connect(fd, (void *)&place, place_len);
}
static long tcp(int (*use)(int, const struct sockaddr *, socklen_t), uint16_t to)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = to};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return fd < 0 ? -1 : use(fd, (void *)&a, sizeof a);
}
static long connect_tcp(void) { return tcp(connect, port); }
static long serve_tcp(void) { return tcp(bind, 0); }
static long send_udp(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	return fd < 0 ? -1 : sendto(fd, "x", 1, 0, (void *)&a, sizeof a);
}
static long ring(void)
{
	static char params[256];
	return syscall(425, 1, params);
}

static long trace_other(void) { return ptrace(PTRACE_ATTACH, victim, 0, 0); }
static long read_other(void)
{
	char c;
	struct iovec to = {&c, 1}, from = {(void *)&word, 1};
	return process_vm_readv(victim, &to, 1, &from, 1, 0);
}
static long open_other(void)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mem", (int)victim);
	return open(path, O_RDWR);
}
static long take_descriptor(void)
{
	long fd = syscall(434 /* pidfd_open */, victim, 0);
	return fd < 0 ? -1 : syscall(438 /* pidfd_getfd */, fd, 0, 0);
}
static long kill_other(void) { return kill(victim, SIGKILL); }
static long limit_other(void)
{
	struct rlimit r = {16, 16};
	return prlimit(victim, RLIMIT_NOFILE, &r, NULL);
}
static long slow_other(void) { return setpriority(PRIO_PROCESS, (id_t)victim, 19); }
/* The kernel checks only that the process belongs to the same user. The class of all is "other", so each call can succeed. */
static long pin_other(void)
{
	cpu_set_t first;
	CPU_ZERO(&first);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		CPU_SET(i, &first); /* the first processor may be another container's */
		if (sched_setaffinity(victim, sizeof first, &first) == 0)
			return 0;
	}
	return -1;
}
static long idle_other(void) { return sched_setscheduler(victim, SCHED_IDLE, &(struct sched_param){0}); }
static long param_other(void) { return sched_setparam(victim, &(struct sched_param){0}); }
static long attr_other(void)
{
	struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; } a = {.size = 48, .nice = 19};
	return syscall(SYS_sched_setattr, victim, &a, 0);
}
static long io_other(void) { return syscall(SYS_ioprio_set, 1 /* a process */, victim, 3 << 13 /* idle */); }
static long watch_folder(void)
{
	int fd = inotify_init1(IN_NONBLOCK);
	return fd < 0 ? -1 : inotify_add_watch(fd, outside, IN_ALL_EVENTS);
}
static long leave_session(void)
{
	pid_t child = fork();
	if (child == 0)
		_exit(setsid() < 0 ? errno : 0);
	int status;
	waitpid(child, &status, 0);
	errno = WEXITSTATUS(status);
	return errno ? -1 : 0;
}
static long use_shared(void)
{
	int id = shmget(IPC_PRIVATE, 4096, 0600);
	return id < 0 ? -1 : shmctl(id, IPC_RMID, NULL);
}

static long bpf_map(void)
{
	struct { uint32_t type, key, value, entries; char rest[112]; } attr = {.type = 2, .key = 4, .value = 4, .entries = 1};
	return syscall(SYS_bpf, 0, &attr, sizeof attr);
}
static long count_events(void)
{
	struct { uint32_t type, size; uint64_t config, rest[12]; } attr = {.type = 1, .size = 112, .config = 0};
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}
static long fault_pages(void) { return syscall(SYS_userfaultfd, 0); }
static long add_key(void) { return syscall(SYS_add_key, "user", "acltrace-test", "x", 1, -2 /* of the process */); }
static long read_keys(void) { return syscall(SYS_keyctl, 0, -2, 1); }
static long mount_memory(void) { return mount("none", own, "tmpfs", 0, NULL) < 0 ? -1 : umount(own); }
static long change_root(void) { return chroot(own); }
static long new_namespace(void) { return unshare(CLONE_NEWUSER); }
static long join_namespace(void)
{
	int fd = open("/proc/self/ns/uts", O_RDONLY);
	return fd < 0 ? -1 : setns(fd, 0);
}
static long cloned(long pid)
{
	if (pid == 0)
		_exit(0);
	return pid;
}
static long clone_namespace(void) { return cloned(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL)); }
static long clone3_namespace(void)
{
	uint64_t args[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
	return cloned(syscall(435, args, sizeof args));
}
/* It is no module: all but a refusal is an answer of its own. */
static long load_module(void) { return syscall(SYS_init_module, "x", 1, "") < 0 && (errno == EPERM || errno == ENOSYS) ? -1 : 0; }
static long type_command(void) { return ioctl(0, TIOCSTI, "x"); }
static long name_host(void)
{
	char name[256] = "";
	return gethostname(name, sizeof name - 1) != 0 ? -1 : sethostname(name, strlen(name));
}
static long become_other(void) { return setuid(getuid() + 1); }
static long old_call(void)
{
#ifdef __x86_64__
	long r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L /* getpid */) : "memory", "r8", "r9", "r10", "r11");
	if (r >= 0)
		return 0;
	errno = (int)-r;
#else
	errno = ENOSYS;
#endif
	return -1;
}

static const struct {
	const char *name;
	void (*prepare)(void);
	long (*lead)(void);
} ways[] = {
	{"read a file", NULL, read_file},
	{"query a file", NULL, query_file},
	{"query a file by a path", NULL, query_by_path},
	{"query a folder", NULL, query_folder},
	{"list a folder", NULL, list_folder},
	{"make a file", NULL, make_file},
	{"overwrite a file", NULL, overwrite},
	{"cut a file", NULL, truncate_file},
	{"remove a file", NULL, remove_file},
	{"rename a file", NULL, rename_file},
	{"link a file", NULL, link_file},
	{"make a symbolic link", NULL, make_link},
	{"make a pipe", NULL, make_pipe},
	{"make a device", NULL, make_device},
	{"make a folder", NULL, make_folder},
	{"make a folder of its own", NULL, make_own_folder},
	{"change a mode", NULL, change_mode},
	{"change an owner", NULL, change_owner},
	{"change a time", NULL, change_time},
	{"set an attribute", NULL, set_attribute},
	{"write to an inherited file", with_file, use_descriptor},
	{"open in an inherited folder", with_folder, use_folder},
	{"open a file by its handle", with_handle, by_handle},
	{"set a variable of the kernel", NULL, set_kernel},
	{"start a program", NULL, start_program},
	{"start a program in memory", NULL, start_memory},
	{"connect to a socket", with_socket, connect_place},
	{"connect to an abstract socket", with_abstract_socket, connect_place},
	{"connect by TCP", with_tcp, connect_tcp},
	{"serve TCP", NULL, serve_tcp},
	{"send by UDP", NULL, send_udp},
	{"set up an io_uring", NULL, ring},
	{"trace a process", with_victim, trace_other},
	{"read a process", with_victim, read_other},
	{"open a process's memory", with_victim, open_other},
	{"take a process's descriptor", with_victim, take_descriptor},
	{"kill a process", with_victim, kill_other},
	{"limit a process", with_victim, limit_other},
	{"slow a process", with_victim, slow_other},
	{"pin a process", with_victim, pin_other},
	{"idle a process", with_victim, idle_other},
	{"set a process's parameters", with_victim, param_other},
	{"set a process's attributes", with_victim, attr_other},
	{"delay a process's files", with_victim, io_other},
	{"watch a folder", NULL, watch_folder},
	{"leave the session", NULL, leave_session},
	{"use System V memory", NULL, use_shared},
	{"use BPF", NULL, bpf_map},
	{"count events", NULL, count_events},
	{"handle page faults", NULL, fault_pages},
	{"add a key", NULL, add_key},
	{"look for keys", NULL, read_keys},
	{"mount", NULL, mount_memory},
	{"change the root", NULL, change_root},
	{"make a namespace", NULL, new_namespace},
	{"join a namespace", NULL, join_namespace},
	{"clone into a namespace", NULL, clone_namespace},
	{"clone3 into a namespace", NULL, clone3_namespace},
	{"load a module", NULL, load_module},
	{"type into the terminal", with_terminal, type_command},
	{"name the host", NULL, name_host},
	{"become another user", NULL, become_other},
	{"call as 32 bits", NULL, old_call},
};

/* The victim is gone, and with it whatever it holds. */
static int end(int code)
{
	fflush(stdout);
	if (victim > 0)
		ptrace(PTRACE_DETACH, victim, 0, 0), kill(victim, SIGKILL);
	return code;
}

int main(int argc, char **argv)
{
	if (argc <= 1)
		return 77;
	if (argc != 4)
		return 2;
	self = argv[0], own = argv[1], outside = argv[2];
	snprintf(secret, sizeof secret, "%s/secret", outside);
	snprintf(made, sizeof made, "%s/made", outside);
	snprintf(mine, sizeof mine, "%s/made", own);
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		if (strcmp(ways[i].name, argv[3]) != 0)
			continue;
		if (ways[i].prepare)
			ways[i].prepare();
		const char *read[] = {self};
		/* A process of its own, since one in the sandbox can't end the victim. */
		pid_t child = fork();
		if (child == 0) {
			sandbox_enter(own, read, 1, true);
			errno = 0;
			if (ways[i].lead() >= 0)
				_exit(0);
			printf("%s\n", strerror(errno));
			fflush(stdout);
			_exit(1);
		}
		int status = 0;
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			printf("%s\n", strsignal(WTERMSIG(status)));
		return end(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	printf("no such way\n");
	return 2;
}
