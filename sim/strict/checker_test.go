package strict

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

// program is a program that the checker watches. Its tasks run when they are submitted, unless a test keeps them.
type program struct {
	t *testing.T
	*Checker
	main    Thread
	streams map[int32]*Stream
	places  map[uint64]Place
	dead    map[uint64]bool // handles
	tainted []space.Span
	told    []string
}

const (
	somewhere = 0x12_4000_0000_00 // addresses of the device
	hostSide  = 0x7f_0000_0000
)

func newProgram(t *testing.T) *program {
	p := &program{t: t, main: Thread{ID: 7}, streams: map[int32]*Stream{}, places: map[uint64]Place{}, dead: map[uint64]bool{}}
	p.Checker = New(Options{
		Report:   func(f *Finding) { p.told = append(p.told, f.summary()) },
		Function: func() string { return "unnamed" },
		Live:     func(h uint64) bool { return !p.dead[h] },
		Locate: func(addr uint64) Place {
			if place, ok := p.places[addr]; ok {
				return place
			}
			if addr-somewhere < 1<<32 {
				return Place{}
			}
			return Place{Device: -1, Pinned: true}
		},
		Race: func(written []space.Span) { p.tainted = append(p.tainted, written...) },
	})
	return p
}

func (p *program) stream(id int32) *Stream {
	if p.streams[id] == nil {
		p.streams[id] = &Stream{ID: id}
	}
	return p.streams[id]
}

// call makes a call of the program.
func (p *program) call(name string, f func()) {
	outer := p.Enter(&p.main, name)
	if f != nil {
		f()
	}
	p.Leave(&p.main, &api.Func{}, nil, 0, outer)
}

func (p *program) alloc(addr, n uint64) {
	p.call("alloc", func() { p.Gets(&p.main, addr, n, DeviceMemory) })
}

func (p *program) allocHost(addr, n uint64) {
	p.call("allocHost", func() { p.Gets(&p.main, addr, n, PinnedMemory) })
}

func (p *program) free(addr uint64) {
	p.call("free", func() { p.Gone(&p.main, addr, DeviceMemory, PinnedMemory) })
}

func (p *program) reset() { p.call("reset", func() { p.Resets(&p.main) }) }

func (p *program) sync(id int32) { p.call("sync", func() { p.Done(&p.main, p.stream(id)) }) }

// submit submits a task, and returns the function that runs it.
func (p *program) submit(id int32, name string, do func(*Stream)) func() {
	var k *Task
	s := p.stream(id)
	p.call(name, func() { k = p.Submitted(&p.main, s, "") })
	return func() {
		p.Begin(s, k, "")
		do(s)
	}
}

func (p *program) kernel(id int32, name string, extents ...space.Extent) {
	p.submit(id, name, func(s *Stream) { p.KernelTouches(s, extents) })()
}

func (p *program) record(id int32, v *Vector) {
	p.submit(id, "record", func(s *Stream) { p.Release(s, v) })()
}

func (p *program) wait(id int32, v *Vector) {
	p.submit(id, "wait", func(s *Stream) { p.Acquire(s, v) })()
}

func (p *program) word(id int32, name string, addr uint64, write bool) {
	p.submit(id, name, func(s *Stream) { p.TaskWord(s, addr, write) })()
}

// touch is a blocking call that reads or writes.
func (p *program) touch(name string, addr, n uint64, access uint32) {
	p.call(name, func() { p.HostTouches(&p.main, addr, n, access) })
}

func reads(addr, n uint64) space.Extent { return space.Extent{Addr: addr, Size: n, Access: space.Read} }
func writes(addr, n uint64) space.Extent {
	return space.Extent{Addr: addr, Size: n, Access: space.Write}
}

// all returns the kinds of findings with the functions of their calls.
func (p *program) all() (out []string) {
	for _, f := range p.Findings() {
		out = append(out, f.summary())
	}
	return out
}

