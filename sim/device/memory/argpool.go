package memory

import (
	"math/bits"
	"sync"

	"github.com/acltrace/acltrace/sim/device/fail"
)

// argPool allocates device memory for launch arguments. Slot sizes are powers of two.
type argPool struct {
	mu                   sync.Mutex
	next, committed, end uint64
	free                 [argClasses][]uint64
}

const argClasses = 33

func argClass(size uint64) int { return bits.Len64(max(size, AllocAlign) - 1) }

func (p *argPool) Get(size uint64) (uint64, *fail.Failure) {
	c := argClass(size)
	p.mu.Lock()
	defer p.mu.Unlock()
	if c < len(p.free) {
		if f := p.free[c]; len(f) > 0 {
			p.free[c] = f[:len(f)-1]
			return f[len(f)-1], nil
		}
		if a := p.next; uint64(1)<<c <= p.end-a {
			if err := commit(&p.committed, a+1<<c); err != nil {
				return 0, fail.New(fail.NoHostMemory, "the host has no memory for %d bytes of arguments: %v", size, err)
			}
			p.next += 1 << c
			return a, nil
		}
	}
	return 0, fail.New(fail.NoHostMemory, "device memory has no room for %d bytes of arguments", size)
}

// ArgCache keeps the argument slots for one stream, so that streams do not wait for each other.
type ArgCache struct {
	Pool   *argPool
	mu     sync.Mutex
	closed bool
	free   [argClasses][]uint64
}

func (a *ArgCache) Get(size uint64) (uint64, *fail.Failure) {
	if c := argClass(size); c < argClasses {
		a.mu.Lock()
		if f := a.free[c]; len(f) > 0 {
			addr := f[len(f)-1]
			a.free[c] = f[:len(f)-1]
			a.mu.Unlock()
			return addr, nil
		}
		a.mu.Unlock()
	}
	return a.Pool.Get(size)
}

func (a *ArgCache) Put(addr, size uint64) {
	c := argClass(size)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.free[c] = append(a.free[c], addr)
		return
	}
	a.Pool.mu.Lock()
	a.Pool.free[c] = append(a.Pool.free[c], addr)
	a.Pool.mu.Unlock()
}

// Close returns the slots to the device.
func (a *ArgCache) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.Pool.mu.Lock()
	defer a.Pool.mu.Unlock()
	for c, f := range a.free {
		a.Pool.free[c] = append(a.Pool.free[c], f...)
		a.free[c] = nil
	}
}
