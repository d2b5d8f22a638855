/*
 * Buffers of placeholders in argument lists. The program adds them one by one and fills them later, on any thread, so they are recorded at the
 * launch.
 */
#ifndef ACLTRACE_SHIM_LISTS_H
#define ACLTRACE_SHIM_LISTS_H

#include "shim_hot.h"

void shim_buffer(void *args, void *param, uint64_t addr, uint64_t len);
void shim_buffers_reset(void *args);
/* Adds the buffers of a list to the record of the launch. */
void shim_buffers_captured(struct shim_call *c, uint8_t param, void *args);

#endif