func (p *program) want(name string, want ...string) {
	p.t.Helper()
	if got := p.all(); !slices.Equal(got, want) {
		p.t.Errorf("%s: found\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(p.told, p.all()) {
		p.t.Errorf("%s: reported %q", name, p.told)
	}
}

const m = somewhere

// Each kind of order that a program can make is known, and each that it lacks is found.
func TestMissingOrderIsFound(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(p *program)
		want []string
	}{
		{"one stream", func(p *program) { p.kernel(1, "a", writes(m, 8)); p.kernel(1, "b", writes(m, 8)) }, nil},
		{"two streams", func(p *program) { p.kernel(1, "a", writes(m, 8)); p.kernel(2, "b", reads(m, 8)) }, []string{"race-between-streams: a, b"}},
		{"two readers", func(p *program) { p.kernel(1, "a", reads(m, 8)); p.kernel(2, "b", reads(m, 8)) }, nil},
		{"a writer after two readers", func(p *program) {
			p.kernel(1, "a", reads(m, 8))
			p.kernel(2, "b", reads(m, 8))
			p.kernel(2, "c", writes(m, 8))
		}, []string{"race-between-streams: a, c"}},
		{"neighbours", func(p *program) { p.kernel(1, "a", writes(m, 8)); p.kernel(2, "b", writes(m+8, 8)) }, nil},
		{"one byte", func(p *program) { p.kernel(1, "a", writes(m, 9)); p.kernel(2, "b", writes(m+8, 8)) }, []string{"race-between-streams: a, b"}},
		{"nothing", func(p *program) { p.kernel(1, "a", writes(m, 8)); p.kernel(2, "b", writes(m, 0)) }, nil},
		{"an event", func(p *program) {
			var v Vector
			p.kernel(1, "a", writes(m, 8))
			p.record(1, &v)
			p.wait(2, &v)
			p.kernel(2, "b", writes(m, 8))
		}, nil},
		{"an event before the writer", func(p *program) {
			var v Vector
			p.record(1, &v)
			p.kernel(1, "a", writes(m, 8))
			p.wait(2, &v)
			p.kernel(2, "b", writes(m, 8))
		}, []string{"race-between-streams: a, b"}},
		{"events of three streams", func(p *program) {
			var v, w Vector
			p.kernel(1, "a", writes(m, 8))
			p.record(1, &v)
			p.wait(2, &v)
			p.record(2, &w)
			p.wait(3, &w)
			p.kernel(3, "b", writes(m, 8))
		}, nil},
		{"a synchronization", func(p *program) { p.kernel(1, "a", writes(m, 8)); p.sync(1); p.kernel(2, "b", writes(m, 8)) }, nil},
		{"a synchronization with another stream", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			p.kernel(2, "b")
			p.sync(2)
			p.kernel(2, "c", writes(m, 8))
		}, []string{"race-between-streams: a, c"}},
		{"a host that waits for an event", func(p *program) {
			var v Vector
			p.kernel(1, "a", writes(m, 8))
			p.record(1, &v)
			p.call("sync", func() { p.Knows(&p.main, &v) })
			p.touch("copy", m, 8, space.Read)
		}, nil},
		{"the host too early", func(p *program) { p.kernel(1, "a", writes(m, 8)); p.touch("copy", m, 8, space.Read) }, []string{"missing-synchronization: a, copy"}},
		{"the host before the task", func(p *program) { p.touch("copy", m, 8, space.Write); p.kernel(1, "a", writes(m, 8)) }, nil},
		{"the host after the call", func(p *program) {
			a := p.submit(1, "a", func(s *Stream) { p.TaskTouches(s, m, 8, space.Read) })
			p.touch("copy", m, 8, space.Write)
			a()
		}, []string{"missing-synchronization: a, copy"}},
		{"the host twice", func(p *program) { p.touch("copy", m, 8, space.Write); p.touch("copy", m, 8, space.Read) }, nil},
		{"a host function", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			p.submit(1, "callback", func(s *Stream) {
				p.HostBegins(s)
				p.HostTouches(nil, m, 8, space.Write)
				p.HostReturns(s)
			})()
			p.kernel(1, "b", writes(m, 8))
		}, nil},
		{"a host function after a synchronization", func(p *program) {
			p.kernel(2, "a", writes(m, 8))
			callback := p.submit(1, "callback", func(s *Stream) { p.HostBegins(s); p.HostReturns(s) })
			b := p.submit(1, "b", func(s *Stream) { p.TaskTouches(s, m, 8, space.Write) })
			p.sync(2)
			p.kernel(1, "c")
			callback()
			b()
		}, nil},
		{"a host function before a blocking call", func(p *program) {
			callback := p.submit(1, "callback", func(s *Stream) { p.HostBegins(s); p.HostReturns(s) })
			b := p.submit(1, "b", func(s *Stream) { p.TaskTouches(s, m, 8, space.Write) })
			p.touch("copy", m, 8, space.Read)
			callback()
			b()
		}, nil},
		{"a value beside much memory", func(p *program) {
			p.word(3, "wait", m+4096, false)
			p.word(3, "wait", m+8192, false)
			p.kernel(1, "a", writes(m+4104, 4088))
			p.word(2, "wait", m+4096, false)
			p.word(2, "wait", m+8192, false)
			p.kernel(2, "b", writes(m+4104, 8))
		}, []string{"race-between-streams: a, b"}},
		{"a value inside much memory", func(p *program) {
			p.word(3, "wait", m+4096, false)
			p.kernel(1, "a", writes(m+4000, 97), writes(m, 8))
			p.word(2, "wait", m+4096, false)
			p.kernel(2, "b", writes(m, 8))
		}, nil},
		{"a value", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			p.word(1, "write", m+64, true)
			p.word(2, "wait", m+64, false)
			p.kernel(2, "b", writes(m, 8))
		}, nil},
		{"another value", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			p.word(1, "write", m+56, true)
			p.word(2, "wait", m+64, false)
			p.kernel(2, "b", writes(m, 8))
		}, []string{"race-between-streams: a, b"}},
		{"a value that a kernel wrote before the wait", func(p *program) {
			p.kernel(1, "a", writes(m, 128))
			p.word(2, "wait", m+64, false)
			p.kernel(2, "b", writes(m, 8))
		}, nil},
		{"a value that a kernel writes after the wait began", func(p *program) {
			p.word(2, "wait", m+64, false)
			p.kernel(1, "a", writes(m+64, 8), writes(m, 8))
			p.word(3, "wait", m+64, false)
			p.kernel(3, "b", reads(m, 8))
		}, nil},
		{"a value that the host reads", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			p.word(1, "write", m+64, true)
			p.touch("copy", m+64, 8, space.Read)
			p.touch("copy", m, 8, space.Read)
		}, nil},
		{"a value that the host reads with the memory beside it", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			p.word(1, "write", m+64, true)
			p.touch("copy", m, 128, space.Read)
		}, nil},
		{"a value that the host writes", func(p *program) {
			p.word(1, "wait", m+64, false)
			p.touch("copy", m+64, 8, space.Write)
			p.kernel(1, "a", reads(m+64, 8))
		}, nil},
		{"bytes of a word", func(p *program) {
			p.word(1, "wait", m+64, false)
			p.kernel(1, "a", writes(m+64, 4))
			p.kernel(2, "b", writes(m+66, 2))
		}, nil},
		{"more than a word", func(p *program) {
			p.word(1, "wait", m+64, false)
			p.kernel(1, "a", writes(m+64, 9))
			p.kernel(2, "b", writes(m+64, 9))
		}, []string{"race-between-streams: a, b"}},
		{"bytes over two words", func(p *program) {
			p.word(3, "wait", m+64, false)
			p.kernel(1, "a", writes(m+68, 8))
			p.kernel(2, "b", writes(m+68, 8))
		}, []string{"race-between-streams: a, b"}},
		{"processes", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			p.ReleaseOthers(p.stream(1))
			p.kernel(2, "begin")
			p.AcquireOthers(p.stream(2))
			p.kernel(2, "b", writes(m, 8))
		}, nil},
		{"a process and the host", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			p.ReleaseOthers(p.stream(1))
			p.AcquireOthers(nil)
			p.touch("copy", m, 8, space.Read)
		}, nil},
		{"an ended stream", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			p.Ended(p.stream(1))
			p.kernel(2, "b", writes(m, 8))
			p.Ended(p.stream(1))
		}, nil}, // its number is used again, after its work is done
		{"lanes of a graph", func(p *program) {
			p.kernel(1, "a", writes(m, 8))
			s, lane := p.stream(1), p.stream(1).Part()
			p.BeginLane(s, &lane)
			p.Begin(&lane, nil, "lane")
			p.TaskTouches(&lane, m, 8, space.Write)
			p.kernel(1, "beside", writes(m+8, 8))
			p.EndLane(s, &lane)
			p.EndLane(s, &lane)
			p.kernel(1, "b", writes(m, 8))
		}, nil},
		{"lanes in a race", func(p *program) {
			p.kernel(1, "a")
			s, lane := p.stream(1), p.stream(1).Part()
			p.BeginLane(s, &lane)
			p.Begin(&lane, nil, "lane")
			p.TaskTouches(&lane, m, 8, space.Write)
			p.kernel(1, "beside", writes(m, 8))
			p.EndLane(s, &lane)
		}, []string{"race-between-streams: lane, beside"}},
		{"a lane that no task ran on", func(p *program) {
			s := p.stream(1)
			lane := s.Part()
			p.EndLane(s, &lane)
			p.sync(1)
			p.kernel(1, "a", writes(m, 8))
		}, nil},
		{"pieces", func(p *program) {
			for i := range uint64(4) {
				p.kernel(1, "a", writes(m+16*i, 8))
			}
			p.kernel(1, "whole", writes(m, 64))
			p.kernel(2, "b", writes(m+30, 1))
			p.kernel(3, "c", reads(m+8, 40))
		}, []string{"race-between-streams: whole, b", "race-between-streams: whole, c", "race-between-streams: b, c"}},
		{"a reader of pieces", func(p *program) {
			p.kernel(1, "a", writes(m+8, 8))
			p.sync(1)
			p.kernel(2, "b", reads(m, 32))
			p.kernel(3, "c", writes(m, 1))
			p.kernel(3, "d", writes(m+31, 1))
			p.kernel(3, "e", writes(m+12, 1))
		}, []string{"race-between-streams: b, c", "race-between-streams: b, d", "race-between-streams: b, e"}},
		{"the end of all addresses", func(p *program) { p.kernel(1, "a", writes(1<<64-8, 16)); p.kernel(2, "b", writes(1<<64-8, 16)) }, nil},
	} {
		p := newProgram(t)
		p.Gets(&p.main, m, 1<<20, DeviceMemory)
		p.Gets(&p.main, 1<<64-64, 63, DeviceMemory)
		c.run(p)
		p.want(c.name, c.want...)
	}
}

