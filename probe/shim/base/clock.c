#include "base/clock.h"

#include "base/loader.h"
#include "base/sys.h"

#define CLOCK_MONO 1

uint64_t shim_monotonic(void)
{
	struct { int64_t sec, nsec; } ts = {0, 0};
	if (shim_filtered())
		return __atomic_load_n(&shim_control->heartbeat, __ATOMIC_RELAXED);
	sys2(__NR_clock_gettime, CLOCK_MONO, &ts);
	return (uint64_t)ts.sec * 1000000000ULL + (uint64_t)ts.nsec;
}

uint64_t shim_other_clock(enum clock_use use)
{
	static void *functions[2];
	if (shim_control->clock != CLOCK_RUNTIME)
		return shim_monotonic();
	int64_t (*now)(void) = shim_real(&functions[0], "aclsim_now");
	void (*own)(int) = shim_real(&functions[1], "aclsim_own");
	if (now == NULL || own == NULL)
		return 0; /* the runtime is not loaded yet */
	own(use != CALL_STARTS);
	return (uint64_t)now();
}
