// The threads of an engine beside the one that makes the steps. None of them waits for the device on behalf of a step, except the
// output thread.
#include "serving.h"

#include <pthread.h>

static void begins(const char *name)
{
	pthread_setname_np(pthread_self(), name);
	OK(aclrtSetDevice(0));
	truth::thread(name);
}

TaskQueue &queue = *new TaskQueue;

void TaskQueue::start()
{
	if (!options.queue) {
		tid = threadId();
		return;
	}
	on = true;
	std::atomic<bool> ready{false};
	worker = std::thread([&] {
		begins("acl_thread");
		tid = threadId();
		ready = true;
		loop();
	});
	while (!ready)
		std::this_thread::yield();
}

void TaskQueue::loop()
{
	std::unique_lock<std::mutex> hold(lock);
	for (;;) {
		added.wait(hold, [&] { return ending || !tasks.empty(); });
		if (tasks.empty())
			return;
		auto task = std::move(tasks.front());
		tasks.pop_front();
		busy = true;
		hold.unlock();
		task();
		hold.lock();
		busy = false;
		if (tasks.empty())
			emptied.notify_all();
	}
}

void TaskQueue::push(std::function<void()> task)
{
	if (!on) {
		task();
		return;
	}
	std::lock_guard<std::mutex> hold(lock);
	tasks.push_back(std::move(task));
	added.notify_one();
}

void TaskQueue::drain()
{
	if (!on || threadId() == tid)
		return;
	std::unique_lock<std::mutex> hold(lock);
	emptied.wait(hold, [&] { return tasks.empty() && !busy; });
}

void TaskQueue::stop()
{
	if (!on)
		return;
	drain();
	{
		std::lock_guard<std::mutex> hold(lock);
		ending = true;
	}
	added.notify_one();
	worker.join();
}

namespace helpers {

namespace {

struct Output {
	aclrtEvent event;
	std::function<void()> then;
};

struct State {
	std::mutex lock;
	std::condition_variable changed;
	std::deque<aclrtEvent> released, watched;
	std::deque<Output> outputs;
	size_t pending = 0; // outputs that were not seen yet
	std::atomic<bool> ending{false};
	std::atomic<unsigned> beats{0};
	std::vector<std::thread> threads;
	std::thread hang;
	uint64_t poller = 0;
};
State &state = *new State; // never destroyed: threads may use it when the program ends

void releases()
{
	begins("release_thread");
	std::unique_lock<std::mutex> hold(state.lock);
	for (;;) {
		state.changed.wait(hold, [] { return state.ending || !state.released.empty(); });
		if (state.released.empty())
			return;
		aclrtEvent e = state.released.front();
		state.released.pop_front();
		hold.unlock();
		OK(aclrtDestroyEvent(e));
		hold.lock();
	}
}

// Nothing to report is a time-out, not a failure.
void polls(std::atomic<bool> *subscribed)
{
	begins("report_thread");
	OK(aclrtSubscribeReport(static_cast<uint64_t>(pthread_self()), streams.main));
	state.poller = static_cast<uint64_t>(pthread_self());
	*subscribed = true;
	while (!state.ending)
		aclrtProcessReport(100);
	OK(aclrtUnSubscribeReport(state.poller, streams.main));
}

void watches()
{
	begins("watchdog");
	std::unique_lock<std::mutex> hold(state.lock);
	while (!state.ending || !state.watched.empty()) {
		state.changed.wait_for(hold, std::chrono::milliseconds(2), [] { return bool(state.ending); });
		while (!state.watched.empty()) {
			aclrtEvent e = state.watched.front();
			hold.unlock();
			aclrtEventRecordedStatus status;
			OK(aclrtQueryEventStatus(e, &status));
			hold.lock();
			if (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
				break;
			state.watched.pop_front();
			state.released.push_back(e);
			state.changed.notify_all();
		}
	}
}

void outputs()
{
	begins("output_thread");
	std::unique_lock<std::mutex> hold(state.lock);
	for (;;) {
		state.changed.wait(hold, [] { return state.ending || !state.outputs.empty(); });
		if (state.outputs.empty())
			return;
		Output o = state.outputs.front();
		state.outputs.pop_front();
		hold.unlock();
		OK(aclrtSynchronizeEvent(o.event));
		o.then();
		OK(aclrtDestroyEvent(o.event));
		hold.lock();
		state.pending--;
		state.changed.notify_all();
	}
}

// Ends a program that makes no progress after its fault, as watchdogs of frameworks do. It makes no call.
void endsHangs()
{
	for (unsigned seen = ~0u, quiet = 0; !state.ending && quiet < 20; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
		unsigned now = state.beats;
		quiet = now == seen && truth::faulty() ? quiet + 1 : 0;
		seen = now;
	}
	if (state.ending)
		return;
	fputs("serving: no progress for 2 seconds\n", stderr);
	truth::write();
	abort();
}

} // namespace

void start()
{
	if (!options.fault.empty())
		state.hang = std::thread(endsHangs);
	if (options.outputs)
		state.threads.emplace_back(outputs);
	if (!options.helpers)
		return;
	std::atomic<bool> subscribed{false};
	state.threads.emplace_back(releases);
	state.threads.emplace_back(polls, &subscribed);
	state.threads.emplace_back(watches);
	while (!subscribed)
		std::this_thread::yield();
}

void release(aclrtEvent e)
{
	if (!options.helpers) {
		OK(aclrtDestroyEvent(e));
		return;
	}
	std::lock_guard<std::mutex> hold(state.lock);
	state.released.push_back(e);
	state.changed.notify_all();
}

void watch(aclrtEvent e)
{
	if (!options.helpers) {
		release(e);
		return;
	}
	std::lock_guard<std::mutex> hold(state.lock);
	state.watched.push_back(e);
}

void output(aclrtEvent e, std::function<void()> then)
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.outputs.push_back({e, std::move(then)});
	state.pending++;
	state.changed.notify_all();
}

void waitOutputs()
{
	std::unique_lock<std::mutex> hold(state.lock);
	state.changed.wait(hold, [] { return !state.pending; });
}

void beat() { state.beats++; }

void stop()
{
	{
		std::lock_guard<std::mutex> hold(state.lock);
		state.ending = true;
	}
	state.changed.notify_all();
	for (size_t i = state.threads.size(); i--;) // the release thread last
		state.threads[i].join();
	if (state.hang.joinable())
		state.hang.join();
}

} // namespace helpers
