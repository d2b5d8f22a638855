#include "params.h"

#include <elf.h>
#include <linux/mman.h>
#include <stdbool.h>

#include "base/sys.h"

struct text { const char *at, *end; };

static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%'; }

static bool same(struct text t, const char *s)
{
	for (; t.at < t.end && *s; s++)
		if (*t.at++ != *s)
			return false;
	return t.at == t.end && *s == 0;
}

/* Returns the next word of PTX: a name, a directive, a number, or one other character. Empty at the end. */
static struct text word(struct text *t)
{
	const char *p = t->at, *end = t->end;
	for (;;) {
		while (p < end && (*p == ' ' || (*p >= '\t' && *p <= '\r')))
			p++;
		if (end - p >= 2 && p[0] == '/' && p[1] == '/') {
			while (p < end && *p != '\n')
				p++;
		} else if (end - p >= 2 && p[0] == '/' && p[1] == '*') {
			for (p += 2; p < end && !(p[0] == '*' && end - p >= 2 && p[1] == '/');)
				p++;
			p = end - p >= 2 ? p + 2 : end;
		} else if (p < end && *p == '"') {
			for (p++; p < end && *p != '"'; p++)
				p += *p == '\\' && end - p >= 2;
			p += p < end;
		} else
			break;
	}
	struct text w = {p, p};
	if (p < end && *p != 0) {
		bool name = *p == '.' || letter(*p);
		for (w.end++; name && w.end < end && letter(*w.end);)
			w.end++;
	}
	t->at = w.end;
	return w;
}

/* Returns a number, 0 if it is invalid or larger than any parameter. */
static uint32_t number(struct text t)
{
	uint32_t n = 0, base = 10;
	if (t.end - t.at > 2 && t.at[0] == '0' && (t.at[1] == 'x' || t.at[1] == 'X')) {
		base = 16;
		t.at += 2;
	}
	if (t.at < t.end && (t.end[-1] == 'U' || t.end[-1] == 'u'))
		t.end--;
	for (; t.at < t.end; t.at++) {
		char c = *t.at >= 'A' && *t.at <= 'F' ? (char)(*t.at + 'a' - 'A') : *t.at;
		uint32_t digit = c >= '0' && c <= '9' ? (uint32_t)(c - '0') : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10) : 16;
		if (digit >= base || n > UINT16_MAX)
			return 0;
		n = n * base + digit;
	}
	return n <= UINT16_MAX ? n : 0;
}

/* Returns the size of a type such as .u32, .b8, .bf16 or .f16x2, 0 for other words. */
static uint32_t type_size(struct text t)
{
	const char *p = t.at + 1;
	while (p < t.end && (*p == 'u' || *p == 's' || *p == 'b' || *p == 'f'))
		p++;
	if (p == t.at + 1 || p == t.end)
		return 0;
	struct text bits = {p, p}, times = {t.end, t.end};
	while (bits.end < t.end && *bits.end != 'x')
		bits.end++;
	if (bits.end < t.end)
		times.at = bits.end + 1;
	uint32_t n = number(bits) / 8, m = times.at < times.end ? number(times) : bits.end < t.end ? 0 : 1;
	return n <= 16 && m <= 4 ? n * m : 0;
}

/* Reads one parameter, up to the character that ends it. Returns its size, 0 if unknown. */
static uint32_t parameter(struct text *t, char *end)
{
	uint32_t unit = 0, count = 1;
	for (;;) {
		struct text w = word(t);
		*end = w.at < w.end ? *w.at : ')';
		if (*end == ',' || *end == ')')
			return unit <= UINT16_MAX && count <= UINT16_MAX && unit * count <= UINT16_MAX ? unit * count : 0;
		if (*end == '[')
			count *= number(word(t));
		else if (same(w, ".align"))
			word(t);
		else if (same(w, ".v2") || same(w, ".v4"))
			count *= (uint32_t)(w.at[2] - '0');
		else if (*end == '.' && type_size(w))
			unit = type_size(w);
		if (count > UINT16_MAX)
			count = 0;
	}
}

