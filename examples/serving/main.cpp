#include "serving.h"

Options options;
Streams streams;

static const char usage[] =
	"usage: serving [flags]\n"
	"  --decode HOW      eager, full or piecewise (full)\n"
	"  --sizes N         captured batch sizes, 1 to 19 (3)\n"
	"  --steps N         steps (40)\n"
	"  --layers N        layers of the model (2)\n"
	"  --requests N      requests at a time (the largest captured size); beyond it steps are eager\n"
	"  --seed N          seed of requests\n"
	"  --queue N         0: calls are made at once; 1: a thread launches; 2: it prepares operators too (1)\n"
	"  --events          attention tasks wait for external events, not for values\n"
	"  --outputs         a thread waits for outputs\n"
	"  --side            a part of each layer runs on a side stream\n"
	"  --expandable      device memory in mapped pieces\n"
	"  --helpers         release thread, report thread and watchdog\n"
	"  --unfused         without a fused operator\n"
	"  --ranks N         ranks, this one by RANK, in the same folder\n"
	"  --peer            another process brings keys and values of prompts\n"
	"  --fault NAME      make a fault; list: print all\n"
	"  --at STEP         step of the fault (20)\n"
	"  --truth FILE      write what happened, as JSON\n";

static void parse(int argc, char **argv)
{
	const std::map<std::string, bool *> switches = {{"--events", &options.events}, {"--outputs", &options.outputs}, {"--side", &options.side},
		{"--expandable", &options.expandable}, {"--helpers", &options.helpers}, {"--unfused", &options.unfused}, {"--peer", &options.peer}};
	struct Number {
		size_t *value, min, max;
	};
	const std::map<std::string, Number> numbers = {{"--sizes", {&options.sizes, 1, 19}}, {"--steps", {&options.steps, 1, 100000}}, {"--layers", {&options.layers, 1, 64}},
		{"--requests", {&options.requests, 1, 256}}, {"--seed", {&options.seed, 0, 1 << 30}}, {"--queue", {&options.queue, 0, 2}},
		{"--ranks", {&options.ranks, 1, 64}}, {"--at", {&options.at, 0, 100000}}};
	for (int i = 1; i < argc; i++) {
		std::string o = argv[i];
		if (auto s = switches.find(o); s != switches.end()) {
			*s->second = true;
		} else if (auto n = numbers.find(o); n != numbers.end()) {
			*n->second.value = example_number(argc, argv, &i, n->second.min, n->second.max);
		} else if (o == "--truth") {
			options.truth = example_text(argc, argv, &i);
		} else if (o == "--fault") {
			options.fault = example_text(argc, argv, &i);
		} else if (o == "--decode") {
			std::string how = example_text(argc, argv, &i);
			options.decode = how == "eager" ? Decode::eager : how == "piecewise" ? Decode::piecewise : Decode::full;
		} else {
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (const char *r = getenv("RANK"))
		options.rank = static_cast<size_t>(atoi(r));
	if (options.fault == "list") {
		faults::list();
		exit(0);
	}
	if (!options.fault.empty() && !faults::choose(options.fault)) {
		fprintf(stderr, "no fault %s: --fault list prints all\n", options.fault.c_str());
		exit(2);
	}
}

int main(int argc, char **argv)
{
	if (peers::produce(argc, argv))
		return 0;
	parse(argc, argv);
	faults::inject(Point::start);
	OK(aclInit(nullptr));
	OK(aclrtSetDevice(0));
	truth::thread("main");
	for (aclrtStream *s : {&streams.main, &streams.copy, &streams.side, &streams.update, &streams.capture})
		OK(aclrtCreateStreamWithConfig(s, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
	startHelpers();
	peers::start();
	engine::start();
	engine::run();
	truth::live();
	stopHelpers();
	peers::end();
	engine::end();
	memory::end();
	for (aclrtStream s : {streams.main, streams.copy, streams.side, streams.update, streams.capture})
		OK(aclrtDestroyStream(s));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	faults::inject(Point::end);
	truth::write();
	printf("serving: %zu steps\n", options.steps);
	return 0;
}
