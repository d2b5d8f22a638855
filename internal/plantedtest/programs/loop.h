/* A loop of steps in the manner of a framework, in which a problem can be planted. */
#ifndef LOOP_H
#define LOOP_H

#define _GNU_SOURCE

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"

enum { STEPS = 30, LAYERS = 6, AT = 20, BATCH = 64 << 10, WEIGHTS = 2 << 20 }; /* AT: the step of a problem that has one */

extern struct loop {
	int step, layer;
	aclrtStream stream, side;
	char *x, *y, *state, *weights;	       /* device memory */
	char *batch, *pageable, *loss, *saved; /* host memory: pinned, pageable, pinned, pageable */
	int kernel_us, layers, launches;       /* of a kernel; in a step; in a layer */
	bool pageable_batch, silent_end;
	int rank, ranks;
	char **argv;
} loop;

/* Ends the program when a call fails, as frameworks do. */
#define OK(call) check((call), #call)
void check(int code, const char *call);

void host(int us);						/* work on the host, on a virtual clock too */
void launch(aclrtStream s, const char *kernel, int us);		/* through the queue, if there is one */
void submit(void (*task)(void *), void *arg);			/* the same of any task */
void drain(void);						/* waits until the queue is empty */
void *device_memory(size_t bytes);
bool graphs(void);						/* the manner is graphs */
void capture(void);						/* captures a layer that replaces the one before */
void layer_eager(void);						/* a layer without its graph */
void wait_step(void);						/* as the loop does at the end of a step */

struct problem {
	const char *name;
	void (*start)(void); /* before the runtime is initialised */
	void (*ready)(void); /* before the first step */
	void (*batch)(void); /* before a step's batch is copied */
	void (*layer)(void); /* after each layer */
	bool (*replaces)(void); /* instead of a layer; true if it did */
	void (*end)(void);   /* at the end of each step */
	void (*over)(void);  /* after the last step */
};
const struct problem *problem_named(const char *name);

#endif
