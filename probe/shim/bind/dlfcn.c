/*
 * dlsym, dlopen and the like, so that a program that asks for the runtime's functions gets the wrappers.
 *
 * For RTLD_DEFAULT and RTLD_NEXT, dlsym depends on its caller. Such a request jumps to the real dlsym with the caller's own return address, and finds
 * the shim before the runtime. With a handle, the real dlsym is called. If its result is a function that the shim wraps, the program gets the
 * wrapper, which calls that function.
 */
#include "base/loader.h"
#include "base/lookup.h"
#include "bind/below.h"
#include "bind/late.h"
#include "bind/names.h"
#include "bind/passed.h"
#include "session/process.h"

#define NEXT ((void *)-1L)

typedef void *dlsym_fn(void *handle, const char *name);
typedef void *dlvsym_fn(void *handle, const char *name, const char *version);

/* A libdl may be loaded after the first call, so a missing function is looked for again. */
static void *real_dlsym, *real_dlvsym, *real_dlopen, *real_dlmopen, *real_dlclose;

/* The loader's result for a name that only the shim has. The loader must search after the shim, so these call it instead of jumping. */
static void *missing(void *handle, const char *name)
{
	(void)handle;
	void *f = ((dlsym_fn *)real_dlsym)(NEXT, name);
	__asm__ volatile("" : "+r"(f));
	return f;
}

static void *missing_version(void *handle, const char *name, const char *version)
{
	(void)handle;
	void *f = ((dlvsym_fn *)real_dlvsym)(NEXT, name, version);
	__asm__ volatile("" : "+r"(f));
	return f;
}

/*
 * Whether the next object with the function lacks this version of it. The shim's functions have no versions, and the loader takes them for any
 * version. In a scope of its own the object is not found: then the loader decides.
 */
static bool no_such_version(const char *name, const char *version)
{
	dlsym_fn *any = (dlsym_fn *)shim_real(&real_dlsym, "dlsym");
	return any != NULL && any(NEXT, name) != NULL && ((dlvsym_fn *)real_dlvsym)(NEXT, name, version) == NULL;
}

static void *no_loader(void *handle, const char *name)
{
	(void)handle, (void)name;
	return NULL;
}

/* Returns the function to jump to for RTLD_DEFAULT and RTLD_NEXT. */
static void *exact(const char *name, void *real, void *none)
{
	if (real == NULL)
		return (void *)no_loader;
	const struct shim_name *n = shim_lookup(name);
	if (n != NULL)
		return name_exists(n) ? real : none;
	void *f = passed_of_runtime(name) || passed_has_prefix(shim_below, name) ? shim_next(name) : NULL;
	if (f != NULL && passed_of_runtime(name))
		passed_found(name, f);
	else if (f != NULL)
		below_found(name, f, NULL);
	return real;
}

HIDDEN __attribute__((used)) void *shim_dlsym_exact(void *handle, const char *name)
{
	(void)handle;
	return exact(name, shim_real(&real_dlsym, "dlsym"), (void *)missing);
}

HIDDEN __attribute__((used)) void *shim_dlvsym_exact(void *handle, const char *name, const char *version)
{
	(void)handle;
	void *real = shim_real(&real_dlvsym, "dlvsym");
	if (real != NULL && shim_exports(name) && no_such_version(name, version))
		return (void *)missing_version;
	return exact(name, real, (void *)missing_version);
}

static void *loader_function(const char *name);

/* Replaces the loader's result for a name by the program's. False if only the shim has the name. */
static bool found(void *handle, const char *name, void **f, const void *caller)
{
	if (*f == NULL)
		return true;
	if (__builtin_expect(shim_t.late, 0))
		shim_late(handle, loader_function);
	const struct shim_name *n = shim_lookup(name);
	if (shim_is_own(*f)) /* by dlopen(NULL), or a scope in which the shim comes first */
		return n == NULL || name_exists(n);
	if (n == NULL && !passed_of_runtime(name))
		below_found(name, *f, caller);
	else
		*f = shim_substitute(n, name, *f);
	return true;
}

HIDDEN __attribute__((used)) void *shim_dlsym_handle(void *handle, const char *name)
{
	dlsym_fn *real = (dlsym_fn *)shim_real(&real_dlsym, "dlsym");
	void *f = real ? real(handle, name) : NULL;
	return found(handle, name, &f, __builtin_return_address(0)) ? f : missing(handle, name);
}

HIDDEN __attribute__((used)) void *shim_dlvsym_handle(void *handle, const char *name, const char *version)
{
	dlvsym_fn *real = (dlvsym_fn *)shim_real(&real_dlvsym, "dlvsym");
	void *f = real ? real(handle, name, version) : NULL;
	if (f != NULL && shim_is_own(f) && no_such_version(name, version))
		return missing_version(handle, name, version);
	return found(handle, name, &f, __builtin_return_address(0)) ? f : missing_version(handle, name, version);
}

