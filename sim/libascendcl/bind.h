/*
 * Binds the functions that a program's libraries import to substitutes, if this library comes too late in the order of symbols
 * to have its own functions found.
 */
#ifndef ACLSIM_BIND_H
#define ACLSIM_BIND_H

#include <stddef.h>

struct binding {
	const char *name;
	void *substitute;
};

/* Returns the function that a substitute stands for: the next one of this name after this library, or libc's. */
void *bind_find(const char *name);

/*
 * Writes the substitutes into the tables of all libraries that have not got them yet. Returns 1 if it has looked at a library for the first time, else 0.
 * Does nothing for functions that the program finds here already, or in a library other than libc.
 */
int bind_all(const struct binding *all, size_t n);

#endif
