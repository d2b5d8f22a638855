// Memory in blocks that are used again, as frameworks cache it: the runtime sees few allocations and many reuses.
#include "serving.h"

namespace {

const size_t PIECE = 2 << 20, RESERVED = size_t(1) << 30;

struct Block {
	size_t bytes;
	aclrtStream stream;               // in whose order it is used
	std::vector<aclrtStream> others;  // that use it too
	std::vector<aclrtEvent> pending;  // recorded on those when it was given back
};

struct Pinned {
	void *at;
	size_t bytes;
	aclrtEvent copied; // after the last copy; nullptr: none was made
};

std::map<void *, Block> blocks;                                           // handed out, or waiting for other streams
std::map<std::pair<aclrtStream, size_t>, std::vector<void *>> free_blocks; // by stream and size
std::vector<void *> waiting;                                              // given back while other streams use them
std::vector<Pinned> hosts;
char *segment, *segmentEnd; // the part that was never handed out
char *range, *mapped;       // with --expandable
std::vector<aclrtDrvMemHandle> pieces;
std::vector<void *> segments;

// More memory for blocks.
void grow(size_t bytes)
{
	size_t size = (bytes + PIECE - 1) / PIECE * PIECE;
	if (!options.expandable) {
		segment = static_cast<char *>(memory::device(size, "block pool"));
		segments.push_back(segment);
		segmentEnd = segment + size;
		return;
	}
	if (!range) {
		OK(aclrtReserveMemAddress(reinterpret_cast<void **>(&range), RESERVED, 0, nullptr, 1));
		segment = segmentEnd = mapped = range;
	}
	for (; segmentEnd < segment + bytes; segmentEnd += PIECE) {
		aclrtPhysicalMemProp prop = {};
		prop.memAttr = ACL_HBM_MEM_HUGE;
		prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		aclrtDrvMemHandle piece;
		OK(aclrtMallocPhysical(&piece, PIECE, &prop, 0));
		OK(aclrtMapMem(segmentEnd, PIECE, 0, piece, 0));
		truth::allocated(segmentEnd, PIECE, "block pool");
		pieces.push_back(piece);
	}
}

// Blocks whose other streams have passed are free again.
void collect()
{
	for (size_t i = 0; i < waiting.size();) {
		Block &b = blocks[waiting[i]];
		while (!b.pending.empty()) {
			aclrtEventRecordedStatus status;
			OK(aclrtQueryEventStatus(b.pending.back(), &status));
			if (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
				break;
			OK(aclrtDestroyEvent(b.pending.back()));
			b.pending.pop_back();
		}
		if (!b.pending.empty()) {
			i++;
			continue;
		}
		free_blocks[{b.stream, b.bytes}].push_back(waiting[i]);
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
	truth::allocated(p, bytes, owner);
	return p;
}

void deviceFree(void *p)
{
	OK(aclrtFree(p));
	truth::freed(p);
}

void *block(size_t bytes, aclrtStream s)
{
	bytes = (bytes + 511) / 512 * 512;
	collect();
	std::vector<void *> &fit = free_blocks[{s, bytes}];
	void *p;
	if (!fit.empty()) {
		p = fit.back();
		fit.pop_back();
	} else {
		if (static_cast<size_t>(segmentEnd - segment) < bytes)
			grow(bytes);
		p = segment;
		segment += bytes;
	}
	blocks[p] = {bytes, s, {}, {}};
	return p;
}

void used(void *p, aclrtStream other) { blocks[p].others.push_back(other); }

// Work of its own stream comes before all later uses. Other streams are asked by events.
void giveBack(void *p)
{
	Block &b = blocks[p];
	for (aclrtStream s : b.others) {
		aclrtEvent e;
		OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_CAPTURE_STREAM_PROGRESS));
		queue.push([=] { OK(aclrtRecordEvent(e, s)); });
		b.pending.push_back(e);
	}
	queue.drain(); // an event that is not recorded yet counts as complete
	waiting.push_back(p);
}

void *pinned(size_t bytes)
{
	for (Pinned &h : hosts) {
		if (h.bytes != bytes)
			continue;
		if (h.copied) {
			aclrtEventRecordedStatus status;
			OK(aclrtQueryEventStatus(h.copied, &status));
			if (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
				continue;
			OK(aclrtDestroyEvent(h.copied));
			h.copied = nullptr;
		}
		return h.at;
	}
	Pinned h = {nullptr, bytes, nullptr};
	OK(aclrtMallocHost(&h.at, bytes));
	hosts.push_back(h);
	return h.at;
}

void copied(void *p, aclrtStream s)
{
	for (Pinned &h : hosts) {
		if (h.at != p || h.copied)
			continue;
		OK(aclrtCreateEventExWithFlag(&h.copied, ACL_EVENT_CAPTURE_STREAM_PROGRESS));
		aclrtEvent e = h.copied;
		queue.push([=] { OK(aclrtRecordEvent(e, s)); });
		queue.drain();
	}
}

void end()
{
	collect();
	for (void *p : segments)
		deviceFree(p);
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
