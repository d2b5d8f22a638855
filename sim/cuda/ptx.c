#define _GNU_SOURCE
#include "ptx.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A token: a name or directive, a number, or one other character. Empty at the end. */
struct word { const char *at; size_t size; };

static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%'; }
static bool is(struct word w, const char *s) { return strlen(s) == w.size && memcmp(w.at, s, w.size) == 0; }

static struct word next(const char **text)
{
	const char *p = *text;
	for (;;) {
		while (*p == ' ' || (*p >= '\t' && *p <= '\r'))
			p++;
		if (p[0] == '/' && p[1] == '/')
			while (*p && *p != '\n')
				p++;
		else if (p[0] == '/' && p[1] == '*') {
			const char *end = strstr(p, "*/");
			p = end ? end + 2 : p + strlen(p);
		} else if (*p == '"') {
			for (p++; *p && *p != '"'; p++)
				p += *p == '\\' && p[1];
			p += *p == '"';
		} else
			break;
	}
	struct word w = {p, *p ? 1 : 0};
	for (bool name = *p == '.' || letter(*p); name && letter(p[w.size]);)
		w.size++;
	*text = p + w.size;
	return w;
}

/* The size of a type such as .u32, .b8, .bf16 or .f16x2, 0 if it is not a type. */
static size_t type_size(struct word w)
{
	const char *p = w.at + 1, *end = w.at + w.size;
	if (w.size < 3 || *w.at != '.')
		return 0;
	while (p < end && (*p == 'u' || *p == 's' || *p == 'b' || *p == 'f'))
		p++;
	size_t bits = p > w.at + 1 ? (size_t)atoi(p) : 0;
	const char *times = memchr(w.at, 'x', w.size);
	return bits % 8 || bits > 128 ? 0 : bits / 8 * (times ? (size_t)atoi(times + 1) : 1);
}

/* A declaration of a parameter or a variable, up to its final character. */
struct declared { struct word name; size_t unit, count, align; bool open, managed, is_float; };

static char declaration(const char **p, struct declared *d)
{
	for (;;) {
		struct word w = next(p);
		char c = w.size ? *w.at : 0;
		if (c == 0 || strchr(",);{=", c))
			return c;
		if (is(w, ".align"))
			d->align = (size_t)atoi(next(p).at);
		else if (c == '[') {
			for (w = next(p); w.size && *w.at != ']'; w = next(p))
				d->count *= (size_t)strtoull(w.at, NULL, 0);
			d->open = d->open || d->count == 0 || w.at[-1] == '[';
		} else if (is(w, ".v2") || is(w, ".v4"))
			d->count *= (size_t)(w.at[2] - '0');
		else if (c == '(') {
			for (w = next(p); w.size && *w.at != ')'; w = next(p))
				d->managed = d->managed || is(w, ".managed");
		} else if (type_size(w)) {
			d->unit = type_size(w);
			d->is_float = w.at[1] == 'f' && d->unit >= 4;
		} else if (c != '.')
			d->name = w;
	}
}

static void free_kernel(struct ptx_kernel *k)
{
	free(k->name);
	free(k->params);
	free(k);
}

static void kernel(struct ptx *to, const char **p)
{
	struct ptx_kernel *k = calloc(1, sizeof *k);
	struct word w = next(p);
	k->name = strndup(w.at, w.size);
	const char *before = *p;
	char end = is(next(p), "(") ? ',' : 0;
	if (end == 0)
		*p = before;
	while (end == ',') {
		struct declared d = {.count = 1};
		end = declaration(p, &d);
		if (d.unit * d.count == 0)
			break;
		size_t align = d.align ? d.align : d.unit, at = (k->size + align - 1) / align * align;
		k->params = realloc(k->params, (k->count + 1) * sizeof *k->params);
		k->params[k->count++] = (struct ptx_param){at, d.unit * d.count};
		k->size = at + d.unit * d.count;
	}
	/* A kernel may be declared before its definition: the first one counts. */
	for (struct ptx_kernel *o = to->kernels; o; o = o->next)
		if (strcmp(o->name, k->name) == 0) {
			free_kernel(k);
			return;
		}
	k->next = to->kernels;
	to->kernels = k;
}