// Memory must not be freed before its last task is known to be done, and not be used after that.
func TestUseBeyondLifetimeIsFound(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(p *program)
		want []string
	}{
		{"done", func(p *program) { p.kernel(1, "a", writes(m, 8)); p.sync(1); p.free(m) }, nil},
		{"in flight", func(p *program) { p.kernel(1, "a", reads(m, 8)); p.free(m) }, []string{"freed-in-flight: a, free"}},
		{"its end in flight", func(p *program) { p.kernel(1, "a", writes(m+63, 1)); p.free(m) }, []string{"freed-in-flight: a, free"}},
		{"a neighbour in flight", func(p *program) { p.alloc(m+64, 64); p.kernel(1, "a", writes(m+64, 1)); p.free(m) }, nil},
		{"in flight on two streams", func(p *program) { p.kernel(1, "a", reads(m, 8)); p.kernel(2, "b", reads(m, 8)); p.free(m) },
			[]string{"freed-in-flight: a, free", "freed-in-flight: b, free"}},
		{"part of memory", func(p *program) { p.kernel(1, "a", reads(m, 8)); p.free(m + 8) }, nil},
		{"of another kind", func(p *program) { p.kernel(1, "a", reads(m, 8)); p.Gone(&p.main, m, PoolMemory) }, nil},
		{"used later", func(p *program) { p.free(m); p.kernel(1, "a", reads(m, 8)) }, []string{"use-after-free: free, a"}},
		{"used by the host", func(p *program) { p.free(m); p.touch("copy", m, 8, space.Read) }, []string{"use-after-free: free, copy"}},
		{"submitted before", func(p *program) {
			a := p.submit(1, "a", func(s *Stream) { p.TaskTouches(s, m, 8, space.Read) })
			p.free(m)
			a()
		}, []string{"freed-in-flight: a, free"}},
		{"used again", func(p *program) { p.free(m); p.alloc(m, 64); p.kernel(1, "a", writes(m, 64)) }, nil},
		{"used again by others", func(p *program) {
			a := p.submit(1, "a", func(s *Stream) { p.TaskTouches(s, m, 8, space.Read) })
			p.free(m)
			p.alloc(m, 64)
			a()
		}, []string{"freed-in-flight: a, free"}},
		{"of the host, used again", func(p *program) {
			p.allocHost(hostSide, 64)
			p.free(hostSide)
			p.touch("copy", hostSide, 8, space.Read) // the program may have the address from elsewhere
			p.kernel(1, "a", reads(hostSide, 8))
		}, []string{"use-after-free: free, a"}},
		{"by a task", func(p *program) {
			p.kernel(1, "a", reads(m, 8))
			p.submit(2, "freeAsync", func(s *Stream) { p.TaskFrees(s, m) })()
			p.kernel(2, "b", reads(m, 8))
		}, []string{"freed-in-flight: a, freeAsync", "use-after-free: freeAsync, b"}},
		{"by a task of the stream", func(p *program) {
			p.kernel(1, "a", reads(m, 8))
			p.submit(1, "freeAsync", func(s *Stream) { p.TaskFrees(s, m) })()
		}, nil},
		{"never", func(p *program) { p.kernel(1, "a", reads(m+1<<20, 8)); p.free(m + 1<<20) }, nil},
		{"by the runtime", func(p *program) {
			p.kernel(1, "a", reads(m, 64))
			p.Drops(space.Span{Addr: m, Size: 64})
			p.kernel(2, "b", writes(m, 64))
			p.free(m)
		}, nil},
		{"a word of it", func(p *program) {
			p.alloc(m+64, 64)
			p.kernel(1, "a", writes(m+64, 8))
			p.word(1, "write", m+56, true)
			p.Drops(space.Span{Addr: m, Size: 64})
			p.alloc(m, 64)
			p.word(2, "wait", m+56, false)
			p.kernel(2, "b", writes(m+64, 8))
		}, []string{"race-between-streams: a, b"}},
		{"not a word beside it", func(p *program) {
			p.alloc(m+64, 64)
			p.kernel(1, "a", writes(m+72, 8))
			p.word(1, "write", m+64, true)
			p.Drops(space.Span{Addr: m, Size: 64})
			p.word(2, "wait", m+64, false)
			p.kernel(2, "b", writes(m+72, 8))
		}, nil},
		{"allocated again by the runtime", func(p *program) {
			p.kernel(1, "a", writes(m, 64))
			p.alloc(m, 64)
			p.kernel(2, "b", writes(m, 64))
		}, nil},
	} {
		p := newProgram(t)
		p.alloc(m, 64)
		c.run(p)
		p.want(c.name, c.want...)
	}
}

