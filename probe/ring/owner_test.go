package ring

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
)

// threads is a program that runs testdata/handover.c in a session of a few rings, and the calls that its threads have made and that were
// delivered.
type threads struct {
	t    *testing.T
	s    *Session
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	tids map[int]int // of running and ended threads, by number
	made map[int]int // calls, by thread id
	got  everything
}

// startThreads starts the program in a session with memory for some of the smallest rings.
func startThreads(t *testing.T, rings int) *threads {
	t.Helper()
	return startThreadsWith(t, Buffers{RingBytes: leastRing, MemoryLimit: uint64(rings) * leastRing})
}

func startThreadsWith(t *testing.T, buffers Buffers) *threads {
	t.Helper()
	shim, include, dir := testenv.Built(t, "lib/libacltrace.so"), "-I"+filepath.Join(testenv.Root(t), "api/acl/include"), t.TempDir()
	for _, args := range [][]string{
		{"-DRUNTIME", "-fPIC", "-shared", "-Wl,-soname,libascendcl.so", "-o", filepath.Join(dir, "libascendcl.so")},
		{"-o", filepath.Join(dir, "handover"), "-L" + dir, "-lascendcl", "-pthread"},
	} {
		args = append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", include, "testdata/handover.c"}, args...)
		if b, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("cc %v: %v\n%s", args, err, b)
		}
	}
	s, err := Create(acl.Model, &Options{Buffers: buffers, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.files.keep = true
	p := &threads{t: t, s: s, cmd: exec.Command(filepath.Join(dir, "handover")), tids: map[int]int{}, made: map[int]int{}}
	p.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "LD_PRELOAD="+shim, "ACLTRACE_SESSION="+s.Dir())
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		p.s.Close()
	})
	return p
}

func (p *threads) command(format string, args ...any) int {
	p.t.Helper()
	fmt.Fprintf(p.in, format+"\n", args...)
	tid := 0
	if !p.out.Scan() {
		p.t.Fatalf("the program has ended at "+format, args...)
	}
	fmt.Sscan(p.out.Text(), &tid)
	return tid
}

func (p *threads) start(n int)        { p.tids[n] = p.command("s %d", n) }
func (p *threads) write(n, calls int) { p.made[p.command("w %d %d", n, calls)] += calls }
func (p *threads) end(n int)          { p.command("e %d", n) }
func (p *threads) die(n int)          { p.made[p.command("d %d", n)]++ }

func (p *threads) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *threads) drain() {
	p.t.Helper()
	if _, err := p.s.Drain(&p.got); err != nil {
		p.t.Fatal(err)
	}
}

func (p *threads) finish() {
	p.t.Helper()
	if err := p.s.Finish(&p.got); err != nil {
		p.t.Fatal(err)
	}
}

// takeOver replaces the recorder by another one.
func (p *threads) takeOver() {
	p.t.Helper()
	p.s.Close()
	var err error
	if p.s, err = Open(acl.Model, p.s.Dir(), nil); err != nil {
		p.t.Fatal(err)
	}
	if all := uint64(len(p.got.calls)) + p.lost(-1); p.s.Handed != all {
		p.t.Errorf("the next recorder knows of %d calls, not %d", p.s.Handed, all)
	}
}

// lost returns how many calls of a thread were lost, of all threads if it is -1.
func (p *threads) lost(tid int) (n uint64) {
	for _, g := range p.got.gaps {
		if tid < 0 || g.TID == tid {
			n += g.Calls
		}
	}
	return n
}

// check compares the delivered calls with those that were made. Threads without a ring are not told apart.
func (p *threads) check() {
	p.t.Helper()
	kept, all := map[int][]int{}, 0
	for i := range p.got.calls {
		c := &p.got.calls[i]
		arg := int(int32(c.Words[0]))
		if arg < 0 != (c.End == 0) {
			p.t.Errorf("call %d of thread %d ends at %d", arg, c.TID, c.End)
		}
		if arg < 0 {
			arg = p.made[c.TID] - 1
		}
		if k := kept[c.TID]; len(k) > 0 && arg <= k[len(k)-1] {
			p.t.Fatalf("thread %d: call %d after %d", c.TID, arg, k[len(k)-1])
		}
		kept[c.TID] = append(kept[c.TID], arg)
	}
	for tid, made := range p.made {
		all += made
		if n := len(kept[tid]) + int(p.lost(tid)); n != made && (n != 0 || p.lost(0) == 0) {
			p.t.Errorf("thread %d: %d of %d calls kept, %d lost", tid, len(kept[tid]), made, p.lost(tid))
		}
	}
	if n := len(p.got.calls) + int(p.lost(-1)); n != all {
		p.t.Errorf("%d calls kept and %d lost, of %d", len(p.got.calls), p.lost(-1), all)
	}
	if d := p.s.Damage(); len(d) != 0 {
		p.t.Errorf("damage %+v", d)
	}
}

