package acl

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// fail stores an error in the thread and returns its code.
func (t *Thread) fail(code acl.Error, format string, a ...any) acl.Error {
	return t.failWith(status.Failed(code, format, a...))
}

func (t *Thread) failWith(f *fail.Failure) acl.Error {
	t.lastError = status.Of(f)
	if f.Code == fail.OutOfMemory && t.sim.opts.Documented {
		t.lastError = acl.ACL_ERROR_RT_DEVICE_OOM
	}
	t.say(f.Text)
	return t.lastError
}

// result returns the code of a failure, which may be nil.
func (t *Thread) result(f *fail.Failure) acl.Error {
	if f == nil {
		return acl.ACL_SUCCESS
	}
	return t.failWith(f)
}

// refuse returns the error for an argument that the device rejects for a reason; nil is success.
func (t *Thread) refuse(err error) acl.Error {
	if err == nil {
		return acl.ACL_SUCCESS
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%v", err)
}

// badHandle returns the error for a handle that is not live.
func (t *Thread) badHandle(want space.Kind, h uint64) acl.Error {
	name := cmp.Or(t.argument(h), want.String())
	switch k := space.KindOf(h); {
	case h == 0 && (want == space.KindCounter || want == space.KindGraphTask): // the lower library checks these
		return t.absent("the " + want.String())
	case h == 0:
		return t.null(name)
	case k == want:
		return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "%s %#x was destroyed", name, h)
	case k != 0:
		return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "%s %#x is a handle of kind %s, not %s", name, h, k, want)
	}
	return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "%s %#x is not a handle of kind %s", name, h, want)
}

// argument returns the name of the parameter of the current function with a value, "" if not exactly one has it.
func (t *Thread) argument(value uint64) (name string) {
	f := acl.Model.Func(t.call.fn)
	if f == nil {
		return ""
	}
	for i := range f.Params {
		if p := &f.Params[i]; p.Words == 1 && t.call.words[p.Word] == value {
			if name != "" {
				return ""
			}
			name = p.Name
		}
	}
	return name
}

// invalid rejects an argument that AscendCL itself checks. Errors of the lower library are
// ACL_ERROR_RT_PARAM_INVALID.
func (t *Thread) invalid(format string, a ...any) acl.Error {
	if t.below {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, format, a...)
	}
	return t.fail(acl.ACL_ERROR_INVALID_PARAM, format, a...)
}

// null rejects a null pointer that AscendCL checks; absent, one that the lower library checks.
func (t *Thread) null(what string) acl.Error {
	if mutant.Breaks("null_pointers") {
		return t.absent(what)
	}
	return t.invalid("%s is null", what)
}

func (t *Thread) absent(what string) acl.Error {
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%s is null", what)
}

// find returns the live object with a handle.
func find[T any](t *Thread, of *space.Table[T], h uint64) (*T, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	x := of.Get(h)
	if x == nil {
		return nil, t.badHandle(of.Kind, h)
	}
	return x, acl.ACL_SUCCESS
}

// end ends the live object with a handle and returns it.
func end[T any](t *Thread, of *space.Table[T], h uint64) (*T, acl.Error) {
	x, e := find(t, of, h)
	if e == 0 && of.Remove(h) == nil { // another thread was faster
		e = t.badHandle(of.Kind, h)
	}
	return x, e
}

// withStream looks up an object and a stream.
func withStream[H, O any](t *Thread, find func(H) (O, acl.Error), h H, on acl.Stream) (o O, s *device.Stream, e acl.Error) {
	if o, e = find(h); e == 0 {
		s, e = t.stream(on)
	}
	return o, s, e
}

// put stores a call's result through the parameter with the given name.
func put[T any](t *Thread, name string, to *T, v T) acl.Error {
	if to == nil {
		return t.null(name)
	}
	*to = v
	return acl.ACL_SUCCESS
}

// offer stores a result that the program may leave out.
func offer[T any](to *T, v T) {
	if to != nil {
		*to = v
	}
}

func (t *Thread) PeekAtLastError(level acl.LastErrLevel) acl.Error {
	if level != acl.ACL_RT_THREAD_LEVEL {
		return acl.ACL_ERROR_INVALID_PARAM
	}
	return t.lastError
}

// GetLastError returns and clears the thread's last error.
func (t *Thread) GetLastError(level acl.LastErrLevel) acl.Error {
	e := t.PeekAtLastError(level)
	if level == acl.ACL_RT_THREAD_LEVEL {
		t.lastError = acl.ACL_SUCCESS
	}
	return e
}

// GetRecentErrMsg returns the text of the last error of the thread, or of the process (err_msg_mode); null without a
// new error. The text is valid until the next query.
func (t *Thread) GetRecentErrMsg() acl.Addr {
	text := t.takeMessage()
	if text == "" {
		return 0
	}
	a := t.textBuffer()
	space.PutText(space.Bytes(a, textBufferSize), text)
	return a
}

// messages are error texts of the process. Otherwise each thread has its own.
type messages struct {
	shared atomic.Bool
	mu     sync.Mutex
	last   string
}

// say stores an error text, after the name of the current function.
func (t *Thread) say(text string) {
	if f := acl.Model.Func(t.call.fn); f != nil {
		text = f.Name + ": " + text
	}
	m := &t.sim.messages
	if !m.shared.Load() {
		t.message = text
		return
	}
	m.mu.Lock()
	m.last = text
	m.mu.Unlock()
}

// takeMessage returns and clears the last error text.
func (t *Thread) takeMessage() string {
	text := &t.message
	if m := &t.sim.messages; m.shared.Load() {
		m.mu.Lock()
		defer m.mu.Unlock()
		text = &m.last
	}
	last := *text
	if !mutant.Breaks("message_is_taken") {
		*text = ""
	}
	return last
}
