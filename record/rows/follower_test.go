package rows

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

// A log is a follower that notes what it is told.
type log struct{ lines []string }

func (l *log) note(text string, a ...any)    { l.lines = append(l.lines, fmt.Sprintf(text, a...)) }
func (l *log) Begin(m *format.Meta)          { l.note("begin %s", m.API) }
func (l *log) Process(p *format.Process)     { l.note("process %d", p.PID) }
func (l *log) Thread(t *format.Thread)       { l.note("thread %d of process %d", t.TID, t.Process) }
func (l *log) Gap(g *format.Gap)             { l.note("gap of %d calls", g.Calls) }
func (l *log) Drained(at int64)              { l.note("drained %d", at) }
func (l *log) End(at int64)                  { l.note("end %d", at) }
func (l *log) Measured(c uint64, a, b int64) { l.note("call %d measured %d..%d", c, a, b) }
func (l *log) Device(p uint32, d *format.ProcessDevice) {
	host := -1
	if d.HostNumber != nil {
		host = *d.HostNumber
	}
	l.note("device %d: host %d, %s %s, %d bytes", d.Number, host, d.UUID, d.PCI, d.MemoryBytes)
}

func (l *log) Call(c *format.Call, timed bool) {
	l.note("call %d %s to %d, %d data, timed %v", c.Index, acl.Model.Func(api.ID(c.Func)).Name, c.End, len(c.Data), timed)
}

func out(param uint8, b ...byte) probe.Piece {
	return probe.Piece{Param: param, Dir: probe.Out, Len: uint64(len(b)), Bytes: b}
}

