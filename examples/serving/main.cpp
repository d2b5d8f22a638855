#include "engine.h"

#include <variant>

struct Flag {
	const char *name, *value, *help;
	std::variant<size_t *, std::string *> to;
	size_t min = 0, max = 0;
};

static const Flag flags[] = {
	{"--decode", "HOW", "eager, full or piecewise (full)", &options.decode},
	{"--sizes", "N", "captured batch sizes (3)", &options.sizes, 1, 19},
	{"--steps", "N", "steps (40)", &options.steps, 1, 100000},
	{"--layers", "N", "layers of the model (2)", &options.layers, 1, 64},
	{"--requests", "N", "requests at a time (the largest captured size); beyond it steps are eager", &options.requests, 1, 256},
	{"--seed", "N", "seed of requests (1)", &options.seed, 0, 1 << 30},
	{"--queue", "N", "0: calls are made at once; 1: a thread launches; 2: it prepares operators too (1)", &options.queue, 0, 2},
	{"--events", "", "attention tasks wait for external events, not for values", &options.events},
	{"--side", "", "a part of each layer runs on a side stream", &options.side},
	{"--helpers", "", "threads that wait for outputs, poll reports, watch events and release them", &options.helpers},
	{"--ranks", "N", "ranks, this one by RANK, in the same folder (1)", &options.ranks, 1, 64},
	{"--peer", "", "another process brings keys and values of prompts", &options.peer},
	{"--fault", "NAME", "make a fault; list: print all", &options.fault},
	{"--at", "STEP", "step of the fault (20)", &options.at, 0, 100000},
	{"--truth", "FILE", "write what happened, in columns between tabs", &options.truth},
};

static void fail(const std::string &why)
{
	fprintf(stderr, "serving: %s\nusage: serving [flags]\n", why.c_str());
	for (const Flag &f : flags)
		fprintf(stderr, "  %-12s %-5s %s\n", f.name, f.value, f.help);
	exit(2);
}

static void parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		auto f = std::find_if(std::begin(flags), std::end(flags), [=](const Flag &x) { return !strcmp(x.name, argv[i]); });
		if (f == std::end(flags))
			fail(std::string("unknown flag ") + argv[i]);
		if (auto number = std::get_if<size_t *>(&f->to))
			**number = f->max ? example_number(argc, argv, &i, f->min, f->max) : 1;
		else
			*std::get<std::string *>(f->to) = example_text(argc, argv, &i);
	}
	if (options.decode != "eager" && options.decode != "full" && options.decode != "piecewise")
		fail("unknown --decode " + options.decode);
	if (const char *rank = getenv("RANK"))
		options.rank = static_cast<size_t>(atoi(rank));
	if (!faults::choose(options.fault))
		options.fault == "list" ? exit(0) : fail("unknown --fault " + options.fault);
}

int main(int argc, char **argv)
{
	size_t unused, total;
	parse(argc, argv);
	if (options.peer)
		peers::fork();
	truthFile.open(options.truth);
	truth("process", getpid());
	faults::inject(faults::Point::start);
	CHECK(aclInit(nullptr));
	CHECK(aclrtSetDevice(0));
	truth("thread", "main", threadId());
	const std::pair<const char *, aclrtStream *> all[] = {
		{"main", &streams.main}, {"copy", &streams.copy}, {"side", &streams.side}, {"update", &streams.update}, {"capture", &streams.capture}};
	for (auto [role, s] : all) {
		CHECK(aclrtCreateStreamWithConfig(s, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
		truth("stream", *s, role);
	}
	startThreads();
	peers::start();
	engine::start();
	engine::run();
	CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &unused, &total));
	truth("live"); // the call marks the moment in a trace
	stopThreads();
	peers::end();
	engine::end();
	memory::end();
	for (auto [role, s] : all)
		CHECK(aclrtDestroyStream(*s));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	printf("serving: %zu steps\n", options.steps);
	return 0;
}