// A write to many pieces leaves one, so the state of memory does not grow with the accesses.
func TestPiecesAreJoined(t *testing.T) {
	p := newProgram(t)
	p.alloc(m, 1<<12)
	for i := range uint64(100) {
		p.kernel(1, "a", writes(m+16*i, 8))
	}
	if n := len(p.memory.accesses.All()); n != 100 {
		t.Errorf("%d pieces", n)
	}
	p.kernel(1, "reader", reads(m+4, 800))
	p.kernel(1, "whole", writes(m, 1600))
	if all := p.memory.accesses.All(); len(all) != 1 || all[0].Span != (space.Span{Addr: m, Size: 1600}) || len(all[0].Value.reads) != 0 {
		t.Errorf("%d pieces after a write to all", len(all))
	}
	for range 3 {
		p.kernel(1, "reader", reads(m, 1600))
	}
	p.kernel(2, "reader", reads(m, 1600))
	if all := p.memory.accesses.All(); len(all) != 1 || len(all[0].Value.reads) != 2 {
		t.Errorf("readers in order are remembered: %+v", all[0].Value.reads)
	}
}

// Only as much freed memory is remembered as fits: the oldest is forgotten first.
func TestFreedMemoryIsForgotten(t *testing.T) {
	p := newProgram(t)
	for i := range uint64(3) {
		p.alloc(m+64*i, 64)
		if p.free(m + 64*i); i == 0 {
			for range 16384 - 2 {
				p.memory.oldest = append(p.memory.oldest, &holding{})
			}
		}
	}
	p.kernel(1, "oldest", reads(m, 8))
	p.kernel(1, "other", reads(m+64, 8))
	p.want("forgotten", "use-after-free: free, other")
	if len(p.memory.oldest) != 16384 {
		t.Errorf("%d freed allocations are remembered", len(p.memory.oldest))
	}
}

// hostBuffer returns host memory, whose bytes the checker reads.
func (p *program) hostBuffer(n int) ([]byte, uint64) {
	b := make([]byte, n)
	var pin runtime.Pinner
	pin.Pin(&b[0])
	p.t.Cleanup(pin.Unpin)
	p.allocHost(space.AddressOf(&b[0]), uint64(n))
	return b, space.AddressOf(&b[0])
}

func row(dst, src, n uint64) *Copy {
	return &Copy{Dst: dst, Src: src, Width: n, Height: 1, DPitch: n, SPitch: n}
}

// copyAsync submits a copy, and returns the function that runs it.
func (p *program) copyAsync(id int32, x *Copy) func() {
	var w *Source
	run := p.submit(id, "copyAsync", func(s *Stream) { p.TaskCopies(s, x, w) })
	w = p.Watch(x)
	return run
}

// A host buffer must keep its bytes until the host knows that the copy from it is done.
func TestHostBuffers(t *testing.T) {
	const (
		reused  = "host-buffer-reused: copyAsync"
		waited  = reused + ", sync"
		written = reused + ", copy"
	)
	for _, c := range []struct {
		name string
		run  func(p *program, b []byte, at uint64)
		want []string
	}{
		{"unchanged", func(p *program, b []byte, at uint64) { p.copyAsync(1, row(m, at, 64))(); p.sync(1) }, nil},
		{"changed after the wait", func(p *program, b []byte, at uint64) { p.copyAsync(1, row(m, at, 64))(); p.sync(1); b[0]++; p.sync(1) }, nil},
		{"changed before the wait", func(p *program, b []byte, at uint64) { p.copyAsync(1, row(m, at, 64))(); b[63]++; p.sync(1) }, []string{waited}},
		{"changed before the copy", func(p *program, b []byte, at uint64) {
			run := p.copyAsync(1, row(m, at, 64))
			b[0]++
			run()
			b[0]--
			p.sync(1)
		}, []string{waited}},
		{"changed beside it", func(p *program, b []byte, at uint64) { p.copyAsync(1, row(m, at, 32))(); b[32]++; p.sync(1) }, nil},
		{"changed until another wait", func(p *program, b []byte, at uint64) {
			p.copyAsync(1, row(m, at, 64))()
			p.kernel(2, "k")
			b[0]++
			p.sync(2)
		}, nil},
		{"changed until the end", func(p *program, b []byte, at uint64) {
			run := p.copyAsync(1, row(m, at, 64))
			b[0]++
			run()
			p.End(false)
		}, []string{reused, "leak: alloc", "leak: allocHost"}},
		{"changed by a host function", func(p *program, b []byte, at uint64) {
			p.copyAsync(1, row(m, at, 64))()
			p.submit(1, "callback", func(s *Stream) { p.HostBegins(s); b[0]++; p.HostReturns(s) })()
			p.sync(1)
		}, nil},
		{"changed by a blocking call", func(p *program, b []byte, at uint64) {
			p.copyAsync(1, row(m, at, 64))()
			p.touch("copy", at+8, 1, space.Write)
			b[8]++
			p.sync(1)
		}, []string{written}},
		{"changed by a blocking call before the copy", func(p *program, b []byte, at uint64) {
			run := p.copyAsync(1, row(m, at, 64))
			p.touch("copy", at, 1, space.Write)
			run()
			p.sync(1)
		}, []string{written}},
		{"read by a blocking call", func(p *program, b []byte, at uint64) {
			p.copyAsync(1, row(at, m, 64))()
			p.touch("copy", at, 1, space.Read)
		}, []string{"missing-synchronization: copyAsync, copy"}},
		{"written by a task", func(p *program, b []byte, at uint64) {
			p.copyAsync(1, row(m, at, 64))()
			p.kernel(1, "k", writes(at+63, 1))
			b[63]++
			p.sync(1)
		}, nil},
		{"written by a task beside it", func(p *program, b []byte, at uint64) {
			p.copyAsync(1, row(m, at, 60))()
			p.kernel(1, "k", writes(at+60, 4))
			b[0]++
			p.sync(1)
		}, []string{waited}},
		{"written by a task before the call", func(p *program, b []byte, at uint64) {
			p.kernel(1, "k", writes(at+63, 1))
			run := p.copyAsync(1, row(m, at, 64))
			b[63]++
			run()
			p.sync(1)
		}, nil},
		{"written by a task that is done", func(p *program, b []byte, at uint64) {
			p.kernel(1, "k", writes(at, 64))
			p.sync(1)
			run := p.copyAsync(1, row(m, at, 64))
			b[63]++
			run()
			p.sync(1)
		}, []string{waited}},
		{"filled before the copy begins, after an event of the host", func(p *program, b []byte, at uint64) {
			var v Vector
			run := p.copyAsync(1, row(m, at, 64))
			b[0]++
			p.submit(2, "host", func(s *Stream) { p.HostReturns(s); p.Release(s, &v) })()
			p.wait(1, &v)
			run()
			p.sync(1)
		}, nil},
		{"pageable", func(p *program, b []byte, at uint64) {
			p.places[at] = Place{Device: -1}
			p.copyAsync(1, row(m, at, 64))()
			b[0]++
			p.sync(1)
		}, nil},
		{"staged", func(p *program, b []byte, at uint64) {
			x := row(m, at, 64)
			x.Staged = true
			p.copyAsync(1, x)()
			b[0]++
			p.sync(1)
			p.touch("copy", at, 8, space.Write)
		}, nil},
		{"freed", func(p *program, b []byte, at uint64) { p.copyAsync(1, row(m, at, 64))(); b[0]++; p.free(at) },
			[]string{"freed-in-flight: copyAsync, free", "host-buffer-reused: copyAsync, free"}},
		{"two rows", func(p *program, b []byte, at uint64) {
			p.copyAsync(1, &Copy{Dst: m, Src: at, Width: 8, Height: 2, DPitch: 16, SPitch: 32})()
			b[8]++ // between them
			p.sync(1)
		}, nil},
		{"the second row", func(p *program, b []byte, at uint64) {
			p.copyAsync(1, &Copy{Dst: m, Src: at, Width: 8, Height: 2, DPitch: 16, SPitch: 32})()
			b[39]++
			p.sync(1)
		}, []string{waited}},
		{"of memory that can't be read", func(p *program, b []byte, at uint64) {
			page, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				t.Fatal(err)
			}
			run := p.copyAsync(1, row(m, space.AddressOf(&page[0]), 8))
			if err := unix.Mprotect(page, unix.PROT_READ); err != nil {
				t.Fatal(err)
			}
			run()
			p.sync(1)
		}, nil},
	} {
		p := newProgram(t)
		p.alloc(m, 1<<20)
		b, at := p.hostBuffer(64)
		c.run(p, b, at)
		p.want(c.name, c.want...)
		if f := p.Findings(); c.name == "the second row" && f[0].Parts[0].Does != fmt.Sprintf("reads 16 bytes at %#x", at) {
			t.Error(f[0].Parts[0].Does)
		}
	}
}

