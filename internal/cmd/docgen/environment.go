package main

import (
	"fmt"
	"strings"
)

// A variable is an environment variable that acltrace, its libraries or its simulators read.
type variable struct{ name, meaning, unset string }

// A reader is a part that reads variables.
type reader struct {
	title     string
	variables []variable
}

// readers are all variables of products. TestEnvironmentTableHasAllVariables compares those that begin with a prefix in checked with the sources.
var readers = []reader{
	{"acltrace", []variable{
		{"ACLTRACE_LIB", "folder with the shim, the player and the simulators", "those in the program"},
		{"ACLTRACE_UI", "web page of the viewer for links after `export otlp`, as `--ui`", "port 16686 of the receiver's host"},
		{"XDG_STATE_HOME", "parent of the folder `acltrace`, which has the list of loaded kernel libraries and the running recordings", "`~/.local/state`"},
		{"XDG_CACHE_HOME", "parent of the folder `acltrace`, for the files in the program that a loader needs as files", "`~/.cache`"},
		{"TMPDIR", "folder for temporary files of a replay", "`/tmp`"},
		{"NO_COLOR", "any value turns colours off", "colours on a terminal"},
	}},
	{"Recorded programs", []variable{
		{"ACLTRACE_SESSION", "folder of the session that the shim records into. `record` sets it, `env` prints it", "not recorded"},
		{"LD_PRELOAD, LD_AUDIT", "have the shim. `record` sets one of them, `env` prints it", ""},
		{"RANK, RANK_ID, OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID", "rank of the process in its job, for `%r` in names and for `merge`. The first one counts", "order of the traces"},
		{"TRACEPARENT", "parent of the spans of this trace", "none"},
		{"OTEL_SERVICE_NAME", "name of the service in spans and metrics", "name of the program"},
		{"OTEL_RESOURCE_ATTRIBUTES", "attributes of the process in spans and metrics", "none"},
		{"K8S_POD_NAME, POD_NAME, OTEL_RESOURCE_ATTRIBUTES_POD_NAME", "pod of the process", "found from its control group"},
		{"K8S_POD_UID, POD_UID, OTEL_RESOURCE_ATTRIBUTES_POD_UID", "uid of the pod", "found from its control group"},
		{"K8S_NAMESPACE_NAME, K8S_POD_NAMESPACE, K8S_NAMESPACE, POD_NAMESPACE, OTEL_RESOURCE_ATTRIBUTES_POD_NAMESPACE", "namespace of the pod", "from the service account"},
		{"K8S_NODE_NAME, NODE_NAME, OTEL_RESOURCE_ATTRIBUTES_NODE_NAME", "node of the pod", "none"},
		{"K8S_CONTAINER_NAME, CONTAINER_NAME, OTEL_RESOURCE_ATTRIBUTES_CONTAINER_NAME", "container in the pod", "found from its mounts"},
	}},
	{"OTLP receivers", append(append(signal("TRACES"), signal("METRICS")...),
		variable{"OTEL_METRIC_EXPORT_INTERVAL", "milliseconds between two pushes of metrics", "60000"},
		variable{"OTEL_METRIC_EXPORT_TIMEOUT", "milliseconds for a push of metrics", "30000"})},
	{"AscendCL simulator", []variable{
		{"ACLSIM_KERNELS", "kernel libraries, separated by colons: shared objects that export `aclsim_kernels` ([kernel.h](../../sim/libascendcl/include/aclsim/kernel.h))", "none"},
		{"ACLSIM_KERNELS_BESIDE", "1: load the [kernel library](simulator.md#kernel-libraries) beside each binary that the program loads. `record --sim` and `sim` set it unless it is set, `env --sim` prints it", "off"},
		{"ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME, ASCEND_OPP_PATH", "folders of a [toolkit](simulator.md#a-toolkit) for the program. `record --sim` and `sim` set them unless one of the first two is set, `env --sim` prints them", "the simulator's toolkit"},
		{"ACLSIM_DEVICES", "number of devices, 1 to 16", "1"},
		{"ASCEND_RT_VISIBLE_DEVICES", "those of them that the process sees: ascending ids with commas. It numbers them from 0. A replay on the simulator ignores it", "all"},
		{"ACLSIM_CLOCK", "`real` or `virtual` [time](simulator.md#time)", "real"},
		{"ACLSIM_MODEL", "[cost model](simulator.md#cost-model): a preset, a JSON file of at most 1 MiB, or its content", "ascend910b"},
		{"ACLSIM_SEED", "seed of random times and faults", "0"},
		{"ACLSIM_FAULTS", "[faults](simulator.md#faults) to inject", "none"},
		{"ACLSIM_STRICT", "1: report mistakes that a device punishes later ([strict mode](simulator.md#strict-mode)). `abort`: end the program with code 66 after the first one", "off"},
		{"ACLSIM_STRICT_LOG", "file to which the reports of strict mode are appended", "stderr"},
		{"ACLSIM_ANSWERS", "`runtime`: the answers of the public runtime's code. `documents`: those of its documentation if [the two differ](simulator-behaviour.md#code-and-documents)", "runtime"},
		{"ASCEND_GLOBAL_LOG_LEVEL", "lowest level of `aclAppLog` lines that are written: 0 debug, 1 info, 2 warning, 3 error, 4 none", "3"},
		{"ASCEND_SLOG_PRINT_TO_STDOUT", "1: write lines of `aclAppLog` to stdout", "to stderr; the simulator has no log files"},
		{"ACLSIM_UNINITIALISED", "1: mark new device memory, to find results of memory that nothing has written. `replay --verify` sets it", "off"},
		{"ACLSIM_VA_BASE", "hexadecimal address of the first device's memory, a multiple of 2 MiB. Each device needs 256 GiB of free addresses", "0x124000000000; 0x550000000000 if these are taken, as under ThreadSanitizer on x86-64, with room for one device"},
		{"ACLSIM_PLACE", "file with the hexadecimal addresses of successful allocations, one a line. 0 is any address, `#` begins a comment. `aclsim_place` ([place.h](../../sim/libascendcl/include/aclsim/place.h)) has precedence. A replay sets the variable", "none"},
		{"ACLSIM_KERNELS_LOG", "existing file to which the simulator appends loaded kernel libraries, `?` with the names of kernels without one, and `~` with those of operators that are not computed. Recordings and replays set it", "none"},
		{"ACLNN_CACHE_LIMIT", "entries that a thread's [executor cache](simulator.md#operators) has at most", "10000"},
		{"ACLSIM_BREAK", "rule to break. Only the simulator of the conformance suite reads it", "none"},
	}},
	{"CUDA simulator", []variable{
		{"FAKECUDA_KERNELS", "library with the kernels. It exports `fakecuda_kernels`, as every library that includes `fakecuda.h` does", "none"},
		{"FAKECUDA_DEVICES", "number of devices, 1 to 8, each with its part of 8 GiB", "1"},
		{"FAKECUDA_VA_BASE", "hexadecimal start of the address range of device memory", "0x302000000000"},
		{"FAKECUDA_TAKES", "hexadecimal address that the driver uses for memory of its own", "none"},
		{"FAKECUDA_PLACE", "file with the addresses of allocations, one a line. A replay sets it", "none"},
		{"FAKECUDA_KERNELS_LOG", "file to which loaded kernel libraries are appended. Recordings and replays set it", "none"},
		{"CUDA_INJECTION64_PATH", "library that the driver loads at its start", "none"},
	}},
	{"Player", []variable{
		{"ACLTRACE_PLACE", "file with the addresses of allocations on a CUDA driver. A replay sets it", "none"},
	}},
}

