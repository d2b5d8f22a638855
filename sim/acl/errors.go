package acl

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// failed makes a failure with a code of the runtime.
func failed(code acl.Error, format string, a ...any) *fail.Failure {
	return fail.New(fail.Code(code), format, a...)
}

// deviceErrors are the runtime's codes for the device's own.
var deviceErrors = map[fail.Code]acl.Error{
	fail.OutOfMemory: acl.ACL_ERROR_RT_DEVICE_OOM, fail.NoHostMemory: acl.ACL_ERROR_RT_MEMORY_ALLOCATION, fail.BadAddress: acl.ACL_ERROR_RT_SYS_DMA,
	fail.Aborted: acl.ACL_ERROR_RT_STREAM_ABORT, fail.Ended: acl.ACL_ERROR_RT_INVALID_HANDLE, fail.TooMany: acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
	fail.PeerLost: acl.ACL_ERROR_RT_IPC_ERROR, fail.Denied: acl.ACL_ERROR_RT_NO_PERMISSION, fail.Invalid: acl.ACL_ERROR_RT_PARAM_INVALID,
	fail.NoStream: acl.ACL_ERROR_RT_NO_STREAM_RESOURCE,
}

// errorOf returns the runtime's code of a failure.
func errorOf(f *fail.Failure) acl.Error {
	if f.Code < 0 {
		return deviceErrors[f.Code]
	}
	return acl.Error(f.Code)
}

// fail notes an error of a call in the thread's state and returns its code.
func (t *Thread) fail(code acl.Error, format string, a ...any) acl.Error {
	return t.failWith(failed(code, format, a...))
}

func (t *Thread) failWith(f *fail.Failure) acl.Error {
	t.lastError = errorOf(f)
	t.say(f.Text)
	return t.lastError
}

// badHandle is the error of a handle that is not live.
func (t *Thread) badHandle(want space.Kind, h uint64) acl.Error {
	switch k := space.KindOf(h); {
	case h == 0 && (want == space.KindCounter || want == space.KindGraphTask): // these are left to the lower library
		return t.absent("the " + want.String())
	case h == 0:
		return t.null("the " + want.String())
	case k == want:
		return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "%s %#x was destroyed", want, h)
	case k != 0:
		return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "%#x is a %s, not a %s", h, k, want)
	}
	return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "%#x is no %s", h, want)
}

// invalid refuses an argument that AscendCL itself checks. What it leaves to the library below, and what is called there
// at once, has ACL_ERROR_RT_PARAM_INVALID.
func (t *Thread) invalid(format string, a ...any) acl.Error {
	if t.below {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, format, a...)
	}
	return t.fail(acl.ACL_ERROR_INVALID_PARAM, format, a...)
}

// null refuses a null pointer for which AscendCL looks; absent, one that it hands on to the library below.
func (t *Thread) null(what string) acl.Error {
	if mutant.Breaks("null_pointers") {
		return t.absent(what)
	}
	return t.invalid("%s is null", what)
}

func (t *Thread) absent(what string) acl.Error {
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%s is null", what)
}

// PeekAtLastError returns the error of the last failed call of the thread.
func (t *Thread) PeekAtLastError(level acl.LastErrLevel) acl.Error {
	if level != acl.ACL_RT_THREAD_LEVEL {
		return acl.ACL_ERROR_INVALID_PARAM
	}
	return t.lastError
}

// GetLastError returns the error of the last failed call of the thread and forgets it.
func (t *Thread) GetLastError(level acl.LastErrLevel) acl.Error {
	e := t.PeekAtLastError(level)
	if level == acl.ACL_RT_THREAD_LEVEL {
		t.lastError = acl.ACL_SUCCESS
	}
	return e
}

// GetRecentErrMsg returns the text of the last failed call of the thread, or of the process (err_msg_mode), and null
// where there was none since it was last asked. The text stays valid until the thread asks again.
func (t *Thread) GetRecentErrMsg() acl.Addr {
	text := t.takeMessage()
	if text == "" {
		return 0
	}
	a := t.textBuffer()
	space.PutText(space.Bytes(a, textBufferSize), text)
	return a
}
