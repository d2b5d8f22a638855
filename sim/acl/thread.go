package acl

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/callback"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
	"golang.org/x/sys/unix"
)

const textBufferSize = 4096

// Thread is one program thread: its current context and its last error. Only that thread may call the methods.
type Thread struct {
	device.HostThread
	sim         *Sim
	id          uint64 // program's thread id
	tid         uint32 // system thread id
	current     *device.Context
	captureMode acl.MdlRICaptureMode // of this thread
	cores       *device.Stream       // stream whose core limits apply
	lastError   acl.Error
	call        call // in progress, for messages
	message     string
	buffer      uint64 // buffer of GetRecentErrMsg
	lastTask    uint32
	lastStream  int32
	lastInModel *graph.GraphTask // last task, if a model is recording it
	taskWord    *uint64          // receives the id of each new task, with TaskReported set
	wish        *uint64          // address of the next allocation, see Wish
	doubt       *uint32          // see Doubt
	below       bool             // inside a function of the lower library, which needs no aclInit
	hasTask     bool
	lists       []*kernel.ArgList // argument lists in runtime memory, oldest first
	blocks      []uint64          // free host blocks for lists
}

// A call is a function with its arguments. The zero value is no call.
type call struct {
	fn    api.ID
	words []uint64
}

var _ acl.API = (*Thread)(nil)

// NewThread creates the state of a thread.
func (s *Sim) NewThread() *Thread {
	t := &Thread{sim: s}
	s.Clock.Join(&t.HostThread)
	return t
}

// SetID sets the program's thread id, as from pthread_self. Call it on the thread itself.
func (t *Thread) SetID(id uint64) {
	t.id, t.tid = id, uint32(unix.Gettid())
	t.Strict.ID = t.tid
}

// TaskReported is set in the word of ReportTasks.
const TaskReported = 1 << 32

// ReportTasks stores the id of each new task, with TaskReported set, in a word of the caller until the thread ends. It saves a call
// to GetThreadLastTaskId. The caller clears the word before each call. With faults, strict mode or virtual time
// nothing is stored, since the query itself counts then.
func (t *Thread) ReportTasks(word *uint64) {
	if _, real := t.sim.Clock.(*device.RealClock); real && t.sim.opts.Faults == nil && t.sim.Strict == nil && !mutant.Enabled {
		t.taskWord = word
	}
}

// Late sets a word with the thread's delay in nanoseconds. In real time its tasks begin earlier by the delay, so that
// a late replay does not delay the device.
func (t *Thread) Late(word *int64) { t.LateBy = word }

// Own sets a word. While the word is not 0, calls take no virtual host time. A recorder uses it for its own calls.
func (t *Thread) Own(word *int32) { t.Untimed = word }

// Work adds virtual time that the program spends between calls.
func (t *Thread) Work(d time.Duration) { t.sim.Clock.Reach(&t.HostThread, t.Time+max(0, d)) }

// Now returns the time of a thread since the start of the simulator; for a nil thread, the latest time.
func (s *Sim) Now(t *Thread) time.Duration {
	if t == nil {
		return s.Clock.Now(nil) - device.Uptime
	}
	return s.Clock.Now(&t.HostThread) - device.Uptime
}

// Wish sets a word with the wanted address of the thread's next device allocation, which clears it. 0 is no wish.
func (t *Thread) Wish(word *uint64) { t.wish = word }

// Doubt sets a word with a reason, as in Sim.Mark, for marks on all that the thread's copies from host memory and its kernels write. 0 is none.
func (t *Thread) Doubt(word *uint32) { t.doubt = word }

// Number sets a word with 1 + the number of the thread's call in a replayed trace, 0 outside a replay. Findings of strict mode have this number.
func (t *Thread) Number(word *uint64) { t.Strict.Number = word }

// doubted returns the present reason, 0 for none.
func (t *Thread) doubted() uint8 {
	if t.doubt == nil {
		return 0
	}
	return uint8(*t.doubt)
}

// made records the thread's last task.
func (t *Thread) made(id uint32, s *device.Stream, inModel *graph.GraphTask) {
	t.lastTask, t.lastStream, t.hasTask, t.lastInModel = id, s.ID, true, inModel
	if t.taskWord != nil {
		*t.taskWord = TaskReported | uint64(id)
	}
}