// signal returns the variables of OTLP for a signal. Without a variable of its own, a signal uses the common one.
func signal(name string) []variable {
	var all []variable
	for _, v := range []variable{
		{"ENDPOINT", "URL of the receiver", "http://localhost:4317"},
		{"PROTOCOL", "`grpc` or `http/protobuf`", "by the port"},
		{"HEADERS", "headers of each request, `key=value`, separated by commas", "none"},
		{"COMPRESSION", "`gzip` or `none`", "none"},
		{"TIMEOUT", "milliseconds for a request with its retries", "60000"},
		{"INSECURE", "`true`: an endpoint without a scheme uses no TLS", "false"},
		{"CERTIFICATE", "file with the certificates that a receiver's certificate is checked with", "those of the system"},
		{"CLIENT_CERTIFICATE", "file with the client's certificate", "none"},
		{"CLIENT_KEY", "file with the client's key", "none"},
	} {
		v.name = "OTEL_EXPORTER_OTLP_" + name + "_" + v.name
		all = append(all, v)
	}
	return all
}

// environmentPage returns docs/reference/environment.md.
func environmentPage() string {
	var b strings.Builder
	b.WriteString(head + "# Environment variables\n\nA flag has precedence over a variable. A trace keeps variables of the recorded job, and a replay uses only those that " +
		"[replay](replay.md#whose-trace-it-is) lists. The variables of a signal (`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) have precedence over the common " +
		"ones (`OTEL_EXPORTER_OTLP_ENDPOINT`).\n")
	for _, r := range readers {
		fmt.Fprintf(&b, "\n## %s\n\n| variable | meaning | default |\n|---|---|---|\n", r.title)
		shown := map[string]bool{}
		for _, v := range r.variables {
			name := v.name
			if rest, ok := strings.CutPrefix(name, "OTEL_EXPORTER_OTLP_"); ok {
				_, rest, _ = strings.Cut(rest, "_")
				name = "OTEL_EXPORTER_OTLP_" + rest // the page has the common name
			}
			if shown[name] {
				continue
			}
			shown[name] = true
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.ReplaceAll(name, ", ", "`, `"), v.meaning, v.unset)
		}
	}
	return b.String()
}
