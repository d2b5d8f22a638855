// Pools for workspaces and temporary tensors. A pool belongs to one device.
#ifndef POOL_H
#define POOL_H

#include <cstddef>
#include <vector>

#include "call.h"

class Pool {
public:
	virtual ~Pool() = default;
	virtual void *take(size_t size) = 0;
	virtual void give(void *at, size_t size) = 0;

	static size_t rounded(size_t size, size_t to) { return size == 0 ? to : (size + to - 1) / to * to; }
};

// Physical memory mapped at the end of one reserved range, which grows in steps. Memory is returned in reverse order.
class MappedPool : public Pool {
public:
	MappedPool(int device, size_t step, size_t most) : device(device), step(step), most(most) {}

	~MappedPool() override
	{
		for (void *at : places)
			CALL(aclrtUnmapMem, at);
		for (aclrtDrvMemHandle block : blocks)
			CALL(aclrtFreePhysical, block);
		if (range)
			CALL(aclrtReleaseMemAddress, range);
	}

	void *take(size_t size) override
	{
		size = rounded(size, 128);
		if (used + size > mapped)
			grow(rounded(used + size - mapped, step));
		void *at = static_cast<char *>(range) + used;
		used += size;
		return at;
	}

	void give(void *at, size_t size) override
	{
		used -= rounded(size, 128);
		if (at != static_cast<char *>(range) + used) {
			std::fprintf(stderr, "pool: memory is not returned in reverse order\n");
			std::abort();
		}
	}

private:
	void grow(size_t size)
	{
		aclrtPhysicalMemProp prop = {};
		prop.handleType = ACL_MEM_HANDLE_TYPE_NONE;
		prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
		prop.memAttr = ACL_HBM_MEM_HUGE;
		prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		prop.location.id = static_cast<uint32_t>(device);
		aclrtDrvMemHandle block;
		CALL(aclrtMallocPhysical, &block, size, &prop, 0);
		if (!range)
			CALL(aclrtReserveMemAddress, &range, most, 0, nullptr, 1);
		void *at = static_cast<char *>(range) + mapped;
		CALL(aclrtMapMem, at, size, 0, block, 0);
		blocks.push_back(block);
		places.push_back(at);
		mapped += size;
	}

	int device;
	size_t step, most, mapped = 0, used = 0;
	void *range = nullptr;
	std::vector<aclrtDrvMemHandle> blocks;
	std::vector<void *> places;
};

// Buffers of aclrtMalloc that are used again if they are large enough, and not by more than a limit.
class BufferPool : public Pool {
public:
	~BufferPool() override
	{
		for (const Buffer &b : buffers)
			CALL(aclrtFree, b.at);
	}

	void *take(size_t size) override
	{
		size = rounded(size, 128);
		for (Buffer &b : buffers) {
			if (!b.taken && b.size >= size && b.size - size <= margin) {
				b.taken = true;
				return b.at;
			}
		}
		Buffer b = {nullptr, size, true};
		CALL(aclrtMalloc, &b.at, size, ACL_MEM_MALLOC_HUGE_FIRST);
		buffers.push_back(b);
		return b.at;
	}

	void give(void *at, size_t) override
	{
		for (Buffer &b : buffers) {
			if (b.at == at)
				b.taken = false;
		}
	}

private:
	static constexpr size_t margin = 4 << 20;
	struct Buffer {
		void *at;
		size_t size;
		bool taken;
	};
	std::vector<Buffer> buffers;
};

// Memory of a pool, returned at the end of the scope. The device may still use it: one stream runs all of a device's work.
class Lease {
public:
	Lease(Pool &pool, size_t size) : pool(pool), size(size), at(size ? pool.take(size) : nullptr) {}
	~Lease()
	{
		if (at)
			pool.give(at, size);
	}
	Lease(const Lease &) = delete;
	Lease &operator=(const Lease &) = delete;

	void *address() const { return at; }

private:
	Pool &pool;
	size_t size;
	void *at;
};

#endif