/* Return the function to jump to. */
HIDDEN __attribute__((used)) void *shim_dlopen_before(const char *file, int flags)
{
	(void)file;
	below_linked();
	if (flags & RTLD_DEEPBIND)
		shim_loads_late();
	void *real = shim_real(&real_dlopen, "dlopen");
	return real ? real : (void *)no_loader;
}

HIDDEN __attribute__((used)) void *shim_dlmopen_before(long space, const char *file, int flags)
{
	(void)file;
	below_linked();
	if (space != 0 || (flags & RTLD_DEEPBIND))
		shim_loads_late();
	void *real = shim_real(&real_dlmopen, "dlmopen");
	return real ? real : (void *)no_loader;
}

#define FUNCTION(name, code)                                                                                               \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t.globl shim_" #name "\n\t.hidden shim_" #name "\n\t.p2align 4\nshim_" #name ":\n" #name ":\n\t"        \
		".cfi_startproc\n\t" code ".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t")

/* JUMP keeps the arguments while a C function chooses the function to jump to. */
#if defined(__x86_64__)
#define JUMP(choose)                                                                                                       \
	"push %rdi\n\t.cfi_adjust_cfa_offset 8\n\tpush %rsi\n\t.cfi_adjust_cfa_offset 8\n\t"                               \
	"push %rdx\n\t.cfi_adjust_cfa_offset 8\n\tcall " choose "\n\t"                                                      \
	"pop %rdx\n\t.cfi_adjust_cfa_offset -8\n\tpop %rsi\n\t.cfi_adjust_cfa_offset -8\n\t"                               \
	"pop %rdi\n\t.cfi_adjust_cfa_offset -8\n\tjmp *%rax\n\t"
#define REQUEST(name) FUNCTION(name, "endbr64\n\tlea 1(%rdi), %rax\n\tcmp $1, %rax\n\tja shim_" #name "_handle\n\t" JUMP("shim_" #name "_exact"))
#define LOADING(name) FUNCTION(name, "endbr64\n\t" JUMP("shim_" #name "_before")) /* depends on its caller too */
#elif defined(__aarch64__)
#define JUMP(choose)                                                                                                       \
	"stp x29, x30, [sp, #-48]!\n\t.cfi_def_cfa_offset 48\n\t.cfi_offset 29, -48\n\t.cfi_offset 30, -40\n\t"             \
	"stp x0, x1, [sp, #16]\n\tstr x2, [sp, #32]\n\tbl " choose "\n\tmov x16, x0\n\t"                                    \
	"ldp x0, x1, [sp, #16]\n\tldr x2, [sp, #32]\n\tldp x29, x30, [sp], #48\n\t.cfi_restore 29\n\t"                      \
	".cfi_restore 30\n\t.cfi_def_cfa_offset 0\n\tbr x16\n\t"
#define REQUEST(name) FUNCTION(name, "hint 34\n\tadd x9, x0, #1\n\tcmp x9, #1\n\tb.ls 1f\n\tb shim_" #name "_handle\n1:\t" JUMP("shim_" #name "_exact"))
#define LOADING(name) FUNCTION(name, "hint 34\n\t" JUMP("shim_" #name "_before"))
#endif

REQUEST(dlsym);
REQUEST(dlvsym);
LOADING(dlopen);
LOADING(dlmopen);

SHIM_EXPORT int dlclose(void *handle)
{
	int (*real)(void *) = (int (*)(void *))shim_real(&real_dlclose, "dlclose");
	if (real == NULL)
		return -1;
	below_linked();
	int ret = real(handle);
	forget_unloaded();
	return ret;
}

/* Hidden names of the same functions: another library can't interpose them. */
extern char shim_dlsym[] HIDDEN, shim_dlvsym[] HIDDEN, shim_dlopen[] HIDDEN, shim_dlmopen[] HIDDEN;
extern __typeof__(dlclose) shim_dlclose __attribute__((alias("dlclose"), copy(dlclose), visibility("hidden")));

static void *loader_function(const char *name)
{
	static const struct { const char *name; void *f; } own[] = {
		{"dlsym", shim_dlsym}, {"dlvsym", shim_dlvsym}, {"dlopen", shim_dlopen}, {"dlmopen", shim_dlmopen},
		{"dlclose", (void *)shim_dlclose}, {"chroot", (void *)shim_chroot},
	};
	for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
		if (lookup_same(own[i].name, name))
			return own[i].f;
	return NULL;
}
