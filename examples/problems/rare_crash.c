/* A server that fails after a thousand requests: when a client cancels its request, the request's buffer is freed,
 * although the device may still use it. `rare_crash REQUEST` sets the number of the cancelled request. */
#include "problem.h"

#include <stdatomic.h>

enum { SLOTS = 4 };

static atomic_int sending, gone; /* the answer is on its way; the client has closed its connection */

/* Sends the answer so far to a slow client. Runs on the stream. */
static void send_answer(void *unused)
{
	(void)unused;
	sending = 1;
	while (!gone)
		usleep(100);
}

int main(int argc, char **argv)
{
	long cancelled = argc > 1 ? atol(argv[1]) : 1500;

	problem_begin();
	aclrtStream s = new_stream();
	aclrtFuncHandle embed = kernel("embed"), attention = kernel("attention"), mlp = kernel("mlp");
	float *in = pinned_memory(BYTES);
	void *slot[SLOTS], *y = device_memory(BYTES);

	for (int i = 0; i < SLOTS; i++)
		slot[i] = device_memory(BYTES);
	for (long request = 0;; request++) {
		void **buffer = &slot[request % SLOTS];

		CHECK(aclrtMemcpyAsync(*buffer, BYTES, in, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
		launch(embed, s, *buffer, y, 1, 1);
		if (request == cancelled)
			CHECK(aclrtLaunchHostFunc(s, send_answer, NULL));
		launch(attention, s, y, *buffer, 0.5f, 1);
		launch(mlp, s, *buffer, y, 0.5f, 1);
		if (request == cancelled) {
			while (!sending)
				usleep(100);
			CHECK(aclrtFree(*buffer)); /* the error: the stream still waits for the client */
			*buffer = device_memory(BYTES);
			gone = 1;
		}
		if (request % SLOTS == SLOTS - 1)
			CHECK(aclrtSynchronizeStream(s));
	}
}