static void params_of_ptx(struct text t, params_found *found, void *to)
{
	for (struct text w = word(&t); w.at < w.end; w = word(&t)) {
		if (!same(w, ".entry"))
			continue;
		struct text name = word(&t), before = t;
		struct params s = {0};
		bool known = name.at < name.end;
		char end = same(word(&t), "(") ? ',' : 0;
		if (end == 0)
			t = before; /* a kernel without parameters */
		else {
			before = t;
			if (same(word(&t), ")"))
				end = 0;
			else
				t = before;
		}
		while (end == ',') {
			uint32_t size = parameter(&t, &end);
			known = known && size != 0 && s.count < PARAMS_MOST;
			if (known)
				s.size[s.count++] = (uint16_t)size;
		}
		if (known)
			found(to, name.at, (uint64_t)(name.end - name.at), &s);
	}
}

/* Reads a cubin's records for one kernel, each {format, attribute, size or value}. Two attributes describe a parameter. */
static bool params_of_info(const uint8_t *p, uint64_t size, struct params *s)
{
	enum { SIZED = 4, PARAM = 0x17, LARGE_PARAM = 0x45, BYTES = 12 };
	struct { uint8_t format, attribute; uint16_t size; } h;
	struct { uint32_t index; uint16_t ordinal, offset, low, high; } r;
	uint16_t seen = 0;
	_Static_assert(sizeof h == 4 && sizeof r == BYTES, "records of a cubin");
	for (uint64_t at = 0; size - at >= sizeof h; at += sizeof h + (h.format == SIZED ? h.size : 0)) {
		__builtin_memcpy(&h, p + at, sizeof h);
		if (h.format == SIZED && h.size > size - at - sizeof h)
			return false;
		if (h.format != SIZED || h.size < BYTES || (h.attribute != PARAM && h.attribute != LARGE_PARAM))
			continue;
		__builtin_memcpy(&r, p + at + sizeof h, sizeof r);
		/* PARAM has two other bits beside the size. */
		uint16_t bytes = h.attribute == PARAM ? r.high >> 2 : r.low;
		if (r.ordinal >= PARAMS_MOST || bytes == 0 || s->size[r.ordinal] != 0)
			return false;
		s->size[r.ordinal] = bytes;
		seen++;
		if (s->count <= r.ordinal)
			s->count = (uint16_t)(r.ordinal + 1);
	}
	return seen == s->count;
}

static void params_of_cubin(const uint8_t *p, uint64_t size, params_found *found, void *to)
{
	static const char prefix[] = ".nv.info.";
	Elf64_Ehdr e;
	Elf64_Shdr names, h;
	if (size < sizeof e)
		return;
	__builtin_memcpy(&e, p, sizeof e);
	if (e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_shentsize < sizeof h || e.e_shoff > size || (size - e.e_shoff) / e.e_shentsize < e.e_shnum || e.e_shstrndx >= e.e_shnum)
		return;
	__builtin_memcpy(&names, p + e.e_shoff + (uint64_t)e.e_shstrndx * e.e_shentsize, sizeof names);
	if (names.sh_offset > size || names.sh_size > size - names.sh_offset)
		return;
	for (unsigned i = 0; i < e.e_shnum; i++) {
		__builtin_memcpy(&h, p + e.e_shoff + (uint64_t)i * e.e_shentsize, sizeof h);
		if (h.sh_name >= names.sh_size || h.sh_type == SHT_NOBITS || h.sh_offset > size || h.sh_size > size - h.sh_offset)
			continue;
		const char *name = (const char *)p + names.sh_offset + h.sh_name, *end = (const char *)p + names.sh_offset + names.sh_size;
		unsigned n = 0;
		while (n < sizeof prefix - 1 && name + n < end && name[n] == prefix[n])
			n++;
		const char *stop = name += n;
		while (stop < end && *stop)
			stop++;
		struct params s = {0};
		if (n == sizeof prefix - 1 && stop > name && stop < end && params_of_info(p + h.sh_offset, h.sh_size, &s))
			found(to, name, (uint64_t)(stop - name), &s);
	}
}

