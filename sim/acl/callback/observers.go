package callback

import (
	"slices"
	"sync"

	"github.com/acltrace/acltrace/api/acl"
)

// Watcher is a named program function for state changes.
type Watcher struct {
	Name      string
	Func, Arg uint64
}

// Watchers are in registration order.
type Watchers []Watcher

// Observers are the program functions that the runtime calls at certain events.
type Observers struct {
	Caller Caller // nil without a program

	sync.Mutex
	Exceptions                  exceptionCallbacks
	OnStream, OnDevice, OnAbort Watchers
	OnInit, OnFinalize          []PhaseCallback
	Config                      Config
}

// Report calls all functions in a list on the current thread. The caller must not hold locks.
func (o *Observers) Report(list *Watchers, args ...uint64) {
	o.Lock()
	all := *list
	o.Unlock()
	for _, w := range all {
		o.Caller.Call(w.Func, slices.Concat(args, []uint64{w.Arg})...)
	}
}

// PhaseCallback is a function for aclInit or aclFinalize.
type PhaseCallback struct {
	Phase acl.RegisterCallbackType
	Callback
}

// Config is the configuration text of aclInit, in permanent memory.
type Config struct{ Addr, Size uint64 }

// exceptionCallbacks are the functions for failed tasks.
type exceptionCallbacks struct {
	Set        uint64   // aclrtSetExceptionInfoCallback
	Registered []uint64 // aclrtExceptionInfoCallbackRegister
}
