package uprobe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"golang.org/x/sys/unix"
)

// Mapped is a library of the runtime, of operators or with marks that a process has mapped.
type Mapped struct {
	PID   int
	Path  string   // in the process
	Files []string // paths to open here, the most reliable first
	Lost  bool     // the kernel lost events: no other field is set
	file  fileID   // from the kernel; a stacked file system may show another one
}

// mapWatch reports the libraries that processes map, from perf events.
type mapWatch struct {
	model *api.Model
	fds   []int
	rings [][]byte
	stop  atomic.Bool
	ended sync.WaitGroup
}

const mapRingPages = 16

// watchMaps calls f for each library as in Mapped that any process maps, on one goroutine, until stop is called.
func watchMaps(m *api.Model, f func(Mapped)) (stop func(), err error) {
	w := &mapWatch{model: m}
	for cpu := 0; ; cpu++ { // also those outside this process's affinity
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Bits: unix.PerfBitMmap | unix.PerfBitMmap2, Wakeup: 1}
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) {
			continue // an offline processor
		}
		if errors.Is(err, unix.EINVAL) && cpu > 0 {
			break // no more processors
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
		w.stop.Store(true)
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
	for !w.stop.Load() {
		_, _ = unix.Poll(polls, 50)
		for _, r := range w.rings {
			w.drain(r, f)
		}
	}
}

// drain reads the events in one processor's ring.
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
	const fixed = 8 + 8 + 3*8 + 8 + 2*8 + 8 // header, pid and tid, location, device, inode, protection
	switch binary.NativeEndian.Uint32(b) {
	case unix.PERF_RECORD_LOST:
		f(Mapped{Lost: true})
	case unix.PERF_RECORD_MMAP2:
		if len(b) <= fixed {
			return
		}
		path, _, _ := strings.Cut(string(b[fixed:]), "\x00")
		if name := path[strings.LastIndexByte(path, '/')+1:]; w.model.LayerOf(name) == nil && !w.model.OfMarks(name) && !w.model.OfOperators(name) {
			return
		}
		pid, addr, size := int(binary.NativeEndian.Uint32(b[8:])), binary.NativeEndian.Uint64(b[16:]), binary.NativeEndian.Uint64(b[24:])
		dev := unix.Mkdev(binary.NativeEndian.Uint32(b[40:]), binary.NativeEndian.Uint32(b[44:]))
		f(Mapped{PID: pid, Path: path, Files: filesOf(pid, addr, addr+size, path), file: fileID{dev, binary.NativeEndian.Uint64(b[48:])}})
	}
}

// Follow adds the libraries that selected processes map from now on, until stop is called. Calls before the probes are
// attached are not seen: late gets the longest time that this may have taken.
func (u *Probes) Follow(late func(m Mapped, wait time.Duration, err error)) (stop func(), err error) {
	return watchMaps(u.model, func(m Mapped) {
		began := time.Now()
		if m.Lost {
			// Search all processes instead.
			pids, _ := u.Candidates()
			for _, pid := range pids {
				libs, _ := FindLibraries(u.model, pid)
				marked, _ := FindMarked(u.model, pid)
				for _, lib := range append(libs, marked...) {
					_ = u.Add(lib)
				}
			}
			return
		}
		if !u.selects(m.PID) {
			return
		}
		file := filepath.Base(m.Path)
		if u.model.OfOperators(file) {
			u.operators.add(m.Path)
		}
		if u.hasFile(m.file) || u.model.LayerOf(file) == nil && !(u.marks() && u.model.OfMarks(file)) {
			return
		}
		err := os.ErrNotExist
		for _, path := range m.Files {
			if u.has(path) {
				return
			}
			if err = u.Add(path); err == nil {
				break
			}
		}
		if errors.Is(err, ErrNoFunction) && u.model.OfMarks(file) {
			return // CANN 8.3 and older have no marks
		}
		if late != nil {
			late(m, time.Since(began), err)
		}
	})
}
