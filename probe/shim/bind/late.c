/*
 * The loader binds references of a library that was loaded with RTLD_DEEPBIND or by dlmopen to the runtime itself. This file redirects them to the
 * shim, in the tables that the loader has filled, when the program asks for the library's first function. Calls by the library's constructors, and by
 * libraries that it loads into its own namespace, bypass the shim; the recorder reports them. Other programs pay nothing for this.
 */
#include "bind/late.h"

#include <link.h>
#include <linux/mman.h>

#include "base/loader.h"
#include "base/lookup.h"
#include "base/sys.h"
#include "bind/names.h"

#if defined(__x86_64__)
enum { WORD = R_X86_64_64, GLOBAL = R_X86_64_GLOB_DAT, JUMP = R_X86_64_JUMP_SLOT };
#elif defined(__aarch64__)
enum { WORD = R_AARCH64_ABS64, GLOBAL = R_AARCH64_GLOB_DAT, JUMP = R_AARCH64_JUMP_SLOT };
#endif

extern unsigned long getauxval(unsigned long) __attribute__((weak));
enum { AT_PAGE_SIZE = 6 };

/* A loaded object under inspection. */
struct late {
	void *(*loader_function)(const char *name);
	const struct link_map *l, *list; /* the object, and the first one in its namespace */
	bool base; /* its namespace is the program's */
	bool deep; /* its lazy references will not find the shim either */
	uint64_t from, to; /* its addresses */
	uint64_t relro_from, relro_to; /* its read-only relocated addresses */
};

static const struct link_map *first_of(const struct link_map *l)
{
	while (l->l_prev)
		l = l->l_prev;
	return l;
}

/* Reads the segments of an object. False if it has no ELF header in memory. */
static bool extent(struct late *o)
{
	const ElfW(Ehdr) *h = (const void *)o->l->l_addr;
	if (h == NULL || !shim_mapped((uint64_t)h) || h->e_ident[0] != ELFMAG0 || h->e_ident[1] != ELFMAG1 || h->e_phentsize != sizeof(ElfW(Phdr)))
		return false;
	const ElfW(Phdr) *p = (const void *)(o->l->l_addr + h->e_phoff);
	uint64_t page = getauxval ? getauxval(AT_PAGE_SIZE) : 4096;
	o->from = o->l->l_addr;
	for (unsigned i = 0; i < h->e_phnum; i++) {
		uint64_t begin = o->l->l_addr + p[i].p_vaddr, end = begin + p[i].p_memsz;
		if (p[i].p_type == PT_LOAD && end > o->to)
			o->to = end;
		if (p[i].p_type == PT_GNU_RELRO) {
			o->relro_from = begin & ~(page - 1);
			o->relro_to = end & ~(page - 1);
		}
	}
	return o->to > o->from;
}

/* Returns the function to which the loader would bind a name: in the objects loaded with this one, or in its namespace. */
static void *target(const struct late *o, const char *name)
{
	void *f = NULL;
	for (const struct link_map *l = o->l->l_next; l && !f; l = l->l_next)
		f = lookup_in(l, name);
	for (const struct link_map *l = o->list; l && !f; l = l->l_next)
		if (!shim_is_own((const void *)l->l_ld))
			f = lookup_in(l, name);
	return f;
}

static bool defined_as(const struct late *o, const char *name, const void *f)
{
	for (const struct link_map *l = o->list; l; l = l->l_next)
		if (lookup_in(l, name) == f)
			return true;
	return false;
}

static void store(const struct late *o, void **slot, void *f)
{
	uint64_t page = getauxval ? getauxval(AT_PAGE_SIZE) : 4096, at = (uint64_t)slot & ~(page - 1);
	bool guarded = at >= o->relro_from && at < o->relro_to;
	if (guarded && sys3(__NR_mprotect, at, page, PROT_READ | PROT_WRITE) < 0)
		return;
	__atomic_store_n(slot, f, __ATOMIC_RELEASE);
	if (guarded)
		sys3(__NR_mprotect, at, page, PROT_READ);
}

