/*
 * says: A SIMT launch runs the blocks of its grid.
 * source: API, aclrtLaunchSIMTKernelWithArgsArray
 */
#include "../conformance.h"

RULE(grid_of_blocks)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	void *args[] = {&p};
	dim3 grid = {2, 3, 2}, block = {32, 1, 1};

	OK(aclrtLaunchSIMTKernelWithArgsArray(kernel("count"), grid, block, 0, s, NULL, args));
	finish(s);
	CHECK(word(p) == 12);
}
