package acl

import (
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
	"golang.org/x/sys/unix"
)

const textBufferSize = 4096

// Thread is one thread of the program: its current context, its last error and the text of it. All methods are for
// the thread that it stands for.
type Thread struct {
	device.HostThread
	sim         *Sim
	id          uint64 // as the program knows it
	tid         uint32 // as the system knows it
	current     *device.Context
	captureMode acl.MdlRICaptureMode // the thread's own
	cores       *device.Stream       // whose limits of cores the thread uses
	lastError   acl.Error
	message     string
	buffer      uint64 // of GetRecentErrMsg
	lastTask    uint32
	lastStream  int32
	lastInModel *graphTask // the last task, where it is in a model that is captured or built
	tell        *uint64    // where the caller wants to find the id of a task that a call has made, with Told set
	wish        *uint64    // address of the next allocation, see Wish
	below       bool       // in a function of the lower library, which needs no aclInit
	hasTask     bool
	lists       []*argList // argument lists in the runtime's memory, oldest first
	blocks      []uint64   // host blocks of the lists, for the next ones
}

var _ acl.API = (*Thread)(nil)

// NewThread makes the state of a thread that begins to use the runtime.
func (s *Sim) NewThread() *Thread {
	t := &Thread{sim: s}
	s.Clock.Join(&t.HostThread)
	return t
}

// SetID tells by which number the program knows the thread: that of pthread_self. It is called on the thread itself.
func (t *Thread) SetID(id uint64) {
	t.id, t.tid = id, uint32(unix.Gettid())
	t.Strict.ID = t.tid
}

// Told is set in the word of Tell.
const Told = 1 << 32

// Tell has every call that makes a task store the task's id and Told in a word, until the thread ends: what
// GetThreadLastTaskId answers right after such a call is then known without another. The word is the caller's, who
// clears it before each call. Nothing is stored where the question itself counts: with faults, in strict mode and in
// virtual time.
func (t *Thread) Tell(word *uint64) {
	if _, real := t.sim.Clock.(*device.RealClock); real && t.sim.opts.Faults == nil && t.sim.Strict == nil && !mutant.Enabled {
		t.tell = word
	}
}

// Late has the tasks that the thread submits begin, in real time, as if it had come so many nanoseconds sooner as a
// word says then: whoever plays a program again may be late, and the device need not be. The word is the caller's.
func (t *Thread) Late(word *int64) { t.LateBy = word }

// Own has the calls that the thread makes while a word is not 0 take no host time, in virtual time: they are a recorder's own.
// The word is the caller's.
func (t *Thread) Own(word *int32) { t.Untimed = word }

// Work lets time of the thread pass, in virtual time, that the program needs between two calls.
func (t *Thread) Work(d time.Duration) { t.sim.Clock.Reach(&t.HostThread, t.Time+max(0, d)) }

// Now is the time of a thread since the simulator began; nil stands for the latest of all.
func (s *Sim) Now(t *Thread) time.Duration {
	if t == nil {
		return s.Clock.Now(nil) - device.Uptime
	}
	return s.Clock.Now(&t.HostThread) - device.Uptime
}

// Wish has the next allocation of device memory that the thread makes lie at the address that a word holds then, if that is free, and
// clears the word. 0 is no wish. The word is the caller's.
func (t *Thread) Wish(word *uint64) { t.wish = word }

// made notes the task that the thread has made last.
func (t *Thread) made(id uint32, s *device.Stream, inModel *graphTask) {
	t.lastTask, t.lastStream, t.hasTask, t.lastInModel = id, s.ID, true, inModel
	if t.tell != nil {
		*t.tell = Told | uint64(id)
	}
}

// End gives back what belongs to the thread alone. The thread makes no call after it.
func (t *Thread) End() {
	t.sim.Clock.Leave(&t.HostThread)
	for _, l := range t.lists {
		t.sim.argLists.Remove(l.handle)
		t.sim.text.Put(l.block, argBlockSize)
	}
	for _, b := range t.blocks {
		t.sim.text.Put(b, argBlockSize)
	}
	if t.buffer != 0 {
		t.sim.text.Put(t.buffer, textBufferSize)
	}
	*t = Thread{sim: t.sim, id: t.id, tid: t.tid, HostThread: device.HostThread{Strict: strict.Thread{ID: t.tid}}}
}

func (t *Thread) textBuffer() uint64 {
	if t.buffer == 0 {
		t.buffer = t.sim.text.Get(textBufferSize)
	}
	return t.buffer
}

// ready checks that the runtime is initialized.
func (t *Thread) ready() acl.Error {
	t.sim.Clock.Enter(&t.HostThread)
	if t.sim.life.inits.Load() > 0 || t.below {
		return acl.ACL_SUCCESS
	}
	return t.fail(acl.ACL_ERROR_UNINITIALIZE, "aclInit was not called")
}

