// Memory in blocks that are used again, as frameworks cache it: the runtime sees few allocations and many uses of each.
#include "serving.h"

#include <algorithm>

namespace {

const size_t PIECE = 2 << 20, RESERVED = size_t(1) << 30;

struct Block {
	size_t bytes;
	aclrtStream stream;              // in whose order it is used
	std::vector<aclrtStream> others; // that use it too
	std::vector<aclrtEvent> pending; // recorded on those when it was given back
};

struct Pinned {
	void *at;
	size_t bytes;
	aclrtEvent copied; // after the last copy; nullptr: none was made
};

std::map<void *, Block> blocks;                                       // handed out, or waiting for other streams
std::map<std::pair<aclrtStream, size_t>, std::vector<void *>> unused; // by stream and size
std::vector<void *> waiting;                                          // given back while other streams use them
std::vector<Pinned> hosts;
char *next, *segmentEnd; // the part of the segment that was never handed out
char *range;             // with --expandable
std::vector<aclrtDrvMemHandle> pieces;
std::vector<void *> allocations; // by memory::device

void grow(size_t bytes)
{
	if (!options.expandable) {
		size_t size = (bytes + PIECE - 1) / PIECE * PIECE;
		next = static_cast<char *>(memory::device(size, "blocks"));
		segmentEnd = next + size;
		return;
	}
	if (!range) {
		OK(aclrtReserveMemAddress(reinterpret_cast<void **>(&range), RESERVED, 0, nullptr, 1));
		next = segmentEnd = range;
	}
	for (; segmentEnd < next + bytes; segmentEnd += PIECE) {
		aclrtPhysicalMemProp prop = {};
		prop.memAttr = ACL_HBM_MEM_HUGE;
		prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		pieces.emplace_back();
		OK(aclrtMallocPhysical(&pieces.back(), PIECE, &prop, 0));
		OK(aclrtMapMem(segmentEnd, PIECE, 0, pieces.back(), 0));
		truth::allocated(segmentEnd, PIECE, "blocks");
	}
}

} // namespace

aclrtEvent newEvent(uint32_t flag)
{
	aclrtEvent e;
	OK(aclrtCreateEventExWithFlag(&e, flag));
	return e;
}

namespace {

bool passed(aclrtEvent e)
{
	aclrtEventRecordedStatus status;
	OK(aclrtQueryEventStatus(e, &status));
	if (status == ACL_EVENT_RECORDED_STATUS_COMPLETE)
		OK(aclrtDestroyEvent(e));
	return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

// An event after all work on a stream so far. It is recorded at once: before, it would count as complete.
aclrtEvent after(aclrtStream s)
{
	aclrtEvent e = newEvent(ACL_EVENT_CAPTURE_STREAM_PROGRESS);
	queue.push([=] { OK(aclrtRecordEvent(e, s)); });
	queue.drain();
	return e;
}

// Blocks that no stream uses any more can be handed out.
void collect()
{
	for (size_t i = 0; i < waiting.size();) {
		Block &b = blocks[waiting[i]];
		while (!b.pending.empty() && passed(b.pending.back()))
			b.pending.pop_back();
		if (!b.pending.empty()) {
			i++;
			continue;
		}
		unused[{b.stream, b.bytes}].push_back(waiting[i]);
		blocks.erase(waiting[i]);
		waiting.erase(waiting.begin() + static_cast<long>(i));
	}
}

} // namespace

namespace memory {

void *device(size_t bytes, const char *owner)
{
	void *p;
	OK(aclrtMallocAlign32(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
	allocations.push_back(p);
	truth::allocated(p, bytes, owner);
	return p;
}

void deviceFree(void *p)
{
	OK(aclrtFree(p));
	truth::freed(p);
	allocations.erase(std::find(allocations.begin(), allocations.end(), p));
}

void *block(size_t bytes, aclrtStream s)
{
	bytes = (bytes + 511) / 512 * 512;
	collect();
	std::vector<void *> &fit = unused[{s, bytes}];
	void *p = next;
	if (!fit.empty()) {
		p = fit.back();
		fit.pop_back();
	} else {
		if (static_cast<size_t>(segmentEnd - next) < bytes)
			grow(bytes);
		p = next;
		next += bytes;
	}
	blocks[p] = {bytes, s, {}, {}};
	return p;
}

void used(void *p, aclrtStream other) { blocks[p].others.push_back(other); }

// Its own stream's work comes before all later uses.
void giveBack(void *p)
{
	for (aclrtStream s : blocks[p].others)
		blocks[p].pending.push_back(after(s));
	waiting.push_back(p);
}

void *pinned(size_t bytes)
{
	for (Pinned &h : hosts)
		if (h.bytes == bytes && (!h.copied || passed(h.copied))) {
			h.copied = nullptr;
			return h.at;
		}
	hosts.push_back({nullptr, bytes, nullptr});
	OK(aclrtMallocHost(&hosts.back().at, bytes));
	return hosts.back().at;
}

void copied(void *p, aclrtStream s)
{
	for (Pinned &h : hosts)
		if (h.at == p)
			h.copied = after(s);
}

void end()
{
	collect();
	while (!allocations.empty())
		deviceFree(allocations.back());
	for (size_t i = 0; i < pieces.size(); i++) {
		OK(aclrtUnmapMem(range + i * PIECE));
		OK(aclrtFreePhysical(pieces[i]));
	}
	if (range)
		OK(aclrtReleaseMemAddress(range));
	for (Pinned &h : hosts) {
		if (h.copied)
			OK(aclrtDestroyEvent(h.copied));
		OK(aclrtFreeHost(h.at));
	}
}

} // namespace memory
