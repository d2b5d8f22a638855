#include "task/order.h"

uint64_t shim_last_order;

/* A bit for each device that a thread has selected. While there is only one, all threads use it, also those that selected none. */
static uint64_t devices;

void shim_set_device(int32_t device)
{
	shim_t.device = 1 + device;
	__atomic_fetch_or(&devices, 1ULL << (device & 63), __ATOMIC_RELAXED);
}

static bool same_device(int32_t device)
{
	uint64_t d = __atomic_load_n(&devices, __ATOMIC_RELAXED);
	return (d & (d - 1)) == 0 || device == shim_t.device;
}

struct place shim_place(void *stream)
{
	return (struct place){.stream = stream, .order = next_order(), .device = shim_t.device};
}

bool shim_reached(const struct place *p, enum reach which, const void *stream, uint64_t until)
{
	if (p->order > until)
		return false;
	/* Streams have unique handles, except the default streams, one a device. */
	if (which == OF_STREAM && (p->stream != stream || stream != NULL))
		return p->stream == stream;
	return same_device(p->device);
}
