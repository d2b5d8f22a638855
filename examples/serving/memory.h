// Memory in blocks that are used again, as frameworks cache it: the runtime sees few allocations and many uses of each.
#pragma once

#include "threads.h"

#include <algorithm>

namespace memory {
const size_t PIECE = 2 << 20, RESERVED = size_t(1) << 30;

struct Block {
	aclrtStream stream; // in whose order it is used; nullptr: host memory
	size_t bytes;
	std::vector<aclrtEvent> uses; // on other streams
	bool back;                    // given back while streams may use it
};

inline std::map<void *, Block> blocks;                                       // handed out
inline std::map<std::pair<aclrtStream, size_t>, std::vector<void *>> unused; // by stream and size
inline std::vector<void *> allocations, hosts;
inline std::vector<aclrtDrvMemHandle> pieces; // mapped into the range, one after the other
inline void *range;
inline size_t given; // bytes of the range that were handed out

inline void *device(size_t bytes, const char *owner)
{
	void *p;
	CHECK(aclrtMallocAlign32(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
	allocations.push_back(p);
	truth("allocate", p, bytes, owner);
	return p;
}

inline void deviceFree(void *p)
{
	CHECK(aclrtFree(p));
	allocations.erase(std::find(allocations.begin(), allocations.end(), p));
	truth("free", p);
}

// Blocks that were given back and that no stream uses any more can be handed out.
inline void collect()
{
	for (auto it = blocks.begin(); it != blocks.end();) {
		auto &[p, b] = *it++;
		while (b.back && !b.uses.empty() && complete(b.uses.back())) {
			CHECK(aclrtDestroyEvent(b.uses.back()));
			b.uses.pop_back();
		}
		if (b.back && b.uses.empty()) {
			unused[{b.stream, b.bytes}].push_back(p);
			blocks.erase(p);
		}
	}
}

// A block that was given back, or a new one.
inline void *take(aclrtStream s, size_t bytes, void *(*make)(size_t))
{
	collect();
	std::vector<void *> &fit = unused[{s, bytes}];
	if (fit.empty())
		fit.push_back(make(bytes));
	void *p = fit.back();
	fit.pop_back();
	blocks[p] = {s, bytes, {}, false};
	return p;
}

inline void *extend(size_t bytes)
{
	char *at = static_cast<char *>(range) + given;
	for (given += bytes; given > pieces.size() * PIECE;) {
		void *end = static_cast<char *>(range) + pieces.size() * PIECE;
		aclrtPhysicalMemProp prop = {};
		prop.memAttr = ACL_HBM_MEM_HUGE;
		prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		pieces.emplace_back();
		CHECK(aclrtMallocPhysical(&pieces.back(), PIECE, &prop, 0));
		CHECK(aclrtMapMem(end, PIECE, 0, pieces.back(), 0));
		truth("allocate", end, PIECE, "blocks");
	}
	return at;
}

// A block of the device, used in the order of s. Sizes are powers of two: there are few, so old blocks soon fit all requests.
inline void *block(size_t bytes, aclrtStream s)
{
	if (!range)
		CHECK(aclrtReserveMemAddress(&range, RESERVED, 0, nullptr, 1));
	return take(s, size_t(1) << (64 - __builtin_clzl((bytes - 1) | 511)), extend);
}

inline void *pinned(size_t bytes)
{
	return take(nullptr, bytes, [](size_t n) {
		hosts.push_back(nullptr);
		CHECK(aclrtMallocHost(&hosts.back(), n));
		return hosts.back();
	});
}

// Another stream uses the block, up to its work so far. The event is recorded at once: before, it would count as complete.
inline void used(void *p, aclrtStream s)
{
	aclrtEvent e = newEvent(ACL_EVENT_CAPTURE_STREAM_PROGRESS);
	queue.push([=] { CHECK(aclrtRecordEvent(e, s)); });
	queue.drain();
	blocks[p].uses.push_back(e);
}

// The block is free after its uses. Its own stream's work comes before later uses anyway.
inline void giveBack(void *p) { blocks[p].back = true; }

inline void end()
{
	collect();
	while (!allocations.empty())
		deviceFree(allocations.back());
	for (size_t i = 0; i < pieces.size(); i++) {
		CHECK(aclrtUnmapMem(static_cast<char *>(range) + i * PIECE));
		CHECK(aclrtFreePhysical(pieces[i]));
	}
	if (range)
		CHECK(aclrtReleaseMemAddress(range));
	for (void *p : hosts)
		CHECK(aclrtFreeHost(p));
}
} // namespace memory
