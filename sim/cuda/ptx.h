/* The parts of PTX that a driver without a GPU needs: kernels with their parameters, and variables with initial values. */
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

/* An address in the initial value of a variable: another variable, by name. */
struct ptx_address {
	size_t at, bytes;
	char *name;
	uint64_t add, mask;
};
struct ptx_variable {
	char *name;
	bool managed;
	int unit; /* its text, if several were linked: local names are unique within a text */
	size_t size, align;
	uint8_t *value; /* NULL if all bytes are 0 */
	struct ptx_address *addresses;
	size_t count;
	struct ptx_variable *next;
};

struct ptx {
	struct ptx_kernel *kernels;
	struct ptx_variable *variables;
};

/* Parses one text or several concatenated ones. False on a syntax error. */
bool ptx_read(struct ptx *p, const char *text) __attribute__((visibility("hidden")));
void ptx_free(struct ptx *p) __attribute__((visibility("hidden")));

/* Builds a cubin with the text and the kernels' parameter descriptions. NULL if the text is invalid. */
uint8_t *ptx_cubin(const char *text, size_t *size) __attribute__((visibility("hidden")));

#endif
