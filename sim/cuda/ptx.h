/* What a driver without a GPU has to know of PTX: kernels with their parameters, and variables with their first values. */
#ifndef FAKECUDA_PTX_H
#define FAKECUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_param { size_t at, size; };
struct ptx_kernel {
	char *name;
	struct ptx_param *params;
	size_t count, size;
	struct ptx_kernel *next;
};

/* An address within the value of a variable: of another one, by its name. */
struct ptx_address {
	size_t at, bytes;
	char *name;
	uint64_t add, mask;
};
struct ptx_variable {
	char *name;
	bool managed;
	int unit; /* the text that it is of, where several were linked: names may be those of each */
	size_t size, align;
	uint8_t *value; /* NULL where all of it is 0 */
	struct ptx_address *addresses;
	size_t count;
	struct ptx_variable *next;
};

struct ptx {
	struct ptx_kernel *kernels;
	struct ptx_variable *variables;
};

/* Reads a text, or several behind each other. False where it is none. */
bool ptx_read(struct ptx *p, const char *text) __attribute__((visibility("hidden")));
void ptx_free(struct ptx *p) __attribute__((visibility("hidden")));

/* A cubin in which the text is, with what cubins say of the parameters of kernels. NULL where it is none. */
uint8_t *ptx_cubin(const char *text, size_t *size) __attribute__((visibility("hidden")));

#endif
