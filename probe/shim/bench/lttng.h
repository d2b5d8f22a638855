/* LTTng-UST tracepoints with the fields that the shim records for a launch: eight arguments, the bytes at one, and the result. */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER acltrace_bench
#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "./lttng.h"
#if !defined(ACLTRACE_BENCH_LTTNG_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define ACLTRACE_BENCH_LTTNG_H
#include <lttng/tracepoint.h>
#include <stdint.h>
TRACEPOINT_EVENT(acltrace_bench, launch_entry,
	TP_ARGS(void *, func, uint32_t, blocks, void *, stream, void *, cfg, void *, args, size_t, size, void *, placeholders, size_t, number),
	TP_FIELDS(ctf_integer_hex(uint64_t, func, (uint64_t)func) ctf_integer(uint32_t, blocks, blocks)
		ctf_integer_hex(uint64_t, stream, (uint64_t)stream) ctf_integer_hex(uint64_t, cfg, (uint64_t)cfg)
		ctf_integer_hex(uint64_t, args, (uint64_t)args) ctf_sequence(uint8_t, block, args, size_t, size)
		ctf_integer_hex(uint64_t, placeholders, (uint64_t)placeholders) ctf_integer(uint64_t, number, number)))
TRACEPOINT_EVENT(acltrace_bench, launch_exit, TP_ARGS(int, ret), TP_FIELDS(ctf_integer(int, ret, ret)))
#endif
#include <lttng/tracepoint-event.h>
