# Prints the table of scripts/bench.sh from lines with a key and a number: medians, their ratios, and the aims.
{ values[$1] = values[$1] " " $2 }

function median(key,   v, n, i, j, t) {
	n = split(values[key], v, " ")
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
	return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

function most(key,   v, n, i, m) {
	n = split(values[key], v, " ")
	for (i = 1; i <= n; i++)
		if (i == 1 || v[i] + 0 > m) m = v[i] + 0
	return m
}

function row(what, figure, aim, reached) { printf "%-78s %9s  %-8s %s\n", what, figure, aim, reached }
function number(what, key) { if (key in values) row(what, sprintf("%.1f", median(key)), "", "") }
function at_most(what, figure, aim) { row(what, sprintf("%.3f", figure), "<= " aim, figure <= aim ? "yes" : "NO") }
function at_least(what, figure, aim) { row(what, sprintf("%.3f", figure), ">= " aim, figure >= aim ? "yes" : "NO") }

# calls prints a trace file benchmark: the rate by processor time over all rounds, and in the best round.
function calls(what, name, aim,   key) {
	key = "go." name
	if (!(key ".cpu-Mevents/s" in values)) return
	if (aim) at_least(what, median(key ".cpu-Mevents/s"), aim)
	else row(what, sprintf("%.3f", median(key ".cpu-Mevents/s")), "", "")
	if (aim) at_least("  in the best round", median(key ".best-Mevents/s"), aim)
}
function bytes(what, name, aim,   key) {
	key = "go." name ".B/launch"
	if (!(key in values)) return
	if (aim) at_most(what, median(key), aim)
	else row(what, sprintf("%.1f", median(key)), "", "")
}

function adds(name, threads) { return median("launch." name "." threads) - median("launch.bare." threads) }

END {
	if (length(values) == 0) exit
	print ""
	row("what", "figure", "aim", "reached")
	n = split("1 2 8", threads, " ")
	for (i = 1; i <= n && "launch.shim.1" in values; i++) {
		t = threads[i]
		in_ = ", " t " thread" (t > 1 ? "s" : "")
		number("launch, bare, ns" in_, "launch.bare." t)
		number("yardstick: two reads of the counter and a store of 128 bytes, ns" in_, "launch.yardstick." t)
		number("launch, recorded by the shim, ns" in_, "launch.shim." t)
		number("launch, recorded by LTTng-UST, ns" in_, "launch.lttng." t)
		number("launch, recorded by uftrace, ns" in_, "launch.uftrace." t)
		at_most("what the shim adds / yardstick" in_, adds("shim", t) / median("launch.yardstick." t), 1.5)
		if ("launch.rich." t in values)
			row("  with two attributes and a placeholder", sprintf("%.3f", adds("rich", t) / median("launch.yardstick." t)), "", "")
		if ("launch.armed." t in values)
			at_most("what --armed adds while nothing is recorded, ns" in_, adds("armed", t), 2)
		if ("launch.lttng." t in values)
			at_most("what the shim adds / what LTTng-UST adds" in_, adds("shim", t) / adds("lttng", t), 0.15)
		if ("launch.uftrace." t in values)
			row("what the shim adds / what uftrace adds" in_, sprintf("%.3f", adds("shim", t) / adds("uftrace", t)), "", "")
		# If there are more threads than cores, they share cores and caches, and so does the yardstick.
		if (t == 8)
			at_most("what the shim adds, 8 threads / 2 threads, for what the yardstick grows by", adds("shim", 8) / adds("shim", 2) * median("launch.yardstick.2") / median("launch.yardstick.8"), 1.1)
	}
	if ("marks.names" in values) {
		number("operator with seven marks and a launch, bare, ns", "marks.bare")
		number("  recorded without marks", "marks.none")
		at_most("  what the marks add in the program, ns", median("marks.names") - median("marks.none"), 250)
		at_most("  what they add with the recorder and the file, processor time, ns", median("marks.processor.names") - median("marks.processor.none"), 1450)
		at_most("  what they add to the trace, bytes", median("marks.bytes.names") - median("marks.bytes.none"), 24)
		split("all shapes", levels, " ")
		for (i = 1; i in levels; i++) {
			level = "marks." levels[i]
			if (!(level in values))
				continue
			number("  --operators " levels[i] ": its calls, not recorded", level ".none")
			row("    what it adds in the program, ns", sprintf("%.1f", median(level) - median(level ".none")), "", "")
			row("    with the recorder and the file, processor time, ns", sprintf("%.1f", median("marks.processor." levels[i]) - median("marks.processor." levels[i] ".none")), "", "")
			row("    to the trace, bytes", sprintf("%.1f", median("marks.bytes." levels[i]) - median("marks.bytes." levels[i] ".none")), "", "")
		}
	}
	split("kept kept-in-memory hashed", kinds, " ")
	split("kept, kept with the trace in memory, hashed", names, ", ")
	for (i = 1; i <= 3; i++) {
		if (!("copy." kinds[i] in values)) continue
		number("copy of 64 MiB, payload " names[i] ", us", "copy." kinds[i])
		number("memcpy of as much, us", "copy.memcpy." kinds[i])
		if (i == 3) continue
		at_least("rate of the call / of memcpy, payload " names[i], median("copy.rate." kinds[i]), 0.8)
		at_least("the same by processor time, without waiting for a core", median("copy.processor." kinds[i]), 0.8)
	}
	if ("copy.hashed-1MiB" in values) {
		number("copy of 1 MiB, payload hashed as by default, us", "copy.hashed-1MiB")
		number("memcpy of as much, us", "copy.memcpy.hashed-1MiB")
		at_most("time that the copy gains / memcpy", 1 / median("copy.rate.hashed-1MiB"), 2)
	}
	n = split("4 1024", kib, " ")
	split("sync async pinned", kinds, " ")
	split("synchronous, asynchronous from pageable memory, asynchronous from pinned memory", names, ", ")
	for (i = 1; i <= n; i++)
		for (k = 1; k <= 3 && (("payload." kinds[k] "-" kib[i]) in values); k++) {
			name = "copy of " (kib[i] == 4 ? "4 KiB" : "1 MiB") ", " names[k] ", us"
			if (k == 1) number(name, "payload.sync-" kib[i])
			else at_most(name, median("payload." kinds[k] "-" kib[i]), kib[i] == 4 ? 2 : 60)
			if (k == 1) number("  memcpy of as much", "payload.memcpy.sync-" kib[i])
		}
	if ("step.ratio" in values) {
		number("step of 24 threads on all cores, bare, ms", "step.bare")
		number("  recorded", "step.recorded")
		at_most("  recorded / bare", median("step.ratio"), 1.03)
		number("  the shortest step, bare", "step.least.bare")
		number("  the shortest step, recorded", "step.least.recorded")
		number("  processor time of program and simulator, bare", "step.processor.bare")
		number("  the same, recorded", "step.processor.recorded")
		at_most("  calls that are neither recorded nor counted", most("step.left"), 0)
	}
	if ("cuda.recorded" in values) {
		number("cuLaunchKernelEx, bare, ns", "cuda.bare")
		number("cuLaunchKernelEx, recorded, ns", "cuda.recorded")
	}
	if ("decoder.ratio" in values) {
		number("tiny_decoder, bare, us a token", "decoder.bare")
		number("tiny_decoder, recorded, us a token", "decoder.recorded")
		at_most("tiny_decoder, recorded / bare", median("decoder.ratio"), 1.02)
	}
	n = split("computed modelled", kinds, " ")
	for (i = 1; i <= n; i++) {
		if (!("apart.ratio." kinds[i] in values)) continue
		number("tiny_decoder on one core, kernels " kinds[i] ", bare, us a token", "apart.bare." kinds[i])
		number("  recorded, the recorder on another core", "apart.recorded." kinds[i])
		row("  recorded / bare", sprintf("%.3f", median("apart.ratio." kinds[i])), "", "")
		number("  of these the thread that calls is on the core, bare, us", "apart.caller." kinds[i])
		number("  the same, recorded", "apart.caller.recorded." kinds[i])
	}
	n = split("decode train", shapes, " ")
	for (i = 1; i <= n && ("go.Write/decode/lz4.cpu-Mevents/s" in values); i++) {
		s = shapes[i]
		calls("trace: writing, " s ", lz4, million calls a second", "Write/" s "/lz4", 15)
		calls("  in MCAP", "Write/" s "/mcap-lz4")
		calls("trace: writing, " s ", zstd", "Write/" s "/zstd")
		calls("  in MCAP", "Write/" s "/mcap-zstd")
		calls("  as structures", "Write/" s "/structs-zstd")
		calls("trace: reading, " s ", lz4, million calls a second", "Read/" s "/lz4/all", 40)
		calls("  from MCAP", "Read/" s "/mcap-lz4")
		calls("trace: reading, " s ", zstd", "Read/" s "/zstd/all", 25)
		calls("  from MCAP", "Read/" s "/mcap-zstd")
		calls("  as structures", "Read/" s "/structs-zstd")
		bytes("trace: bytes a launch, " s ", zstd", "Size/" s "/zstd", 8)
		bytes("  in MCAP", "Write/" s "/mcap-zstd")
		bytes("  as structures", "Write/" s "/structs-zstd")
		bytes("trace: bytes a launch, " s ", lz4", "Size/" s "/lz4")
		bytes("  in MCAP", "Write/" s "/mcap-lz4")
	}
	calls("trace: two columns, lz4, million calls a second", "Projection/lz4", 300)
	calls("trace: two columns, zstd", "Projection/zstd", 300)
	if ("large.info" in values) {
		at_most("a trace of 10^8 calls: info, s", median("large.info"), 0.05)
		row("  of the processor", sprintf("%.3f", median("large.info.cpu")), "", "")
		at_most("a trace of 10^8 calls: opened, and the calls of one second printed, s", median("large.window"), 0.1)
		row("  of the processor", sprintf("%.3f", median("large.window.cpu")), "", "")
	}
	if ("large.stats.kib" in values)
		at_most("a trace of 10^8 calls: peak of stats, MiB", median("large.stats.kib") / 1024, 256)
	if ("go.Compile.cpu-Mcalls/s" in values) {
		at_least("plan compiler, million calls a second of the processor", median("go.Compile.cpu-Mcalls/s"), 2)
		at_most("  peak memory at 10^7 calls, MiB", median("go.Compile.peak-MiB"), 256)
	}
	if ("ring.mib.small" in values) {
		number("flight recorder, --ring 64M, random payloads of 4 KiB: peak memory, MiB", "ring.mib.small")
		number("  without payloads", "ring.mib.none")
	}
	if ("pace.error.computed" in values) {
		split("computed modelled pauses", kinds, " ")
		split("kernels that compute,modelled kernels,pauses of 2 ms", names, ",")
		for (i = 1; i <= 3; i++) {
			k = kinds[i]
			at_most("replay at the recorded pace, " names[i] ", end to end, % off", median("pace.error." k), 1)
			row("  the worst of its runs", sprintf("%.3f", most("pace.error." k)), "", "")
			at_most("  the worst, less the time that threads had no core", most("pace.left." k), 1)
			number("  of its calls half began late by, us", "pace.late." k)
		}
	}
	if ("go.Matmul.Gflop/s" in values) at_least("product of matrices of 32-bit numbers, Gflop/s a core with AVX2", median("go.Matmul.Gflop/s"), 12)
	if ("operators.gpt.npu" in values) at_most("a training step of a decoder / PyTorch's CPU backend", median("operators.gpt.npu") / median("operators.gpt.cpu"), 6)
}