// context returns the current context of the thread.
func (t *Thread) context() (*device.Context, acl.Error) {
	if e := t.ready(); e != 0 {
		return nil, e
	}
	c := t.current
	if c == nil && mutant.Breaks("context_of_each_thread") {
		c = t.sim.Devices[0].Primary
	}
	if d := t.sim.life.defaultDevice.Load(); c == nil && d != noDevice {
		if e := t.SetDevice(d); e != 0 {
			return nil, e
		}
		c = t.current
	}
	if c == nil {
		return nil, t.fail(acl.ACL_ERROR_RT_CONTEXT_NULL, "the thread has no current context: call aclrtSetDevice, aclrtCreateContext or aclrtSetCurrentContext first")
	}
	if c.Ended.Load() {
		return nil, t.fail(acl.ACL_ERROR_RT_CONTEXT_NULL, "the current context %#x was destroyed", c.Handle)
	}
	return c, acl.ACL_SUCCESS
}

// Init starts the runtime with a configuration file, which counts at the first call.
func (t *Thread) Init(configPath *byte) acl.Error {
	c, f := readConfiguration(space.GoString(configPath))
	if f != nil {
		return t.failWith(f)
	}
	var text config
	if n := len(c.text); n > 0 && n < space.ArenaChunk {
		text = config{t.sim.text.Add(c.text), uint64(n)}
	}
	if t.sim.life.inits.Add(1) > 1 {
		return t.fail(acl.ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before; the call counts as a reference")
	}
	t.sim.life.ended.Store(false)
	t.sim.messages.shared.Store(c.shared)
	t.sim.life.defaultDevice.Store(c.defaultDevice)
	t.sim.Strict.Initialized(&t.Strict)
	return t.tellInit(text)
}

// Finalize drops all references of Init.
func (t *Thread) Finalize() acl.Error {
	if t.sim.life.inits.Swap(0) == 0 {
		return t.notInitialized()
	}
	t.sim.finish()
	t.sim.Strict.Finalized(&t.Strict)
	return t.tellFinalize()
}

// FinalizeReference drops one reference of Init and tells how many are left.
func (t *Thread) FinalizeReference(refCount *uint64) acl.Error {
	for {
		n := t.sim.life.inits.Load()
		if n == 0 {
			return t.notInitialized()
		}
		if t.sim.life.inits.CompareAndSwap(n, n-1) {
			if refCount != nil {
				*refCount = uint64(n - 1)
			}
			if n == 1 {
				t.sim.finish()
				t.sim.Strict.Finalized(&t.Strict)
				return t.tellFinalize()
			}
			return acl.ACL_SUCCESS
		}
	}
}

func (t *Thread) notInitialized() acl.Error {
	t.sim.Strict.NotBalanced(&t.Strict)
	if t.sim.life.ended.Load() {
		return t.fail(acl.ACL_ERROR_REPEAT_FINALIZE, "aclFinalize was called before")
	}
	return t.fail(acl.ACL_ERROR_UNINITIALIZE, "aclInit was not called")
}

// finish says what the run could not simulate.
func (s *Sim) finish() {
	s.life.ended.Store(true)
	names, n := 0, int64(0)
	for _, c := range s.UnknownLaunches() {
		names++
		n += c
	}
	if n > 0 {
		s.Log("%d launches of %d kernels that no kernel library knows took modelled time and wrote nothing", n, names)
	}
	if copies, bytes := s.UnknownResults(); copies > 0 {
		s.Log("%d copies to the host held %d bytes that depend on them: these are not the results of a device", copies, bytes)
	}
}

// GetVersion answers the version of the interface that is simulated, 1.17.0.
func (t *Thread) GetVersion(major, minor, patch *int32) acl.Error {
	if major == nil || minor == nil || patch == nil {
		return t.null("a version pointer")
	}
	*major, *minor, *patch = 1, 17, 0
	return acl.ACL_SUCCESS
}

// GetSocName answers the name of the SoC whose rules are simulated.
func (t *Thread) GetSocName() acl.Addr { return t.sim.soc }

// GetRunMode answers that the program runs on the host.
func (t *Thread) GetRunMode(runMode *acl.RunMode) acl.Error {
	if runMode == nil {
		return t.null("runMode")
	}
	*runMode = acl.ACL_HOST
	return acl.ACL_SUCCESS
}

// GetThreadLastTaskId returns the id of the last task that the thread put on a stream.
func (t *Thread) GetThreadLastTaskId(taskId *uint32) acl.Error {
	if taskId == nil {
		return t.null("taskId")
	}
	if _, e := t.context(); e != 0 {
		return e
	}
	*taskId = ^uint32(0)
	if t.hasTask {
		*taskId = t.lastTask
	}
	return acl.ACL_SUCCESS
}