/* Adds the further bytes of a length, which end with one below 255. False at the end of the block. */
static bool more(const uint8_t **p, const uint8_t *end, uint64_t *length)
{
	for (uint8_t byte = 255; byte == 255; *length += byte) {
		if (*p == end)
			return false;
		byte = *(*p)++;
	}
	return true;
}

/* Unpacks one LZ4 block: literals and matches in turn. False if the result does not have exactly size bytes. */
static bool unpack(const uint8_t *p, uint64_t packed, uint8_t *to, uint64_t size)
{
	const uint8_t *end = p + packed;
	uint64_t n = 0;
	while (p < end) {
		uint8_t token = *p++;
		uint64_t literals = token >> 4, match = (token & 15) + 4;
		if (literals == 15 && !more(&p, end, &literals))
			return false;
		if (literals > (uint64_t)(end - p) || literals > size - n)
			return false;
		__builtin_memcpy(to + n, p, literals);
		n += literals;
		p += literals;
		if (p == end)
			return n == size;
		if (end - p < 2)
			return false;
		uint64_t back = (uint64_t)(p[0] | p[1] << 8);
		p += 2;
		if (match == 19 && !more(&p, end, &match))
			return false;
		if (back == 0 || back > n || match > size - n)
			return false;
		for (; match > 0; match--, n++)
			to[n] = to[n - back];
	}
	return false;
}

struct count { params_found *found; void *to; uint64_t kernels; };

static void count(void *to, const char *name, uint64_t length, const struct params *params)
{
	struct count *c = to;
	c->kernels++;
	c->found(c->to, name, length, params);
}

/* A fat binary has the same kernels for several devices. The first entry with readable kernels is enough. */
static void params_of_fat(const uint8_t *p, uint64_t size, params_found *found, void *to)
{
	enum { PTX = 1, CUBIN = 2, LZ4 = 0x2000, OTHER = 0x8000 }; /* OTHER: the packing of newer drivers, not supported */
	struct { uint32_t magic; uint16_t version, header; uint64_t size; } fat;
	struct { uint16_t kind, version; uint32_t header; uint64_t size; uint32_t packed, unknown[5]; uint64_t flags, reserved, unpacked; } e;
	_Static_assert(sizeof fat == 16 && sizeof e == 64, "headers of a fat binary");
	struct count c = {found, to, 0};
	if (size < sizeof fat)
		return;
	__builtin_memcpy(&fat, p, sizeof fat);
	if (fat.header < sizeof fat || fat.header > size || fat.size > size - fat.header)
		return;
	p += fat.header;
	for (uint64_t left = fat.size; left >= sizeof e && c.kernels == 0; left -= e.header + e.size, p += e.header + e.size) {
		__builtin_memcpy(&e, p, sizeof e);
		if (e.header < sizeof e || e.header > left || e.size > left - e.header)
			return;
		if ((e.kind != PTX && e.kind != CUBIN) || (e.flags & OTHER) != 0)
			continue;
		const uint8_t *body = p + e.header;
		if ((e.flags & LZ4) == 0) {
			params_of(body, e.size, count, &c);
			continue;
		}
		/* After the packed block there may be padding. */
		long at = e.unpacked == 0 || e.packed > e.size ? -1 : sys_map(e.unpacked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, NULL);
		if (sys_failed(at))
			continue;
		if (unpack(body, e.packed, (uint8_t *)at, e.unpacked))
			params_of((void *)at, e.unpacked, count, &c);
		sys2(__NR_munmap, at, e.unpacked);
	}
}

void params_of(const void *binary, uint64_t size, params_found *found, void *to)
{
	static const uint8_t fat[4] = {0x50, 0xed, 0x55, 0xba};
	if (size >= sizeof fat && __builtin_memcmp(binary, fat, sizeof fat) == 0)
		params_of_fat(binary, size, found, to);
	else if (size >= SELFMAG && __builtin_memcmp(binary, ELFMAG, SELFMAG) == 0)
		params_of_cubin(binary, size, found, to);
	else
		params_of_ptx((struct text){binary, (const char *)binary + size}, found, to);
}