// When many copies are not waited for, the older half is forgotten.
func TestWatchedBuffersAreForgotten(t *testing.T) {
	p := newProgram(t)
	p.alloc(m, 64)
	b, at := p.hostBuffer(8)
	for range maxSources {
		p.copyAsync(1, row(m, at, 8))()
	}
	if len(p.sources) != maxSources {
		t.Errorf("%d copies are watched", len(p.sources))
	}
	p.copyAsync(1, row(m, at, 8))()
	if len(p.sources) != maxSources/2+1 {
		t.Errorf("%d copies are watched after one more", len(p.sources))
	}
	b[0]++
	p.sync(1)
	if f := p.Findings(); len(f) != 1 || f[0].Count != maxSources/2+1 || len(p.sources) != 0 {
		t.Errorf("%+v; %d copies are left", f, len(p.sources))
	}
}

// A copy touches its rows, and no byte between them.
func TestRowsOfCopies(t *testing.T) {
	x := &Copy{Dst: m, Src: m + 1<<16, Width: 8, Height: 3, DPitch: 16, SPitch: 32}
	for _, c := range []struct {
		at    uint64
		write bool
		races bool
	}{
		{m, false, true}, {m + 7, false, true}, {m + 8, true, false}, {m + 15, true, false}, {m + 16, false, true}, {m + 39, true, true}, {m + 40, true, false},
		{m + 1<<16, true, true}, {m + 1<<16, false, false}, {m + 1<<16 + 8, true, false}, {m + 1<<16 + 64 + 7, true, true}, {m + 1<<16 + 64 + 8, true, false},
	} {
		for _, blocking := range []bool{false, true} {
			p := newProgram(t)
			p.alloc(m, 1<<20)
			touch := reads(c.at, 1)
			if c.write {
				touch = writes(c.at, 1)
			}
			var want []string
			if blocking {
				k := p.submit(1, "k", func(s *Stream) { p.KernelTouches(s, []space.Extent{touch}) })
				p.call("copy", func() { p.HostCopies(&p.main, x) })
				if k(); c.races {
					want = []string{"missing-synchronization: k, copy"}
				}
			} else {
				p.copyAsync(1, x)()
				if p.kernel(2, "k", touch); c.races {
					want = []string{"race-between-streams: copyAsync, k"}
				}
			}
			p.want(fmt.Sprintf("%+v, blocking %v", c, blocking), want...)
		}
	}
	for rows, want := range map[uint64]int{0: 0, maxRows: 2 * maxRows, maxRows + 1: 0} {
		n := 0
		(&Copy{Height: rows, Width: 1}).rows(func(space.Span, uint32) { n++ })
		if n != want {
			t.Errorf("%d rows have %d accesses, want %d", rows, n, want)
		}
	}
	if got := x.outs(); len(got) != 1 || got[0] != (space.Span{Addr: m, Size: 40}) {
		t.Errorf("written: %v", got)
	}
	if got := (&Copy{Dst: m}).outs(); got != nil {
		t.Errorf("a copy of no rows writes %v", got)
	}
}

