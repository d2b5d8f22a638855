#define _GNU_SOURCE
#include "bind.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __x86_64__
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT, ABSOLUTE = R_X86_64_64 };
#else
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT, ABSOLUTE = R_AARCH64_ABS64 };
#endif

static void *in_libc(const char *name)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	return libc ? dlsym(libc, name) : NULL;
}

/* Never a function that comes before this library: it may be a wrapper, and the substitute may be what it wraps. */
void *bind_find(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	return f ? f : in_libc(name);
}

/* Libraries that have their substitutes, by address. After MAX libraries all are looked at again, which changes nothing. */
enum { MAX = 4096 };
static ElfW(Addr) bound[MAX];
static size_t num_bound;
static _Atomic unsigned long long loaded, unloaded; /* counters of the dynamic loader at the previous look */
static atomic_flag busy = ATOMIC_FLAG_INIT;

struct search {
	const struct binding *all;
	size_t n;
	uint32_t wanted; /* a bit for each binding */
	int found;
};

/* An address in the dynamic section. The loader has added the base to it, but not in the kernel's own library. */
static uintptr_t address(const struct dl_phdr_info *info, uintptr_t p) { return p < info->dlpi_addr ? p + info->dlpi_addr : p; }

static void write_slot(const struct dl_phdr_info *info, void **slot, void *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)slot & -page;
	int sealed = 0;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_GNU_RELRO && (uintptr_t)slot - (info->dlpi_addr + h->p_vaddr) < h->p_memsz)
			sealed = 1;
	}
	if (sealed && mprotect((void *)from, page, PROT_READ | PROT_WRITE))
		return;
	__atomic_store_n(slot, to, __ATOMIC_RELEASE);
	if (sealed)
		mprotect((void *)from, page, PROT_READ);
}

static void bind_relocations(const struct dl_phdr_info *info, const struct search *s, const ElfW(Rela) *r, size_t n, const ElfW(Sym) *symbols, const char *names)
{
	for (; n; r++, n--) {
		unsigned type = ELF64_R_TYPE(r->r_info);
		const ElfW(Sym) *sym = &symbols[ELF64_R_SYM(r->r_info)];
		void **slot = (void **)(info->dlpi_addr + r->r_offset);

		if ((type != JUMP_SLOT && type != GLOB_DAT && type != ABSOLUTE) || sym->st_shndx != SHN_UNDEF || (type == ABSOLUTE && r->r_addend))
			continue;
		for (size_t i = 0; i < s->n; i++)
			if (s->wanted >> i & 1 && *slot != s->all[i].substitute && !strcmp(names + sym->st_name, s->all[i].name))
				write_slot(info, slot, s->all[i].substitute);
	}
}

/* The C library's own parts call each other past these tables, or mean themselves. */
static int is_libc(const char *path)
{
	static const char *const parts[] = {"ld-linux", "libc.so", "libpthread.so", "libdl.so", "librt.so"};
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (!strncmp(name, parts[i], strlen(parts[i])))
			return 1;
	return 0;
}

static int holds(const struct dl_phdr_info *info, const void *p)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_LOAD && (uintptr_t)p - (info->dlpi_addr + h->p_vaddr) < h->p_memsz)
			return 1;
	}
	return 0;
}

static void bind_library(const struct dl_phdr_info *info, const struct search *s)
{
	const ElfW(Dyn) *d = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	uintptr_t plt = 0, rela = 0;
	size_t plt_size = 0, rela_size = 0, relative = 0;

	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB: symbols = (const void *)address(info, d->d_un.d_ptr); break;
		case DT_STRTAB: names = (const void *)address(info, d->d_un.d_ptr); break;
		case DT_JMPREL: plt = address(info, d->d_un.d_ptr); break;
		case DT_PLTRELSZ: plt_size = d->d_un.d_val; break;
		case DT_RELA: rela = address(info, d->d_un.d_ptr); break;
		case DT_RELASZ: rela_size = d->d_un.d_val; break;
		case DT_RELACOUNT: relative = d->d_un.d_val; break; /* these come first and have no symbol */
		}
	if (!symbols || !names)
		return;
	if (plt)
		bind_relocations(info, s, (const void *)plt, plt_size / sizeof(ElfW(Rela)), symbols, names);
	if (rela)
		bind_relocations(info, s, (const ElfW(Rela) *)rela + relative, rela_size / sizeof(ElfW(Rela)) - relative, symbols, names);
}

static int visit(struct dl_phdr_info *info, size_t size, void *p)
{
	struct search *s = p;

	(void)size;
	if (info->dlpi_adds == loaded && info->dlpi_subs == unloaded)
		return 1; /* nothing new */
	for (size_t i = 0; i < num_bound; i++)
		if (bound[i] == info->dlpi_addr)
			return 0;
	s->found = 1;
	if (num_bound < MAX)
		bound[num_bound++] = info->dlpi_addr;
	if (!is_libc(info->dlpi_name) && !holds(info, (const void *)bind_all))
		bind_library(info, s);
	return 0;
}

/* Reports the loader's counters. */
static int count(struct dl_phdr_info *info, size_t size, void *p)
{
	unsigned long long *counters = p;

	(void)size;
	counters[0] = info->dlpi_adds;
	counters[1] = info->dlpi_subs;
	return 1;
}

/* Returns a bit for each function that the program's symbols lead to in libc. Others lead here, or to a wrapper of the program's. */
static uint32_t find_wanted(const struct binding *all, size_t n)
{
	void *program = dlopen(NULL, RTLD_LAZY), *f;
	uint32_t wanted = 0;

	for (size_t i = 0; program && i < n; i++) {
		f = dlsym(program, all[i].name);
		wanted |= (uint32_t)(f && f == in_libc(all[i].name)) << i;
	}
	return wanted;
}

int bind_all(const struct binding *all, size_t n)
{
	static _Atomic uint64_t wanted;
	const uint64_t known = 1ULL << 32;
	unsigned long long now[2] = {0, 0};
	struct search s = {.all = all, .n = n};

	if (!wanted)
		wanted = known | find_wanted(all, n);
	s.wanted = (uint32_t)wanted;
	if (!s.wanted)
		return 0;
	dl_iterate_phdr(count, now);
	if (now[0] == loaded && now[1] == unloaded)
		return 0;
	if (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
		return 0; /* another thread does it, or this one, which a signal handler has interrupted */
	if (now[1] != unloaded)
		num_bound = 0; /* another library may have the address of one that is gone */
	dl_iterate_phdr(visit, &s);
	loaded = now[0];
	unloaded = now[1];
	atomic_flag_clear_explicit(&busy, memory_order_release);
	return s.found;
}