/* A number: an integer, or a float in hexadecimal or decimal form, stored with the float's size if the type is a float. */
static uint64_t number(const char **p, struct word w, size_t unit, bool is_float)
{
	char *end;
	uint64_t v;
	if (w.size > 2 && w.at[0] == '0' && strchr("fFdD", w.at[1]))
		return strtoull(w.at + 2, NULL, 16);
	double d = strtod(w.at, &end);
	if (is_float || (end > w.at + w.size && w.at[w.size] == '.')) {
		*p = end;
		float f = (float)d;
		v = 0;
		memcpy(&v, unit == 4 ? (void *)&f : (void *)&d, unit == 4 ? 4 : 8);
		return v;
	}
	return strtoull(w.at, NULL, 0);
}

/* One value: a number, or the address of a variable with an offset and possibly a mask. */
static void value(const char **p, struct ptx_variable *v, struct word w, size_t at, const struct declared *d)
{
	uint64_t n = 0, mask = ~0ULL;
	bool minus = false;
	struct word name = {0};
	for (;; w = next(p)) {
		char c = w.size ? *w.at : 0;
		if (c == '-')
			minus = !minus;
		else if (c >= '0' && c <= '9') {
			uint64_t k = number(p, w, d->unit, d->is_float);
			const char *behind = *p;
			if (is(next(&behind), "(")) { /* 0xff00(name) */
				mask = k;
			} else {
				n += minus && d->is_float ? k ^ 1ULL << (8 * d->unit - 1) : minus ? -k : k;
			}
			minus = false;
		} else if (letter(c) && !is(w, "generic"))
			name = w;
		const char *behind = *p;
		struct word after = next(&behind);
		if (after.size == 0 || strchr(",};", *after.at))
			break;
	}
	size_t bytes = d->unit < 8 ? d->unit : 8;
	if (name.size) {
		v->addresses = realloc(v->addresses, (v->count + 1) * sizeof *v->addresses);
		v->addresses[v->count++] = (struct ptx_address){at, bytes, strndup(name.at, name.size), n, mask};
	} else
		memcpy(v->value + at, &n, bytes);
}

static void values(const char **p, struct ptx_variable *v, const struct declared *d)
{
	size_t at = 0, room = v->size;
	int inside = 0;
	v->value = calloc(1, room + 16);
	for (;;) {
		const char *before = *p;
		struct word w = next(p);
		char c = w.size ? *w.at : 0;
		if (c == '{')
			inside++;
		else if (c == '}')
			inside--;
		else if (c == 0 || c == ';' || (c == ',' && inside == 0)) {
			*p = before;
			break;
		} else if (c != ',') {
			if (at + d->unit > room) {
				if (!d->open)
					continue;
				v->value = realloc(v->value, 2 * room + 64 + 16);
				memset(v->value + room, 0, room + 64 + 16);
				room = 2 * room + 64;
			}
			value(p, v, w, at, d);
			at += d->unit;
		}
	}
	if (d->open)
		v->size = at;
}

static void free_variable(struct ptx_variable *v)
{
	for (size_t i = 0; i < v->count; i++)
		free(v->addresses[i].name);
	free(v->addresses);
	free(v->value);
	free(v->name);
	free(v);
}

/* Adds the variables of a declaration, unless it is extern. */
static void variables(struct ptx *to, const char **p, int unit, bool elsewhere)
{
	struct declared d = {0};
	char end;
	do {
		d.count = 1, d.name.size = 0;
		end = declaration(p, &d);
		struct ptx_variable *v = calloc(1, sizeof *v);
		*v = (struct ptx_variable){.name = strndup(d.name.at ? d.name.at : "", d.name.size), .managed = d.managed, .unit = unit, .size = d.unit * d.count, .align = d.align ? d.align : d.unit};
		if (end == '=') {
			values(p, v, &d);
			end = *next(p).at;
		}
		if (elsewhere || v->size == 0 || d.name.size == 0) {
			free_variable(v);
			continue;
		}
		v->next = to->variables;
		to->variables = v;
	} while (end == ',');
}

