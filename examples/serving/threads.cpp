// The threads of an engine beside the one that makes the steps.
#include "serving.h"

#include <pthread.h>

// The simulator's virtual clock can't see that a task is handed to another thread: it begins there after it was handed over.
extern "C" __attribute__((weak)) void aclsim_work(int64_t ns);
extern "C" __attribute__((weak)) int64_t aclsim_now(void);

static int64_t now() { return aclsim_now ? aclsim_now() : 0; }

static void passUntil(int64_t t)
{
	const int64_t wakeUp = 1000; // ns
	if (aclsim_work && t + wakeUp > now())
		aclsim_work(t + wakeUp - now());
}

void hostWork(unsigned us)
{
	if (aclsim_work)
		aclsim_work(int64_t(us) * 1000);
	usleep(us);
}

static void begins(const char *name)
{
	pthread_setname_np(pthread_self(), name);
	OK(aclrtSetDevice(0));
	truth::thread(name);
}

void Worker::start(const char *name)
{
	on = true;
	thread = std::thread([this, name] {
		begins(name);
		loop();
	});
}

void Worker::loop()
{
	std::unique_lock<std::mutex> hold(lock);
	for (;;) {
		added.wait(hold, [&] { return ending || !tasks.empty(); });
		if (tasks.empty())
			return;
		Task task = std::move(tasks.front());
		tasks.pop_front();
		busy = true;
		hold.unlock();
		passUntil(task.at);
		task.run();
		hold.lock();
		busy = false;
		done = now();
		if (tasks.empty())
			emptied.notify_all();
	}
}

void Worker::push(std::function<void()> task)
{
	if (!on)
		return task();
	std::lock_guard<std::mutex> hold(lock);
	tasks.push_back({std::move(task), now()});
	added.notify_one();
}

void Worker::drain()
{
	if (!on)
		return;
	std::unique_lock<std::mutex> hold(lock);
	emptied.wait(hold, [&] { return tasks.empty() && !busy; });
	passUntil(done);
}

void Worker::stop()
{
	if (!on)
		return;
	drain();
	lock.lock();
	ending = true;
	lock.unlock();
	added.notify_one();
	thread.join();
	on = false;
}

// Never destroyed: threads may use them when the program ends.
Worker &queue = *new Worker, &output = *new Worker;
std::atomic<unsigned> &progress = *new std::atomic<unsigned>;
static Worker &releases = *new Worker, &watchdog = *new Worker;
static std::atomic<bool> &ending = *new std::atomic<bool>;
static std::thread &poller = *new std::thread, &hangs = *new std::thread;

static int64_t polled; // time at which the thread for reports ended

// Nothing to report is a time-out, not a failure.
static void poll(std::atomic<bool> *subscribed)
{
	begins("report_thread");
	uint64_t self = static_cast<uint64_t>(pthread_self());
	OK(aclrtSubscribeReport(self, streams.main));
	*subscribed = true;
	while (!ending)
		aclrtProcessReport(100);
	OK(aclrtUnSubscribeReport(self, streams.main));
	polled = now();
}

// Ends a program that makes no progress after its fault, as watchdogs of frameworks do. It makes no call.
static void endHang()
{
	for (unsigned seen = 0, quiet = 0; quiet < 20; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
		if (ending)
			return;
		quiet = progress == seen && truth::faulty() ? quiet + 1 : 0;
		seen = progress;
	}
	fputs("serving: no progress for 2 seconds\n", stderr);
	truth::write();
	abort();
}

void startHelpers()
{
	if (!options.fault.empty())
		hangs = std::thread(endHang);
	if (options.queue)
		queue.start("acl_thread");
	if (options.outputs)
		output.start("output_thread");
	if (!options.helpers)
		return;
	std::atomic<bool> subscribed{false};
	releases.start("release_thread");
	watchdog.start("watchdog");
	poller = std::thread(poll, &subscribed);
	while (!subscribed)
		std::this_thread::yield();
}

void release(aclrtEvent e)
{
	releases.push([=] { OK(aclrtDestroyEvent(e)); });
}

void watch(aclrtEvent e)
{
	if (!options.helpers)
		return release(e);
	watchdog.push([=] {
		for (aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY; status != ACL_EVENT_RECORDED_STATUS_COMPLETE; usleep(500))
			OK(aclrtQueryEventStatus(e, &status));
		release(e);
	});
}

void stopHelpers()
{
	ending = true;
	for (Worker *w : {&queue, &output, &watchdog, &releases})
		w->stop();
	for (std::thread *t : {&poller, &hangs})
		if (t->joinable())
			t->join();
	passUntil(polled);
}