// What was written from memory in a race may be wrong, and the memory itself is until it is freed.
func TestRacesTaint(t *testing.T) {
	p := newProgram(t)
	p.alloc(m, 64)
	p.alloc(m+64, 64)
	out := space.Span{Addr: m + 64, Size: 16}
	p.kernel(1, "a", reads(m, 8), writes(out.Addr, out.Size), writes(m+100, 0))
	p.kernel(2, "b", writes(m+4, 8))
	if !slices.Equal(p.tainted, []space.Span{out}) {
		t.Errorf("tainted: %+v", p.tainted)
	}
	for at, want := range map[uint64]bool{m: false, m + 3: false, m + 4: true, m + 7: true, m + 8: false} {
		if got := p.Racy(space.Span{Addr: at, Size: 1}); got != want {
			t.Errorf("byte %d is racy: %v", at-m, got)
		}
	}
	if !p.Racy(space.Span{Addr: m, Size: 5}) || p.Racy(space.Span{Addr: m, Size: 4}) {
		t.Error("a range is racy if a byte of it is")
	}
	// Races that touch are one range. A part that is freed is not racy any more, its neighbours are.
	p.kernel(3, "c", writes(m, 12))
	p.Drops(space.Span{Addr: m + 2, Size: 4})
	for at, want := range map[uint64]bool{m: true, m + 1: true, m + 2: false, m + 5: false, m + 6: true, m + 11: true, m + 12: false} {
		if got := p.Racy(space.Span{Addr: at, Size: 1}); got != want {
			t.Errorf("byte %d is racy after a part was freed: %v", at-m, got)
		}
	}
	// A race in a part of a racy range leaves the range racy.
	p = newProgram(t)
	p.alloc(m, 64)
	for i, x := range []space.Extent{writes(m, 12), writes(m+4, 4)} {
		p.kernel(int32(2*i+1), "a", x)
		p.kernel(int32(2*i+2), "b", x)
		p.sync(int32(2*i + 1))
		p.sync(int32(2*i + 2))
	}
	if !p.Racy(space.Span{Addr: m, Size: 1}) || !p.Racy(space.Span{Addr: m + 11, Size: 1}) {
		t.Error("a part of a race is forgotten")
	}
	// Copies write what they read.
	p = newProgram(t)
	p.alloc(m, 256)
	p.copyAsync(1, row(m+64, m, 8))()
	p.kernel(2, "a", writes(m, 8))
	k := p.submit(2, "b", func(s *Stream) { p.TaskTouches(s, m+8, 8, space.Write) })
	p.call("copy", func() { p.HostCopies(&p.main, row(m+128, m+8, 8)) })
	k()
	if !slices.Equal(p.tainted, []space.Span{{Addr: m + 64, Size: 8}, {Addr: m + 128, Size: 8}}) {
		t.Errorf("tainted by copies: %+v", p.tainted)
	}
	var none *Checker
	if none.Racy(out) {
		t.Error("without strict mode memory is racy")
	}
}