static void rebind(const struct late *o, unsigned type, void **slot, const char *name)
{
	const struct shim_name *n = shim_lookup(name);
	/* In another namespace the loader's functions must be that namespace's own. */
	void *own = n == NULL && o->base ? o->loader_function(name) : NULL;
	if (n == NULL && own == NULL)
		return;
	void *f = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (shim_is_own(f))
		return;
	if ((uint64_t)f >= o->from && (uint64_t)f < o->to) {
		/* Not called yet. Lazy binding will find the shim, except from another namespace or with RTLD_DEEPBIND. */
		if (type != JUMP || !o->deep)
			return;
		f = target(o, name);
	} else if (!defined_as(o, name, f))
		return; /* another tool's */
	if (f != NULL)
		store(o, slot, own ? own : shim_substitute(n, name, f));
}

static void look_at(struct late *o)
{
	const ElfW(Sym) *symbols = NULL;
	const ElfW(Rela) *tables[2] = {NULL, NULL};
	uint64_t sizes[2] = {0, 0};
	const char *strings = NULL;
	for (const ElfW(Dyn) *d = o->l->l_ld; d && d->d_tag != DT_NULL; d++) {
		uint64_t p = lookup_address(o->l, d);
		switch (d->d_tag) {
		case DT_SYMTAB: symbols = (const void *)p; break;
		case DT_STRTAB: strings = (const char *)p; break;
		case DT_RELA: tables[0] = (const void *)p; break;
		case DT_JMPREL: tables[1] = (const void *)p; break;
		case DT_RELASZ: sizes[0] = d->d_un.d_val; break;
		case DT_PLTRELSZ: sizes[1] = d->d_un.d_val; break;
		}
	}
	if (symbols == NULL || strings == NULL || !extent(o))
		return;
	for (int i = 0; i < 2; i++)
		for (uint64_t k = 0; tables[i] && k < sizes[i] / sizeof(ElfW(Rela)); k++) {
			const ElfW(Rela) *r = &tables[i][k];
			const ElfW(Sym) *s = &symbols[ELF64_R_SYM(r->r_info)];
			unsigned type = (unsigned)ELF64_R_TYPE(r->r_info);
			if ((type == GLOBAL || type == JUMP || (type == WORD && r->r_addend == 0)) && ELF64_R_SYM(r->r_info) != 0 && s->st_shndx == SHN_UNDEF)
				rebind(o, type, (void **)(o->l->l_addr + r->r_offset), strings + s->st_name);
		}
}

/* The last object in the program's namespace before a thread loaded such a library. If two threads load at once, the first library's lazy references
 * are not redirected, which the recorder reports. */
static const struct link_map *before;

void shim_late(const void *handle, void *(*loader_function)(const char *name))
{
	static uint32_t busy; /* pid of the process whose thread is here: a forked child ignores its parent's */
	struct shim_thread *t = &shim_t;
	const struct link_map *base = shim_objects();
	uint32_t pid = (uint32_t)sys0(__NR_getpid), was = __atomic_load_n(&busy, __ATOMIC_RELAXED);
	if (base == NULL || was == pid || !__atomic_compare_exchange_n(&busy, &was, pid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return; /* another thread is here; this one tries again at its next request */
	t->late = false;
	struct late o = {.loader_function = loader_function, .list = handle ? first_of(handle) : base};
	o.base = o.list == base;
	o.deep = !o.base;
	for (o.l = o.list; o.l; o.l = o.l->l_next) {
		if (!shim_is_own((const void *)o.l->l_ld) && !lookup_of_runtime(o.l->l_name)) {
			o.from = o.to = o.relro_from = o.relro_to = 0;
			look_at(&o);
		}
		if (o.l == __atomic_load_n(&before, __ATOMIC_RELAXED))
			o.deep = true; /* the next objects were loaded since */
	}
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

void shim_loads_late(void)
{
	const struct link_map *l = shim_objects();
	while (l && l->l_next)
		l = l->l_next;
	__atomic_store_n(&before, l, __ATOMIC_RELAXED);
	shim_t.late = true;
}
