package uprobe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"golang.org/x/sys/unix"
)

// Mapped is code of the runtime that a process has mapped.
type Mapped struct {
	PID   int
	Path  string   // as the process names it
	Files []string // the file under names that can be opened from here, the surest first
	Lost  bool     // more was mapped than could be told: nothing but this is set
	file  fileID   // as the kernel has it, also of a process that has ended since; file systems on top of others show another one
}

// mapWatch tells of the libraries of a runtime that processes map, by events of the kernel's, as soon as they do.
type mapWatch struct {
	model *api.Model
	fds   []int
	rings [][]byte
	stop  chan struct{}
	ended sync.WaitGroup
}

const mapRingPages = 16

// WatchMaps calls f, on one goroutine of its own, for each library of the runtime that any process maps, until the returned
// function is called.
func WatchMaps(m *api.Model, f func(Mapped)) (stop func(), err error) {
	w := &mapWatch{model: m, stop: make(chan struct{})}
	for cpu := 0; ; cpu++ { // those that this process may not run on too
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Bits: unix.PerfBitMmap | unix.PerfBitMmap2, Wakeup: 1}
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) {
			continue // a processor that is off
		}
		if errors.Is(err, unix.EINVAL) && cpu > 0 {
			break // there are no more
		}
		if err != nil {
			w.close()
			return nil, kernelError(fmt.Errorf("watch what is mapped: %w", err))
		}
		w.fds = append(w.fds, fd)
		ring, err := unix.Mmap(fd, 0, (1+mapRingPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("watch what is mapped: %w", err)
		}
		w.rings = append(w.rings, ring)
	}
	w.ended.Go(func() { w.run(f) })
	return func() {
		close(w.stop)
		w.ended.Wait()
		w.close()
	}, nil
}

func (w *mapWatch) close() {
	for _, r := range w.rings {
		_ = unix.Munmap(r)
	}
	for _, fd := range w.fds {
		unix.Close(fd)
	}
}

func (w *mapWatch) run(f func(Mapped)) {
	polls := make([]unix.PollFd, len(w.fds))
	for i, fd := range w.fds {
		polls[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		_, _ = unix.Poll(polls, 50)
		for _, r := range w.rings {
			w.drain(r, f)
		}
	}
}

// drain reads the events in the ring of one processor.
func (w *mapWatch) drain(ring []byte, f func(Mapped)) {
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&ring[0]))
	data := ring[os.Getpagesize():]
	head := atomic.LoadUint64(&page.Data_head)
	tail := page.Data_tail
	var event [1 << 16]byte
	for tail < head {
		at := func(off uint64) byte { return data[(tail+off)%uint64(len(data))] }
		size := uint64(at(6)) | uint64(at(7))<<8
		if size < 8 || tail+size > head {
			break
		}
		for i := range size {
			event[i] = at(i)
		}
		w.event(event[:size], f)
		tail += size
	}
	atomic.StoreUint64(&page.Data_tail, head)
}

func (w *mapWatch) event(b []byte, f func(Mapped)) {
	const fixed = 8 + 8 + 3*8 + 8 + 2*8 + 8 // header, pid and tid, place, device, inode, protection
	switch binary.NativeEndian.Uint32(b) {
	case unix.PERF_RECORD_LOST:
		f(Mapped{Lost: true})
	case unix.PERF_RECORD_MMAP2:
		if len(b) <= fixed {
			return
		}
		path, _, _ := strings.Cut(string(b[fixed:]), "\x00")
		if w.model.LayerOf(path[strings.LastIndexByte(path, '/')+1:]) == nil {
			return
		}
		pid, addr, size := int(binary.NativeEndian.Uint32(b[8:])), binary.NativeEndian.Uint64(b[16:]), binary.NativeEndian.Uint64(b[24:])
		dev := unix.Mkdev(binary.NativeEndian.Uint32(b[40:]), binary.NativeEndian.Uint32(b[44:]))
		f(Mapped{PID: pid, Path: path, Files: filesOf(pid, fmt.Sprintf("%x-%x", addr, addr+size), path), file: fileID{dev, binary.NativeEndian.Uint64(b[48:])}})
	}
}

// filesOf names a file that a process maps so that it can be opened from here. The first name is of the very file, and takes
// privilege; the second may be another file by now.
func filesOf(pid int, addresses, path string) []string {
	dir := fmt.Sprintf("/proc/%d/", pid)
	return []string{dir + "map_files/" + addresses, dir + "root/" + strings.TrimPrefix(strings.TrimSuffix(path, " (deleted)"), "/")}
}

// Follow puts probes on the libraries that the selected processes map from now on, as they do so: what a process calls before the
// probes are there is not seen, and late is told how long that was at most. It ends with the returned function.
func (u *Probes) Follow(late func(m Mapped, wait time.Duration, err error)) (stop func(), err error) {
	return WatchMaps(u.model, func(m Mapped) {
		began := time.Now()
		if m.Lost {
			// What was mapped meanwhile is found by a look at all.
			pids, _ := u.Candidates()
			for _, pid := range pids {
				libs, _ := FindLibraries(u.model, pid)
				for _, lib := range libs {
					_ = u.Add(lib)
				}
			}
			return
		}
		if !u.wants(m.PID) || u.hasFile(m.file) {
			return
		}
		err := os.ErrNotExist
		for _, file := range m.Files {
			if u.has(file) {
				return
			}
			if err = u.Add(file); err == nil {
				break
			}
		}
		if late != nil {
			late(m, time.Since(began), err)
		}
	})
}
