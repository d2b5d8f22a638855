/* Adds numbers on the toy device, and ends with 0 if the sums are right. */
#include "toy.h"

int main(void)
{
	enum { N = 64, TIMES = 5 };
	float in[N], out[N];
	toyQueue queue;
	void *memory;
	for (int i = 0; i < N; i++)
		in[i] = (float)i;
	if (toyOpen(&queue) || toyAlloc(&memory, sizeof in) || toyCopy(memory, in, sizeof in, TOY_TO_DEVICE, queue))
		return 1;
	for (int i = 0; i < TIMES; i++)
		if (toyAdd(memory, 0.5f, N, queue))
			return 1;
	if (toyCopy(out, memory, sizeof out, TOY_FROM_DEVICE, queue) || toyWait(queue))
		return 1;
	for (int i = 0; i < N; i++)
		if (out[i] != (float)i + TIMES * 0.5f)
			return 2;
	return 0;
}
