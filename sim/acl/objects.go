package acl

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/strict"
)

// objects are the tables of live objects.
type objects struct {
	contexts   space.Table[device.Context]
	streams    space.Table[device.Stream]
	events     space.Table[graph.Event]
	notifies   space.Table[notify]
	counters   space.Table[counter]
	images     space.Table[kernel.Image] // aclrtBinary
	binaries   space.Table[kernel.Binary]
	functions  space.Table[kernel.Function]
	argLists   space.Table[kernel.ArgList]
	physicals  space.Table[memory.Physical]
	pools      space.Table[memPool]
	allocators space.Table[allocator]
	buffers    space.Table[dataBuffer]
	datasets   space.Table[dataset]
	raised     space.Table[exception]
}

func (o *objects) init() {
	o.contexts.Kind, o.streams.Kind, o.events.Kind = space.KindContext, space.KindStream, space.KindEvent
	o.images.Kind, o.binaries.Kind, o.functions.Kind = space.KindImage, space.KindBinary, space.KindFunction
	o.notifies.Kind, o.counters.Kind, o.physicals.Kind, o.pools.Kind = space.KindNotify, space.KindCounter, space.KindPhysical, space.KindPool
	o.argLists.Kind = space.KindArgs
	o.allocators.Kind, o.buffers.Kind, o.datasets.Kind, o.raised.Kind = space.KindAllocator, space.KindBuffer, space.KindDataset, space.KindException
}

// notify is a signal between streams, also on different devices. A wait clears it.
type notify struct {
	handle uint64
	id     uint32
	dev    *device.Device
	signal device.Signal
}

// counter is a notify with a value (aclrtCntNotify).
type counter struct {
	handle uint64
	id     uint32

	mu    sync.Mutex
	value uint32
	known strict.Vector // strict mode: knowledge of the streams that changed it
	wake  chan struct{} // closed at the next change
}

// dataBuffer is an address with a size, for model functions.
type dataBuffer struct {
	handle uint64
	mu     sync.Mutex
	at     space.Span
}

// dataset is a list of data buffers for model inputs or outputs. The program owns the buffers.
type dataset struct {
	handle uint64
	mu     sync.Mutex
	items  []datasetItem
}

type datasetItem struct {
	buffer acl.DataBuffer
	desc   acl.TensorDesc // 0 if none was set
}

// memPool is memory that streams allocate and free in stream order. The runtime may reuse a freed block for later
// work; the simulator returns it to the device when the free task runs, and only counts.
type memPool struct {
	handle uint64
	dev    *device.Device
	max    uint64 // 0 for no limit

	mu         sync.Mutex
	attrs      map[acl.MemPoolAttr]uint64
	used, high uint64
}

// allocator describes a program's allocator for operators. No operator uses it here: the runtime only stores the
// description.
type allocator struct {
	handle uint64
	mu     sync.Mutex
	parts  allocatorParts
}

// allocatorParts are the object and its functions.
type allocatorParts struct{ object, alloc, free, advise, address uint64 }

// streamAllocator is the allocator of a stream.
type streamAllocator struct {
	desc  uint64
	parts allocatorParts
}

// exception describes a failed task to program callbacks. Its handle is valid while they run.
type exception struct {
	handle               uint64
	device, stream, task uint32
	thread               uint32 // system thread that submitted the task
	failure              *fail.Failure
	fn                   *kernel.Function // for kernels
	args                 space.Span
}

// cannAttributes is the list of aclGetCannAttributeList.
type cannAttributes struct {
	once sync.Once
	list uint64 // address
}

// deviceSettings are program settings and runtime data of a device.
type deviceSettings struct {
	limits  sync.Map    // acl.DeviceLimit → uint64
	lost    atomic.Bool // by a planned fault
	satMode atomic.Int32

	// Under the device's lock.
	usage    usage
	syncAddr uint64 // GetHardwareSyncAddr; valid while syncEnds equals Memory.Ends
	syncEnds uint32
	cores    coreLimit
}

// settings are program settings of a stream.
type settings struct {
	stopOnFailure uint64
	overflow      uint32
	tag           uint32
	cacheOpInfo   uint32
	cores         coreLimit
}

// coreLimit limits the cube and vector cores in use; 0 for all.
type coreLimit [2]uint32

// Cores of the simulated device.
const (
	cubeCores   = 24
	vectorCores = 48
	cpuCores    = 6
	cacheSize   = 192 << 20
)

var allCores = coreLimit{cubeCores, vectorCores}

func (c coreLimit) or(o coreLimit) coreLimit {
	for i := range c {
		if c[i] == 0 {
			c[i] = o[i]
		}
	}
	return c
}

// sysParams is the number of process and context options.
const sysParams = acl.ACL_OPT_ENABLE_KERNEL_EARLY_START + 1

// processSettings are program settings of the process.
type processSettings struct {
	streamConfigs sync.Map      // addresses of stream option sets
	opTimeout     atomic.Int64  // operator timeout; 0 if not set
	waitTimeout   atomic.Uint32 // seconds that a stream waits for an event; 0 for no limit
	mu            sync.Mutex
	options       options
}

// options are option values; the second element is 1 if the option was set.
type options [sysParams][2]int64

// usage is the state of the utilization query.
type usage struct {
	asked time.Duration // device time of the last query
	busy  time.Duration // kernel time until then
}

// maxNotifies is the largest number of notifies on a device.
const maxNotifies = 8192
