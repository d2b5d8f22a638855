package memory

import (
	"errors"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"golang.org/x/sys/unix"
)

// MapShared maps another process's memory into the reservation range.
func (m *Memory) MapShared(x *Shared) (uint64, *fail.Failure) {
	from := x.Offset / space.PageSize * space.PageSize
	length := space.RoundUp(x.Offset+x.Size, space.PageSize) - from
	fd, err := x.OpenFile()
	if err != nil {
		return 0, fail.New(fail.PeerLost, "open memory of process %d: %v", x.Pid, err)
	}
	defer unix.Close(fd)
	m.Lock()
	defer m.Unlock()
	at, f := m.takeAddresses(length, 0)
	if f != nil {
		return 0, f
	}
	if _, err := unix.MmapPtr(fd, int64(from), space.Pointer(at), uintptr(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		m.Taken.Remove(at)
		m.GiveBack(space.Span{Addr: at, Size: length})
		return 0, fail.New(fail.PeerLost, "map memory of process %d: %v", x.Pid, err)
	}
	x.mapped = m
	x.Memory = space.Span{Addr: at + x.Offset - from, Size: x.Size}
	m.Has.Shared.Store(true)
	m.Live.Insert(space.Region[Block]{Span: x.Memory, Value: Block{Origin: byImport, Access: space.Read | space.Write, Shared: x}})
	return x.Memory.Addr, nil
}

// Unmap undoes MapShared.
func (x *Shared) Unmap() {
	m := x.mapped
	m.Lock()
	defer m.Unlock()
	if r, ok := m.Live.Find(x.Memory.Addr); !ok || r.Value.Shared != x {
		return
	}
	m.Live.Remove(x.Memory.Addr)
	m.remember(x.Memory)
	at := x.Memory.Addr / space.PageSize * space.PageSize
	r, _ := m.Taken.Remove(at)
	m.GiveBack(r.Span)
}

// errSharedGone is returned for memory that its owner freed or closed.
var errSharedGone = errors.New("the process that shares the memory has freed it or closed its key")
