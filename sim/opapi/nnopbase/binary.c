/*
 * The binary of the operators: an ELF relocatable file with one kernel an operator and no code. The section ".aclsim.operators" tells the
 * simulator that their argument blocks can be read. It is the same on all processors.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"
#include "operators_gen.h"

#define TEXT(name) #name "\0"
/* All names, after an empty one. */
static const char names[] = "\0" EACH_OPERATOR(TEXT);

static const char section_names[] = "\0.text\0.aclsim.operators\0.symtab\0.strtab";

enum { NONE, CODE, MARK, SYMBOLS, NAMES, SECTIONS };
enum { KERNEL_SIZE = 4 };

typedef struct image {
	Elf64_Ehdr head;
	Elf64_Shdr sections[SECTIONS];
	uint32_t code[OPERATORS]; /* of KERNEL_SIZE each */
	_Alignas(8) uint32_t version;
	_Alignas(8) Elf64_Sym symbols[1 + OPERATORS];
	char names[sizeof names + sizeof section_names]; /* of operators, then of sections */
} image;

static Elf64_Shdr section(const char *name, uint32_t type, uint64_t flags, size_t offset, size_t size)
{
	return (Elf64_Shdr){
		.sh_name = (uint32_t)(sizeof names + (size_t)((const char *)memmem(section_names, sizeof section_names, name, strlen(name) + 1) - section_names)),
		.sh_type = type,
		.sh_flags = flags,
		.sh_offset = offset,
		.sh_size = size,
		.sh_addralign = 8,
	};
}

#define SECTION(name, type, flags, member) section(name, type, flags, offsetof(image, member), sizeof((image *)0)->member)

void *binary_make(size_t *size)
{
	image *f = calloc(1, sizeof *f);

	if (!f)
		return NULL;
	f->head = (Elf64_Ehdr){
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_REL,
		.e_version = EV_CURRENT,
		.e_shoff = offsetof(image, sections),
		.e_ehsize = sizeof f->head,
		.e_shentsize = sizeof f->sections[0],
		.e_shnum = SECTIONS,
		.e_shstrndx = NAMES,
	};
	f->sections[CODE] = SECTION(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, code);
	f->sections[MARK] = SECTION(".aclsim.operators", SHT_PROGBITS, 0, version);
	f->sections[SYMBOLS] = SECTION(".symtab", SHT_SYMTAB, 0, symbols);
	f->sections[NAMES] = SECTION(".strtab", SHT_STRTAB, 0, names);
	f->sections[SYMBOLS].sh_link = NAMES;
	f->sections[SYMBOLS].sh_info = 1;
	f->sections[SYMBOLS].sh_entsize = sizeof f->symbols[0];
	f->version = ACLSIM_OPERATOR_VERSION;
	memcpy(f->names, names, sizeof names);
	memcpy(f->names + sizeof names, section_names, sizeof section_names);
	const char *at = names + 1;
	for (uint32_t i = 0; i < OPERATORS; i++, at += strlen(at) + 1)
		f->symbols[1 + i] = (Elf64_Sym){
			.st_name = (uint32_t)(at - names),
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = CODE,
			.st_value = i * KERNEL_SIZE,
			.st_size = KERNEL_SIZE,
		};
	*size = sizeof *f;
	return f;
}