// touched returns how many bytes of rings the program has touched.
func (p *threads) touched() (n int) {
	p.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)/ring\.\d+$(?:\n.*)*?\nRss: +(\d+) kB`).FindAllSubmatch(b, -1) {
		kib, err := strconv.Atoi(string(m[1]))
		if err != nil {
			p.t.Fatal(err)
		}
		n += kib << 10
	}
	return n
}

// A thread took a fault for each page of its ring, which doubled the cost of its launches until it had written 8 MiB.
func TestRingIsTouchedAhead(t *testing.T) {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	if err := unix.Madvise(page, unix.MADV_POPULATE_WRITE); err != nil {
		t.Skipf("the kernel does not map pages ahead, as before Linux 5.14: %v", err)
	}
	const ring, record = 8 << 20, 64 // a record has at least so many bytes
	p := startThreadsWith(t, Buffers{RingBytes: ring})
	p.start(0)
	p.write(0, 10)
	p.drain()
	looked := func() bool { return p.s.processes.members[0].shared.unfiltered.Load() != 0 }
	for range 1000 {
		if _, err := p.s.Reap(&p.got); err != nil {
			t.Fatal(err)
		}
		if looked() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !looked() {
		t.Fatal("the recorder does not look for filters")
	}
	p.write(0, ring/8/record)
	most := 0
	for range 100 {
		p.write(0, 100)
		p.drain()
		most = max(most, p.touched()-int(p.s.rings.bySlot[0].pos))
	}
	if most < 64<<10 {
		t.Errorf("pages are touched up to %d bytes before the thread", most)
	}
	p.check()
}

// While the recorder did not read, threads that started after others were not recorded, although the ended threads' rings had room.
func TestRingIsHandedOverUnread(t *testing.T) {
	p := startThreads(t, 1)
	const n = 20
	for i := range n {
		p.start(i)
		p.write(i, 10)
		p.end(i)
	}
	p.kill()
	p.finish()
	p.check()
	if len(p.got.calls) != 10*n || p.lost(-1) != 0 || len(p.s.Refused()) != 0 {
		t.Fatalf("%d calls, %d lost, threads without a ring %v", len(p.got.calls), p.lost(-1), p.s.Refused())
	}
	for i := range p.got.calls {
		c := &p.got.calls[i]
		pid := p.cmd.Process.Pid
		if name := p.s.ThreadName(pid, c.TID); c.PID != pid || c.TID != p.tids[i/10] || c.Seq != uint64(i%10) || name != fmt.Sprint("number ", i/10) {
			t.Errorf("call %d: %q, thread %d of process %d, number %d", i, name, c.TID, c.PID, c.Seq)
		}
	}
}

// Payloads and times are in the rings of other threads than their call's. They name calls that were not read yet, by threads that the
// recorder has not seen.
func TestRecordsNameUnreadThreads(t *testing.T) {
	p := startThreads(t, 1)
	for i := range 3 {
		p.start(i)
		p.write(i, 10)
		p.end(i)
	}
	for seq := range uint64(30) {
		th, n, ok, err := p.s.callOf(&p.got, 0, seq)
		if err != nil || !ok || int(th.tid) != p.tids[int(seq/10)] || n != seq%10 {
			t.Errorf("call %d: %d of thread %d, %v %v", seq, n, th.tid, ok, err)
		}
	}
	p.drain()
	p.check()
	if th, n, ok, err := p.s.callOf(&p.got, 0, 15); err != nil || !ok || int(th.tid) != p.tids[1] || n != 5 {
		t.Errorf("after it was read, call 15 is %d of thread %d, %v %v", n, th.tid, ok, err)
	}
	if n := len(p.s.rings.bySlot[0].list); n != 3 {
		t.Errorf("%d owners", n)
	}
}

// The calls that a thread lost at its end are its own, and the next thread's calls are counted from 0. A thread that begins in a full ring
// is recorded once there is room.
func TestFullRingIsHandedOver(t *testing.T) {
	p := startThreads(t, 1)
	p.start(0)
	p.write(0, 3000)
	p.end(0)
	p.start(1)
	p.write(1, 10)
	p.drain()
	p.write(1, 10)
	p.end(1)
	p.finish()
	p.check()
	first, second := p.lost(p.tids[0]), p.lost(p.tids[1])
	if first < 1000 || second != 10 || p.lost(-1) != first+second {
		t.Errorf("lost %d calls of the first thread and %d of the second one: %+v", first, second, p.got.gaps)
	}
	if last := p.got.calls[len(p.got.calls)-1]; last.Seq != 19 {
		t.Errorf("the last call has number %d", last.Seq)
	}
}

// A thread that ended inside a call left a ring that nobody could use, and no later record in it was read.
func TestRingOfAThreadThatDiedInACall(t *testing.T) {
	p := startThreads(t, 1)
	p.start(0)
	p.write(0, 5)
	p.die(0)
	p.start(1)
	p.write(1, 5)
	if calls := p.s.Standing(); len(calls) != 0 {
		t.Errorf("in progress: %+v", calls)
	}
	p.drain()
	if len(p.got.calls) != 11 {
		t.Errorf("%d calls are read while the program lives", len(p.got.calls))
	}
	p.finish()
	p.check()
}

// A thread that ended inside a call that encloses others was still in it for the recorder when another thread had its ring.
func TestRingOfAThreadThatDiedInAnEnclosingCall(t *testing.T) {
	p := startThreads(t, 1)
	p.start(0)
	p.write(0, 1)
	p.end(0)
	p.drain()
	begin := bytes.Clone(p.s.rings.record)
	begin[6] = recBegin
	le.PutUint64(begin[callHeader:], math.MaxUint64)
	p.s.write(begin)
	p.s.rings.bySlot[0].head.seq.Add(1)
	p.made[p.tids[0]]++
	p.drain()
	p.start(1)
	p.write(1, 2)
	if calls := p.s.Standing(); len(calls) != 0 {
		t.Errorf("in progress: %+v", calls)
	}
	p.drain()
	if n := len(p.got.calls); n != 4 {
		t.Errorf("%d calls", n)
	}
	p.check()
}

// Lost calls inside other calls that were reported before the program had a record for them are in no record. They moved the numbers of the
// calls that came after them.
func TestNestedCallsAreReportedEarly(t *testing.T) {
	p := startThreads(t, 1)
	p.start(0)
	p.write(0, 1)
	p.drain()
	p.s.rings.bySlot[0].head.nested.Store(5) // as the shim does
	p.made[p.tids[0]] += 5
	p.finish()
	p.takeOver()
	p.end(0)
	p.start(1)
	p.write(1, 2)
	p.finish()
	p.check()
}

// A process may die between any two stores of a hand-over. Only the claim of the slot can be seen without the new owner's record.
func TestKilledWhileARingIsHandedOver(t *testing.T) {
	for _, seen := range []bool{false, true} {
		p := startThreads(t, 1)
		p.start(0)
		p.write(0, 10)
		p.end(0)
		if seen {
			p.drain()
			p.takeOver()
		}
		h := &p.s.files.ctl.slots[0].holder
		h.Store((h.Load()>>32+1)<<32 | uint64(p.cmd.Process.Pid))
		p.kill()
		p.takeOver()
		p.finish()
		p.check()
		if len(p.got.calls) != 10 {
			t.Errorf("%d calls", len(p.got.calls))
		}
	}
}

// However threads start, end and die, and recorders come and go: each call is delivered once, to its thread, or counted.
func TestEveryCallIsKeptOrCounted(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 41))
			p := startThreads(t, 1+random.IntN(3))
			var live []int
			next := 0
			for range 60 {
				if len(live) == 0 || len(live) < 4 && random.IntN(3) == 0 && next < 64 {
					p.start(next)
					live = append(live, next)
					next++
				}
				i := random.IntN(len(live))
				switch random.IntN(12) {
				case 0, 1, 2:
					p.end(live[i])
					live = slices.Delete(live, i, i+1)
				case 3:
					p.die(live[i])
					live = slices.Delete(live, i, i+1)
				case 4:
					p.drain()
				case 5:
					p.drain()
					p.takeOver()
				case 6:
					p.finish()
					p.takeOver()
				default:
					p.write(live[i], []int{0, 1, 7, 40, 1500}[random.IntN(5)])
				}
			}
			p.kill()
			p.finish()
			p.check()
		})
	}
}

var _ probe.Sink = (*everything)(nil)
