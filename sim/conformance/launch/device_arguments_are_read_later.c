/*
 * says: Arguments in device memory are read when the kernel runs.
 * source: API, aclrtLaunchKernel
 */
#include "../conformance.h"

RULE(device_arguments_are_read_later)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);
	struct store_args *a = device(sizeof *a);

	set_word(&a->to, (uintptr_t)p);
	set_word(&a->value, 1);
	hold(&g, s);
	OK(aclrtLaunchKernel(kernel("store"), 1, a, sizeof *a, s));
	set_word(&a->value, 2);
	open_gate(&g);
	finish(s);
	CHECK(word(p) == 2);
}