// A program that frees and destroys all has no findings at its end. What it leaves is found, in the order of the calls.
func TestLeaksAreListedInCallOrder(t *testing.T) {
	create, destroy := acl.Model.Lookup("aclrtCreateStream"), acl.Model.Lookup("aclrtDestroyStream")
	p := newProgram(t)
	made := func(h uint64, result uint64) {
		outer := p.Enter(&p.main, "create")
		p.Leave(&p.main, create, []uint64{space.AddressOf(&h)}, result, outer)
	}
	ended := func(h uint64) {
		outer := p.Enter(&p.main, "destroy")
		p.Leave(&p.main, destroy, []uint64{h}, 0, outer)
	}
	streams := []uint64{space.NewHandle(space.KindStream, 0, 1), space.NewHandle(space.KindStream, 0, 2), space.NewHandle(space.KindStream, 0, 3), space.NewHandle(space.KindStream, 0, 4), space.NewHandle(space.KindFunction, 0, 1)}
	p.call("init", func() { p.Initialized(&p.main) })
	made(streams[0], 0)
	ended(streams[0])
	made(streams[1], 1) // failed
	p.alloc(m, 64)
	made(streams[2], 0)
	made(streams[2], 0) // found again
	made(streams[3], 0)
	made(streams[4], 0) // needs no end
	made(0x1234, 0)     // no handle
	p.dead[streams[3]] = true
	p.alloc(m+64, 8)
	p.free(m + 64)
	p.Gets(&p.main, m+128, 8, ConditionWord)
	p.call("finalize", func() { p.Finalized(&p.main) })
	p.want("leaks", "leak: alloc, finalize", "leak: create, finalize")
	f := p.Findings()
	if got, want := f[0].Parts[0].Does, fmt.Sprintf("allocates device memory of 64 bytes at %#x that is not freed before aclFinalize", uint64(m)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := f[1].Parts[0].Does, fmt.Sprintf("creates a stream, %#x, that is not released before aclFinalize", streams[2]); got != want || f[1].Count != 1 || f[1].Parts[0].Call.InThread != 5 {
		t.Errorf("%q, want %q", got, want)
	}
	p.End(true) // all is reported once
	if got := len(p.Findings()); got != 2 {
		t.Errorf("%d findings at the end", got)
	}
	p = newProgram(t)
	p.alloc(m, 1)
	p.End(true)
	p.want("at the end", "leak: alloc")
	if got := p.Findings()[0].Parts[0].Does; !strings.HasSuffix(got, "of 1 byte at 0x124000000000 that is not freed before the end of the process") {
		t.Error(got)
	}
	p = newProgram(t)
	p.Close()
	p.alloc(m, 1)
	p.End(true)
	p.want("closed")
}

// aclInit and aclFinalize belong together.
func TestInitAndFinalizeBelongTogether(t *testing.T) {
	p := newProgram(t)
	p.call("init", func() { p.Initialized(&p.main) })
	p.End(false) // the program may not end the runtime at exit
	p.want("initialized")
	p.End(true)
	p.want("not finalized", "unbalanced-init: init")
	p = newProgram(t)
	p.call("finalize", func() { p.NotBalanced(&p.main) })
	p.want("never initialized", "unbalanced-init: finalize")
	p = newProgram(t)
	p.call("init", func() { p.Initialized(&p.main) })
	p.call("finalize", func() { p.Finalized(&p.main) })
	p.call("again", func() { p.NotBalanced(&p.main) })
	p.End(true)
	p.want("finalized twice", "unbalanced-init: finalize, again")
}

// A device that is reset must have no live memory, unless a task failed on it.
func TestResetDevice(t *testing.T) {
	all := []space.Span{{Addr: m, Size: 64}, {Addr: m + 64, Size: 64}}
	p := newProgram(t)
	p.alloc(m, 64)
	p.kernel(1, "a", writes(m, 8))
	p.AllGone(0, all, space.Span{})
	p.want("ended", "leak: alloc")
	p.alloc(m+64, 64)
	p.reset()
	p.AllGone(0, all, space.Span{Addr: m, Size: 1 << 10})
	p.want("reset", "leak: alloc", "leak: alloc, reset")
	if got, want := p.Findings()[1].Parts[0].Does, fmt.Sprintf("allocates device memory of 64 bytes at %#x that is not freed before the device is reset", uint64(m+64)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.alloc(m, 64)
	p.kernel(2, "b", writes(m, 8)) // nothing is left of the first kernel
	p.Failed(p.stream(2))
	p.AllGone(1, nil, space.Span{}) // another device
	p.AllGone(0, all, space.Span{Addr: m, Size: 1 << 10})
	p.alloc(m, 64)
	p.reset()
	p.AllGone(0, all, space.Span{})
	if f := p.Findings(); len(f) != 2 || f[1].Count != 2 {
		t.Errorf("%d findings, %+v", len(f), f)
	}
}

// A stream of one device does not copy between memory of another one.
func TestWrongDevice(t *testing.T) {
	for _, c := range []struct {
		dst, src int32
		wrong    string
	}{{0, 0, ""}, {0, 1, ""}, {1, 0, ""}, {-1, 0, ""}, {0, -1, ""}, {-1, -1, ""}, {1, 1, "1"}, {1, -1, "1"}, {-1, 2, "2"}, {2, 1, "1"}} {
		p := newProgram(t)
		p.alloc(m, 64)
		p.alloc(m+64, 64)
		p.places[m], p.places[m+64] = Place{Device: c.dst}, Place{Device: c.src}
		p.copyAsync(5, row(m, m+64, 8))()
		f := p.Findings()
		if (len(f) == 0) != (c.wrong == "") {
			t.Errorf("%+v: %d findings", c, len(f))
			continue
		}
		if c.wrong == "" {
			continue
		}
		at := m + 64
		if c.src < 0 {
			at = m
		}
		want := []string{fmt.Sprintf("copies 8 bytes from %#x to %#x, memory of device %s, by a stream of device 0", m+64, m, c.wrong), fmt.Sprintf("allocates device memory of 64 bytes at %#x", at)}
		if f[0].Kind != WrongDevice || len(f[0].Parts) != 2 || !(f[0].Parts[1].Does == want[0] && f[0].Parts[0].Does == want[1]) {
			t.Errorf("%+v: %+v, want %q", c, f[0].Parts, want)
		}
	}
}

// Device 0 is a device as the others are.
func TestStreamOfAnotherDevice(t *testing.T) {
	for _, c := range []struct {
		dst, src int32
		wrong    bool
	}{{0, 0, true}, {0, -1, true}, {-1, 0, true}, {0, 1, false}, {1, -1, false}} {
		p := newProgram(t)
		p.alloc(m, 64)
		p.alloc(m+64, 64)
		p.places[m], p.places[m+64], p.streams[5] = Place{Device: c.dst}, Place{Device: c.src}, &Stream{ID: 5, Device: 1}
		p.copyAsync(5, row(m, m+64, 8))()
		if f := p.Findings(); (len(f) > 0) != c.wrong {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// Findings about one call name the call that made its object, if there is one.
func TestSingleCalls(t *testing.T) {
	p := newProgram(t)
	h := space.NewHandle(space.KindStream, 0, 1)
	p.call("launch", func() { p.Single(&p.main, BlockDim, p.stream(3), "kernel", h, "is made", "launches") })
	outer := p.Enter(&p.main, "create")
	p.Leave(&p.main, acl.Model.Lookup("aclrtCreateStream"), []uint64{space.AddressOf(&h)}, 0, outer)
	p.call("launch", func() { p.Single(&p.main, WrongDevice, p.stream(3), "kernel", h, "is made", "launches") })
	p.Single(&p.main, BlockDim, p.stream(3), "", 0, "is made", "launches")
	p.call("copy", func() { p.Pageable(&p.main, p.stream(3), &Copy{Dst: 16, Src: 32, Width: 4, Height: 2}, nil) })
	p.call("copy", func() {
		p.Pageable(&p.main, p.stream(3), &Copy{Dst: 16, Src: 32, Width: 4, Height: 2}, &Call{Function: "begin"})
	})
	p.want("single calls", "block-dim: launch (kernel)", "wrong-device: create, launch (kernel)", "block-dim: unnamed", "pageable-copy-in-capture: copy", "pageable-copy-in-capture: begin, copy")
	f := p.Findings()
	if got := f[3].Parts[0].Does; got != "copies 8 bytes from 0x20 to 0x10" {
		t.Error(got)
	}
	if c := f[1].Parts[1].Call; c.Stream != 3 || c.InThread != 2 || c.InProcess != 2 || c.Thread != 7 {
		t.Errorf("%+v", c)
	}
	if c := f[2].Parts[0].Call; c.InThread != 3 || c.InProcess != 3 {
		t.Errorf("a call without a name is %+v", c)
	}
}

// Strict mode that is off checks nothing.
func TestNoChecker(t *testing.T) {
	var c *Checker
	s, th := &Stream{}, &Thread{}
	var v Vector
	c.Begin(s, nil, "")
	c.BeginLane(s, s)
	c.EndLane(s, s)
	c.Done(th, s)
	c.Ended(s)
	c.Release(s, &v)
	c.Acquire(s, &v)
	c.Knows(th, &v)
	c.ReleaseOthers(s)
	c.AcquireOthers(s)
	c.AcquireOthers(nil)
	c.HostBegins(s)
	c.HostReturns(s)
	c.TaskTouches(s, m, 8, space.Write)
	c.HostTouches(th, m, 8, space.Write)
	c.HostCopies(th, row(m, m, 1))
	c.TaskCopies(s, row(m, m, 1), nil)
	c.KernelTouches(s, []space.Extent{writes(m, 8)})
	c.TaskWord(s, m, true)
	c.Gets(th, m, 8, DeviceMemory)
	c.Gone(th, m, DeviceMemory)
	c.Drops(space.Span{})
	c.TaskFrees(s, m)
	c.Resets(th)
	c.Failed(s)
	c.AllGone(0, nil, space.Span{})
	c.Initialized(th)
	c.Finalized(th)
	c.NotBalanced(th)
	c.Single(th, Leak, s, "", 0, "", "")
	c.Pageable(th, s, row(m, m, 1), nil)
	c.End(true)
	c.Close()
	if c.Watch(row(m, m, 1)) != nil || c.Findings() != nil || v != nil || s.actor != nil {
		t.Error("strict mode is on")
	}
}

// step is an access, or nothing, in a random program. Its order is that of the calls and of the tasks of each stream.
type step struct {
	from   []int // steps that precede it
	touch  space.Extent
	before map[int]bool // all steps that precede it
}

// The checker agrees with a search for paths between the steps of random programs: each race that it finds is one, and it finds one if there is any.
func TestRandomPrograms(t *testing.T) {
	races := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := newProgram(t)
		p.Gets(&p.main, m, 64, DeviceMemory)
		var steps []step
		names := map[string]int{}
		add := func(touch space.Extent, from ...int) int {
			s := step{slices.DeleteFunc(from, func(i int) bool { return i < 0 }), touch, map[int]bool{}}
			for _, i := range s.from {
				s.before[i] = true
				for k := range steps[i].before {
					s.before[k] = true
				}
			}
			steps = append(steps, s)
			names[fmt.Sprint("step", len(steps)-1)] = len(steps) - 1
			return len(steps) - 1
		}
		host, last := -1, [4]int{-1, -1, -1, -1}
		var events [3]Vector
		recorded := [3]int{-1, -1, -1}
		access := func() space.Extent {
			x := space.Extent{Addr: m + uint64(r.IntN(6)), Size: 1 + uint64(r.IntN(3)), Access: space.Read}
			if r.IntN(3) == 0 {
				x.Access = space.Write
			}
			return x
		}
		for range 4 + r.IntN(24) {
			id, ev := r.IntN(4), r.IntN(3)
			s := p.stream(int32(id))
			name := fmt.Sprint("step", len(steps))
			switch r.IntN(8) {
			case 0, 1, 2:
				x := access()
				last[id] = add(x, host, last[id])
				p.kernel(int32(id), name, x)
			case 3:
				last[id] = add(space.Extent{}, host, last[id])
				recorded[ev], events[ev] = last[id], nil
				p.record(int32(id), &events[ev])
			case 4:
				last[id] = add(space.Extent{}, host, last[id], recorded[ev])
				p.wait(int32(id), &events[ev])
			case 5:
				host = add(space.Extent{}, host, last[id])
				p.call(name, func() { p.Done(&p.main, s) })
			case 6:
				x := access()
				host = add(x, host)
				p.touch(name, x.Addr, x.Size, x.Access)
			case 7:
				host = add(space.Extent{}, host, recorded[ev])
				p.call(name, func() { p.Knows(&p.main, &events[ev]) })
			}
		}
		conflict := func(a, b int) bool {
			x, y := steps[a].touch, steps[b].touch
			return x.Addr < y.Addr+y.Size && y.Addr < x.Addr+x.Size && (x.Access|y.Access)&space.Write != 0 && !steps[max(a, b)].before[min(a, b)]
		}
		found := p.Findings()
		for _, f := range found {
			a, b := names[f.Parts[0].Call.Function], names[f.Parts[1].Call.Function]
			if !conflict(a, b) {
				t.Fatalf("seed %d: %s is no race", seed, f.summary())
			}
		}
		any := false
		for b := range steps {
			for a := range b {
				any = any || conflict(a, b)
			}
		}
		if any != (len(found) > 0) {
			t.Fatalf("seed %d: races: %v, found %q", seed, any, p.all())
		}
		if any {
			races++
		}
	}
	if races < 30 || races > 270 {
		t.Errorf("%d of 300 programs have races", races)
	}
}

// A report names calls, memory and remedies. Equal findings are counted.
func TestReportNamesCallsAndRemedies(t *testing.T) {
	p := newProgram(t)
	p.alloc(m, 64)
	var k *Task
	if got := (&Call{Function: "f"}).String(); got != "f on stream 0 (call 0 of thread 0, call 0 of the process)" {
		t.Error(got)
	}
	s := p.stream(3)
	for range 2 {
		p.call("launch", func() { k = p.Submitted(&p.main, s, "add") })
		p.Begin(s, k, "")
		p.KernelTouches(s, []space.Extent{writes(m, 8)})
		p.touch("copy", m, 8, space.Read)
	}
	p.touch("other", m, 1, space.Read)
	f := p.Findings()
	want := `==42== aclsim: missing-synchronization: the host uses memory that a task may still use
==42==   launch of kernel add on stream 3 (call 1 of thread 7, call 1 of the process)
==42==       writes 8 bytes at 0x124000000000
==42==   copy (call 2 of thread 7, call 2 of the process)
==42==       reads 8 bytes at 0x124000000000
==42==   device memory of 64 bytes at 0x124000000000, by alloc (call 0 of thread 7, call 0 of the process)
==42==   Meaning: ` + advices[MissingSync].means + `
==42==   Remedy: ` + advices[MissingSync].remedy + "\n"
	if got := f[0].Text(42, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	coloured := f[0].Text(42, true)
	if !strings.HasPrefix(coloured, "==42== "+boldRed+"aclsim: missing-synchronization"+noColour+": "+bold) || strings.Count(coloured, noColour) != 2 {
		t.Errorf("coloured: %q", coloured)
	}
	want = `==42==   2 times: missing-synchronization: launch (add), copy
==42== aclsim: 2 findings, 3 times (missing-synchronization 2)
`
	if got := Summary(f, 42); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Summary(f[1:], 42); got != "==42== aclsim: 1 finding (missing-synchronization 1)\n" {
		t.Error(got)
	}
	if got := Summary(nil, 42); got != "==42== aclsim: strict mode: no findings\n" {
		t.Error(got)
	}
	// A task of a graph names the call that runs it.
	lane := s.Part()
	p.BeginLane(s, &lane)
	p.call("node", func() { k = p.Submitted(&p.main, s, "") })
	p.Begin(&lane, k, "")
	if got := lane.actor.task.call.String(); got != "node on stream 3 (call 6 of thread 7, call 6 of the process), run by launch of kernel add on stream 3 (call 3 of thread 7, call 3 of the process)" {
		t.Error(got)
	}
	if k.call.via != nil {
		t.Error("the node's call has changed")
	}
}