// A follower gets each call, with the data that its meaning depends on, facts about devices once, and how far the recording is.
func TestFollowerGetsCallsAndFacts(t *testing.T) {
	l := &log{}
	s := newScript(t, Options{Follower: l, Undrained: true})
	s.call(7, "aclrtSetDevice", 0, []uint64{3})
	s.call(7, "aclrtGetMemInfo", 0, []uint64{1, 1, 1}, out(1, 1, 0, 0, 0, 0, 0, 0, 0), out(2, 0, 1))
	s.call(7, "aclrtGetMemInfo", 0, []uint64{0, 1, 1}, out(2, 9))         // of another kind
	s.call(8, "aclrtGetMemInfo", 0, []uint64{1, 1, 1}, out(2, 9))         // of a thread without a device
	s.call(7, "aclrtGetMemInfo", 500, []uint64{1, 1, 1}, out(2, 9))       // failed
	s.call(7, "aclrtGetMemInfo", 0, []uint64{1, 1, 1}, out(2, 0, 1))      // known
	s.call(7, "aclrtGetDeviceInfo", 0, []uint64{2, 301, 1}, out(2, 0, 2)) // of a device that the call names
	s.call(7, "aclrtGetPhyDevIdByLogicDevId", 0, []uint64{3, 1}, out(1, 5, 0, 0, 0))
	uuid := out(1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	s.call(7, "aclrtDeviceGetUuid", 0, []uint64{3, 1}, uuid)
	s.call(7, "aclrtDeviceGetPCIBusId", 0, []uint64{3, 1, 16}, out(1, []byte("0000:c1\x00rest\xff\x00\x00\x00\x00")...))
	s.call(7, "aclrtSetDevice", 0, []uint64{2})
	s.call(7, "aclrtGetMemInfo", 0, []uint64{1, 1, 1}, out(2, 0, 4))
	s.ok(s.Gap(&probe.Gap{From: 1300, To: 1600, Calls: 5}))
	s.at += 2*lag - 1300
	s.call(7, "aclrtSynchronizeDevice", 0, nil)
	s.at += 20
	s.call(7, "aclrtSynchronizeDevice", 0, nil)
	s.Drained(s.at)
	s.End(77)
	want := strings.Split(`begin acl
process 1
thread 7 of process 0
call 0 aclrtSetDevice to 110, 0 data, timed false
call 1 aclrtGetMemInfo to 210, 0 data, timed false
device 3: host -1,  , 256 bytes
call 2 aclrtGetMemInfo to 310, 0 data, timed false
thread 8 of process 0
call 3 aclrtGetMemInfo to 410, 0 data, timed false
call 4 aclrtGetMemInfo to 510, 0 data, timed false
call 5 aclrtGetMemInfo to 610, 0 data, timed false
call 6 aclrtGetDeviceInfo to 710, 0 data, timed false
device 2: host -1,  , 512 bytes
call 7 aclrtGetPhyDevIdByLogicDevId to 810, 0 data, timed false
device 3: host 5,  , 256 bytes
call 8 aclrtDeviceGetUuid to 910, 0 data, timed false
device 3: host 5, 00010203-0405-0607-0809-0a0b0c0d0e0f , 256 bytes
call 9 aclrtDeviceGetPCIBusId to 1010, 0 data, timed false
device 3: host 5, 00010203-0405-0607-0809-0a0b0c0d0e0f 0000:c1, 256 bytes
call 10 aclrtSetDevice to 1110, 0 data, timed false
call 11 aclrtGetMemInfo to 1210, 0 data, timed false
device 2: host -1,  , 1024 bytes
gap of 5 calls
call 12 aclrtSynchronizeDevice to 40000010, 0 data, timed false
drained 20000010
call 13 aclrtSynchronizeDevice to 40000130, 0 data, timed false
drained 20000120
end 77`, "\n")
	if !slices.Equal(l.lines, want) {
		t.Errorf("got\n%s", strings.Join(l.lines, "\n"))
	}
	devices := s.Processes.rows[0].Devices
	if len(devices) != 2 || devices[0].Number != 2 || devices[1].Number != 3 {
		t.Errorf("%+v", devices)
	}
}

// Tasks are measured whether their times arrive before or after their calls. Times that cannot be are counted.
func TestTimesArriveBeforeOrAfterCalls(t *testing.T) {
	l := &log{}
	s := newScript(t, Options{Follower: l})
	timed := func(tid int) uint64 {
		return s.call(tid, "aclrtMemcpyAsync", 0, []uint64{device, 4, pinned, 4, toDevice, 5}, probe.Piece{Param: probe.TimeParam, Dir: probe.Out})
	}
	measured := func(tid int, seq uint64, from, elapsed int64) {
		s.ok(s.TaskTime(&probe.TaskTime{PID: 1, TID: tid, Seq: seq, Stream: 5, Issued: s.at, Closed: s.at + 1, Seen: s.at + 50_000, From: from, To: from + elapsed/1000*1000, Elapsed: elapsed}))
	}
	a := timed(7)
	measured(7, a, 5000, 2000)
	measured(8, 1, 60_000, 3000)
	s.at += 55_000
	timed(8)
	timed(7)
	b := timed(7)
	measured(7, b, 70_000, -1)
	c := timed(7)
	measured(7, c, 70_000, 99_000)
	s.ok(s.Finish())
	l.lines = slices.DeleteFunc(l.lines, func(line string) bool { return !strings.Contains(line, "measured") })
	got := s.DeviceTime()
	if got.Measured != 2 || got.Unsound != 2 || got.NeverSynchronized != 1 || len(l.lines) != 2 || !strings.HasPrefix(l.lines[0], "call 0 measured") || !strings.HasPrefix(l.lines[1], "call 1 measured") {
		t.Errorf("%+v %q", got, l.lines)
	}
}

// Memory that program and device reach without a call is recorded before and after a call if that was asked for, and counted otherwise.
func TestVisibleMemoryIsRecordedOrCounted(t *testing.T) {
	memory := func(dir probe.Dir, missing probe.Missing, text string) probe.Piece {
		return probe.Piece{Param: probe.MemoryParam, Dir: dir, Missing: missing, Item: 2, Addr: pinned, Len: 4, Bytes: []byte(text)}
	}
	s := newScript(t, Options{Visible: true})
	s.payload(7, 1, 0, memory(probe.In, 0, "into"))
	s.payload(7, 2, 0, memory(probe.In, 0, "also"))
	s.call(7, "aclrtSynchronizeDevice", 0, nil)
	s.payload(7, 1, 0, memory(probe.Out, 0, "from"))
	s.call(7, "aclrtSynchronizeDevice", 500, nil)
	s.payload(7, 1, 0, memory(probe.Out, 0, "late"))
	s.payload(7, 2, 0, memory(probe.Out, probe.OverLimit, ""))
	s.ok(s.Finish())
	s.want(s.Writer(), s.path, `
aclrtSynchronizeDevice@7 100+10
  248.2 dir 0 @15 0x7f0000000000+4: whole none "into"
  248.2 dir 1 @115 0x7f0000000000+4: whole none "from"
aclrtSynchronizeDevice@7 200+10 =500
  248.2 dir 0 @15 0x7f0000000000+4: whole none "also"
  248.2 dir 1 @215 0x7f0000000000+4: missing limit reached ""
`)
	if s.Payloads.Unkept != 4 {
		t.Errorf("%d bytes are not in the trace", s.Payloads.Unkept)
	}
	s = newScript(t, Options{})
	s.call(7, "aclrtHostRegister", 0, []uint64{pinned, 4096, 0, 1}, out(3, 1))
	if s.Payloads.Unkept != 4096 {
		t.Errorf("%d bytes are not in the trace", s.Payloads.Unkept)
	}
}

// Copies of memory that the program freed, or that is on the device, have no payload to wait for.
func TestFreedHostMemoryIsForgotten(t *testing.T) {
	s := newScript(t, Options{})
	s.allocate()
	for addr, want := range map[uint64]bool{pinned: true, pinned + 1<<20 - 1: true, pinned + 1<<20: true, device: false, 0: false, 0x5000: true} {
		if got := s.given.onHost(1, addr); got != want {
			t.Errorf("%#x is on the host: %v", addr, got)
		}
	}
	s.call(7, "aclrtMallocHost", 0, []uint64{1, 4096}, out(0, 0, 0, 0, 0, 0, 0x24, 0x12)) // in the window of the device
	s.call(7, "aclrtMallocHost", 0, []uint64{1, 4096}, probe.Piece{Param: 0, Dir: probe.Out, Len: 8, Bytes: []byte{0, 0, 0, 0, 0x40, 0x12, 0, 0}})
	inside := uint64(0x124000000000)
	if !reflect.DeepEqual([]bool{s.given.onHost(1, inside), s.given.onHost(1, inside+4095), s.given.onHost(1, inside+4096), s.given.onHost(2, inside)}, []bool{true, true, false, false}) {
		t.Errorf("%+v", s.given.byProcess)
	}
	s.call(7, "aclrtFreeHost", 0, []uint64{inside})
	if s.given.onHost(1, inside) || len(s.given.byProcess[1]) != 0 {
		t.Errorf("%+v", s.given.byProcess)
	}
}
