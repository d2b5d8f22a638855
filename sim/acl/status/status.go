package status

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/fail"
)

// Failed creates a failure with a runtime code.
func Failed(code acl.Error, format string, a ...any) *fail.Failure {
	return fail.New(fail.Code(code), format, a...)
}

// deviceErrors maps the device's codes to runtime codes.
var deviceErrors = map[fail.Code]acl.Error{
	fail.OutOfMemory: acl.ACL_ERROR_RT_MEMORY_ALLOCATION, fail.NoHostMemory: acl.ACL_ERROR_RT_MEMORY_ALLOCATION, fail.BadAddress: acl.ACL_ERROR_RT_SYS_DMA,
	fail.Aborted: acl.ACL_ERROR_RT_STREAM_ABORT, fail.Ended: acl.ACL_ERROR_RT_INVALID_HANDLE, fail.TooMany: acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
	fail.PeerLost: acl.ACL_ERROR_RT_IPC_ERROR, fail.Denied: acl.ACL_ERROR_RT_NO_PERMISSION, fail.Invalid: acl.ACL_ERROR_RT_PARAM_INVALID,
	fail.NoStream: acl.ACL_ERROR_RT_NO_STREAM_RESOURCE,
}

// Of returns the runtime code of a failure.
func Of(f *fail.Failure) acl.Error {
	if f.Code < 0 {
		return deviceErrors[f.Code]
	}
	return acl.Error(f.Code)
}
