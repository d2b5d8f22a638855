// The threads of an engine beside the one that makes the steps.
#pragma once

#include "serving.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <pthread.h>
#include <thread>

// The simulator's virtual clock can't see that a task is handed to another thread: it begins there after it was handed over.
extern "C" __attribute__((weak)) void aclsim_work(int64_t ns);
extern "C" __attribute__((weak)) int64_t aclsim_now(void);

inline int64_t now() { return aclsim_now ? aclsim_now() : 0; }

inline void passUntil(int64_t t)
{
	const int64_t wakeUp = 1000; // ns
	if (aclsim_work && t + wakeUp > now())
		aclsim_work(t + wakeUp - now());
}

// The program's own time, also on a virtual clock.
inline void hostWork(unsigned us)
{
	if (aclsim_work)
		aclsim_work(int64_t(us) * 1000);
	usleep(us);
}

// A thread that runs tasks in order. Before start, tasks run at once on the caller.
class Worker {
public:
	void start(const char *name)
	{
		on = true;
		thread = std::thread([this, name] {
			pthread_setname_np(pthread_self(), name);
			CHECK(aclrtSetDevice(0));
			truth("thread", name, threadId());
			loop();
		});
	}

	void push(std::function<void()> task)
	{
		if (!on)
			return task();
		std::lock_guard<std::mutex> hold(lock);
		tasks.push_back([=, at = now()] { passUntil(at), task(); });
		changed.notify_all();
	}

	void drain() // waits until all tasks are done
	{
		if (!on)
			return;
		std::unique_lock<std::mutex> hold(lock);
		changed.wait(hold, [&] { return tasks.empty(); });
		passUntil(done);
	}

	void stop()
	{
		if (!on)
			return;
		push([this] { on = false; });
		thread.join();
		passUntil(done);
	}

private:
	void loop()
	{
		std::unique_lock<std::mutex> hold(lock);
		while (on) {
			changed.wait(hold, [&] { return !tasks.empty(); });
			std::function<void()> &task = tasks.front();
			hold.unlock();
			task();
			hold.lock();
			tasks.pop_front();
			done = now();
			changed.notify_all();
		}
	}

	std::mutex lock;
	std::condition_variable changed;
	std::deque<std::function<void()>> tasks; // the first is running
	std::atomic<bool> on{false};
	int64_t done = 0; // time
	std::thread thread;
};

// Never destroyed, like the file of the truth. The first launches, the second waits for outputs.
inline Worker &queue = *new Worker, &output = *new Worker, &watchdog = *new Worker, &releases = *new Worker, &reports = *new Worker;
inline std::atomic<bool> ending;

inline void startThreads()
{
	if (options.queue)
		queue.start("acl_thread");
	if (!options.helpers)
		return;
	output.start("output_thread");
	watchdog.start("watchdog");
	releases.start("release_thread");
	reports.start("report_thread");
	reports.push([] { CHECK(aclrtSubscribeReport(static_cast<uint64_t>(pthread_self()), streams.main)); });
	reports.drain();
	reports.push([] {
		while (!ending)
			aclrtProcessReport(100); // nothing to report is a time-out, not a failure
		CHECK(aclrtUnSubscribeReport(static_cast<uint64_t>(pthread_self()), streams.main));
	});
}

inline void stopThreads()
{
	ending = true;
	for (Worker *w : {&queue, &output, &watchdog, &releases, &reports})
		w->stop();
}

inline aclrtEvent newEvent(uint32_t flag)
{
	aclrtEvent e;
	CHECK(aclrtCreateEventExWithFlag(&e, flag));
	return e;
}

inline bool complete(aclrtEvent e)
{
	aclrtEventRecordedStatus status;
	CHECK(aclrtQueryEventStatus(e, &status));
	return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

// The watchdog queries the event until it is complete, and the release thread destroys it.
inline void watch(aclrtEvent e)
{
	watchdog.push([=] {
		while (options.helpers && !complete(e))
			usleep(500);
		releases.push([=] { CHECK(aclrtDestroyEvent(e)); });
	});
}