bool ptx_read(struct ptx *to, const char *p)
{
	int unit = 0;
	bool elsewhere = false;
	*to = (struct ptx){0};
	for (struct word w = next(&p); w.size; w = next(&p)) {
		if (is(w, ".version"))
			unit++;
		else if (is(w, ".extern"))
			elsewhere = true;
		else if (is(w, ".entry"))
			kernel(to, &p);
		else if (is(w, ".global") || is(w, ".const"))
			variables(to, &p, unit, elsewhere), elsewhere = false;
		else if (is(w, ";"))
			elsewhere = false;
		else if (is(w, "{")) {
			/* Skips a function body. */
			for (int depth = 1; depth && w.size;) {
				w = next(&p);
				depth += is(w, "{") - is(w, "}");
			}
			elsewhere = false;
		}
	}
	return unit > 0;
}

void ptx_free(struct ptx *p)
{
	for (struct ptx_kernel *k = p->kernels, *n; k; k = n) {
		n = k->next;
		free_kernel(k);
	}
	for (struct ptx_variable *v = p->variables, *n; v; v = n) {
		n = v->next;
		free_variable(v);
	}
}

uint8_t *ptx_cubin(const char *text, size_t *size)
{
	enum { CUDA = 190, SIZED = 4, PARAM = 0x17 };
	struct ptx p;
	if (!ptx_read(&p, text)) {
		ptx_free(&p);
		return NULL;
	}
	char *out = NULL, *names = NULL;
	size_t names_size = 0, sections = 0;
	FILE *f = open_memstream(&out, size), *n = open_memstream(&names, &names_size);
	Elf64_Shdr *s = NULL;
	Elf64_Ehdr e = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 0x33, 7}, .e_type = ET_EXEC, .e_machine = CUDA, .e_version = EV_CURRENT,
			.e_ehsize = sizeof e, .e_shentsize = sizeof *s};
	fwrite(&e, sizeof e, 1, f);
	fputc(0, n);
	s = calloc(1, sizeof *s);
	sections = 1;
#define SECTION(...) \
	do { \
		s = realloc(s, (sections + 1) * sizeof *s); \
		s[sections++] = (Elf64_Shdr){.sh_name = (Elf64_Word)ftell(n), .sh_type = SHT_PROGBITS, .sh_offset = (Elf64_Off)ftell(f), .sh_addralign = 1}; \
		fprintf(n, __VA_ARGS__); \
		fputc(0, n); \
	} while (0)
#define END (s[sections - 1].sh_size = (Elf64_Xword)ftell(f) - s[sections - 1].sh_offset)
	for (struct ptx_kernel *k = p.kernels; k; k = k->next) {
		SECTION(".nv.info.%s", k->name);
		for (size_t i = k->count; i-- > 0;) {
			struct { uint8_t format, attribute; uint16_t size; uint32_t index; uint16_t ordinal, offset; uint32_t packed; } r = {
				SIZED, PARAM, 12, 0, (uint16_t)i, (uint16_t)k->params[i].at, (uint32_t)k->params[i].size << 18 | 0x1f000};
			_Static_assert(sizeof r == 16, "a record of a cubin");
			fwrite(&r, sizeof r, 1, f);
		}
		END;
	}
	SECTION(".ptx");
	fwrite(text, strlen(text) + 1, 1, f);
	END;
	SECTION(".shstrtab");
	fflush(n);
	fwrite(names, names_size, 1, f);
	END;
	s[sections - 1].sh_type = SHT_STRTAB;
	while (ftell(f) % 8)
		fputc(0, f);
	e.e_shoff = (Elf64_Off)ftell(f);
	e.e_shnum = (Elf64_Half)sections;
	e.e_shstrndx = (Elf64_Half)(sections - 1);
	fwrite(s, sizeof *s, sections, f);
	fclose(f);
	fclose(n);
	memcpy(out, &e, sizeof e);
	free(names);
	free(s);
	ptx_free(&p);
	return (uint8_t *)out;
#undef SECTION
#undef END
}