// End frees the thread's own objects. The thread makes no call after it.
func (t *Thread) End() {
	t.sim.Clock.Leave(&t.HostThread)
	for _, l := range t.lists {
		t.sim.argLists.Remove(l.Handle)
		t.sim.text.Put(l.Block, kernel.ArgBlockSize)
	}
	for _, b := range t.blocks {
		t.sim.text.Put(b, kernel.ArgBlockSize)
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

// ready begins a call. The runtime's functions need no aclInit, unless the answers are those of the documentation.
func (t *Thread) ready() acl.Error {
	t.sim.Clock.Enter(&t.HostThread)
	if !t.sim.opts.Documented || t.below || t.sim.life.inits.Load() > 0 {
		return acl.ACL_SUCCESS
	}
	return t.fail(acl.ACL_ERROR_UNINITIALIZE, "the runtime is not initialized: call aclInit first")
}

// context returns the thread's current context.
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

// Init starts the runtime. Only the first call reads the configuration file.
func (t *Thread) Init(configPath *byte) acl.Error {
	c, f := readConfiguration(space.GoString(configPath))
	if f != nil {
		return t.failWith(f)
	}
	var text callback.Config
	if n := len(c.text); n > 0 && n < space.ArenaChunk {
		text = callback.Config{Addr: t.sim.text.Add(c.text), Size: uint64(n)}
	}
	if t.sim.life.inits.Add(1) > 1 {
		return t.fail(acl.ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called already; this call adds a reference")
	}
	t.sim.life.ended.Store(false)
	t.sim.messages.shared.Store(c.shared)
	t.sim.life.defaultDevice.Store(c.defaultDevice)
	t.sim.Strict.Initialized(&t.Strict)
	return t.reportInit(text)
}

// Finalize drops all references of Init. The first call of a process succeeds without Init, too.
func (t *Thread) Finalize() acl.Error {
	first := !t.sim.life.ended.Load() && !t.sim.opts.Documented
	if t.sim.life.inits.Swap(0) == 0 && !first {
		return t.notInitialized()
	}
	t.sim.life.ended.Store(true)
	t.sim.Summarize()
	t.sim.Strict.Finalized(&t.Strict)
	return t.reportFinalize()
}

// FinalizeReference drops one reference of Init and returns the remaining number.
func (t *Thread) FinalizeReference(refCount *uint64) acl.Error {
	for {
		n := t.sim.life.inits.Load()
		if n == 0 {
			return t.notInitialized()
		}
		if t.sim.life.inits.CompareAndSwap(n, n-1) {
			offer(refCount, uint64(n-1))
			if n == 1 {
				t.sim.life.ended.Store(true)
				t.sim.Summarize()
				t.sim.Strict.Finalized(&t.Strict)
				return t.reportFinalize()
			}
			return acl.ACL_SUCCESS
		}
	}
}

func (t *Thread) notInitialized() acl.Error {
	t.sim.Strict.NotBalanced(&t.Strict)
	if t.sim.life.ended.Load() || !t.sim.opts.Documented {
		return t.fail(acl.ACL_ERROR_REPEAT_FINALIZE, "aclFinalize was called already, or no aclInit before it")
	}
	return t.fail(acl.ACL_ERROR_UNINITIALIZE, "the runtime is not initialized: call aclInit first")
}

// GetVersion returns the version of the interface.
func (t *Thread) GetVersion(major, minor, patch *int32) acl.Error {
	if major == nil || minor == nil || patch == nil {
		return t.null("majorVersion, minorVersion or patchVersion")
	}
	v := numbers(release.Interface)
	*major, *minor, *patch = v[0], v[1], v[2]
	return acl.ACL_SUCCESS
}

// GetSocName returns the name of the simulated SoC.
func (t *Thread) GetSocName() acl.Addr { return t.sim.soc }

// GetRunMode returns that the program runs on the host.
func (t *Thread) GetRunMode(runMode *acl.RunMode) acl.Error {
	return put(t, "runMode", runMode, acl.ACL_HOST)
}

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

// configuration is the used part of aclInit's file. Dumps, profiling and stack sizes have no effect.
type configuration struct {
	text          string
	shared        bool // error messages belong to the process
	defaultDevice int32
}

// readConfiguration reads a file; the path may be empty.
func readConfiguration(path string) (configuration, *fail.Failure) {
	c := configuration{defaultDevice: noDevice}
	if path == "" {
		return c, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return c, status.Failed(acl.ACL_ERROR_INVALID_FILE, "read configuration: %v", err)
	}
	c.text = string(b)
	if strings.TrimSpace(c.text) == "" {
		return c, nil
	}
	var file struct {
		ErrMsgMode    *string `json:"err_msg_mode"`
		DefaultDevice struct {
			ID *string `json:"default_device"`
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return c, status.Failed(acl.ACL_ERROR_PARSE_FILE, "read configuration %s: %v", path, err)
	}
	invalid := func(key, value string) *fail.Failure {
		return status.Failed(acl.ACL_ERROR_INVALID_PARAM, "read configuration %s: invalid %s %q", path, key, value)
	}
	if m := file.ErrMsgMode; m != nil {
		if *m != "0" && *m != "1" {
			return c, invalid("err_msg_mode", *m)
		}
		c.shared = *m == "1"
	}
	if d := file.DefaultDevice.ID; d != nil {
		n, err := strconv.ParseUint(*d, 10, 31)
		if err != nil {
			return c, invalid("default_device", *d)
		}
		c.defaultDevice = int32(n)
	}
	return c, nil
}
