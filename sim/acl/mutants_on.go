//go:build aclsim_break

package acl

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// This build is for the conformance suite only: each rule's program must fail on a simulator that breaks the rule in
// ACLSIM_BREAK. Most rules are broken at a call, by the table breaches. Other rules are broken in the code, by
// mutant.Breaks.

// breach is a function that does something else than it should.
type breach struct {
	function string
	call     func(t *Thread, fn api.ID, words []uint64) (uint64, bool)
}

// everywhere are rules that are broken around every call.
var everywhere = map[string]struct{ before, behind func(t *Thread) }{
	"last_error_of_each_thread": {
		func(t *Thread) { t.lastError = acl.Error(lastOfAll.Load()) },
		func(t *Thread) { lastOfAll.Store(int32(t.lastError)) },
	},
	"message_of_each_thread": {
		func(t *Thread) {
			if m := messageOfAll.Load(); m != nil {
				t.message = *m
			}
		},
		func(t *Thread) { m := t.message; messageOfAll.Store(&m) },
	},
	"message_names_the_kernel": {func(*Thread) {}, func(t *Thread) {
		if t.message != "" {
			t.message = "an error on the device"
		}
	}},
}

var (
	lastOfAll    atomic.Int32
	messageOfAll atomic.Pointer[string]
)

func (t *Thread) dispatch(fn api.ID, words []uint64) (uint64, bool) {
	if b, ok := everywhere[mutant.Rule]; ok {
		b.before(t)
		defer b.behind(t)
	}
	if b, ok := breaches[mutant.Rule]; ok && acl.Model.Func(fn).Name == b.function {
		return b.call(t, fn, words)
	}
	return acl.Call(t, fn, words)
}

// returns changes one result to another.
func returns(function string, is, says acl.Error) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		r, ok := acl.Call(t, fn, words)
		if ok && acl.Error(int32(r)) == is {
			r = uint64(uint32(says))
		}
		return r, ok
	}}
}

// before and behind do something in addition.
func before(function string, do func(t *Thread, words []uint64)) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		do(t, words)
		return acl.Call(t, fn, words)
	}}
}

func behind(function string, do func(t *Thread, words []uint64, e acl.Error)) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		r, ok := acl.Call(t, fn, words)
		do(t, words, acl.Error(int32(r)))
		return r, ok
	}}
}

// skipped does nothing.
func skipped(function string) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) { return 0, true }}
}

// twice does it again.
func twice(function string) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		acl.Call(t, fn, words)
		return acl.Call(t, fn, words)
	}}
}

// second is another breach from the second call on.
func second(b breach) breach {
	var calls atomic.Int32
	return breach{b.function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		if calls.Add(1) < 2 {
			return acl.Call(t, fn, words)
		}
		return b.call(t, fn, words)
	}}
}

// instead calls another function with the same arguments.
func instead(function, other string) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		for i := range acl.Model.Funcs {
			if f := &acl.Model.Funcs[i]; f.Name == other {
				args := make([]uint64, f.Words)
				copy(args, words)
				return acl.Call(t, f.ID, args)
			}
		}
		panic("there is no function " + other)
	}}
}

// waits waits for all streams first.
func waits(function string) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		for _, d := range t.sim.Devices {
			for _, s := range d.Streams {
				if s != nil {
					s.Wait(nil, s.SubmittedTasks(), device.Forever)
				}
			}
		}
		return acl.Call(t, fn, words)
	}}
}

// given replaces an argument.
func given(function string, argument int, value uint64) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		words[argument] = value
		return acl.Call(t, fn, words)
	}}
}

// stores overwrites an output.
func stores(function string, argument, size int, value uint64) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		r, ok := acl.Call(t, fn, words)
		if words[argument] != 0 {
			for i, b := 0, space.Bytes(words[argument], uint64(size)); i < size; i++ {
				b[i] = byte(value >> (8 * i))
			}
		}
		return r, ok
	}}
}

// forgets clears the thread's last error.
func forgets(function string) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		r, ok := acl.Call(t, fn, words)
		t.lastError = acl.ACL_SUCCESS
		return r, ok
	}}
}

// keeps leaves the thread's last error as it was.
func keeps(function string) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		e := t.lastError
		r, ok := acl.Call(t, fn, words)
		t.lastError = e
		return r, ok
	}}
}

// breaches are the rules that are broken at a call.
var breaches = map[string]breach{
	"abort_discards":           instead("aclrtStreamAbort", "aclrtSynchronizeStream"),
	"addresses_are_read_later": given("aclrtMemcpyAsyncWithOffset", 2, 0),
	"align32_has_no_pad":       instead("aclrtMallocAlign32", "aclrtMalloc"),
	"allocation_does_not_wait": waits("aclrtMalloc"),
	"appended_in_order": before("aclrtLaunchKernelWithConfig", func(t *Thread, w []uint64) {
		l, _ := t.argList(acl.ArgsHandle(w[4]))
		words := unsafe.Slice((*uint64)(space.Pointer(l.Block)), l.Size/8)
		slices.Reverse(words)
	}),
	"arguments_of_the_stream_s_device": returns("aclrtLaunchKernel", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"array_of_arguments": before("aclrtLaunchKernelWithArgsArray", func(t *Thread, w []uint64) {
		fn, _ := t.layout(w[0])
		var args []acl.Addr // pass the pointers, not their targets
		for i := range fn.Kernel.Args {
			args = append(args, w[4]+uint64(i)*8)
		}
		w[4] = uint64(uintptr(unsafe.Pointer(&args[0])))
	}),
	"asynchronous_errors_count": keeps("aclrtSynchronizeStream"),
	"attribute_set_last":        second(skipped("aclrtMemPoolSetAttr")),
	"attributes":                skipped("aclrtSetStreamAttribute"),
	"batch_copies_all":          given("aclrtMemcpyBatch", 4, 1),
	"batch_inside_the_device":   returns("aclrtMemcpyBatch", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"batch_on_a_stream":         waits("aclrtMemcpyBatchAsync"),
	"batch_reset":               skipped("aclrtNotifyBatchReset"),
	"batch_without_index":       returns("aclrtMemcpyBatchAsync", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"binary_of_a_kernel":        stores("aclrtFunctionGetBinary", 1, 8, 0),
	"buffer_of_a_placeholder": before("aclrtLaunchKernelWithConfig", func(t *Thread, w []uint64) {
		l, _ := t.argList(acl.ArgsHandle(w[4]))
		clear(l.Bytes()[l.Size:l.Total])
	}),
	"by_tiling_key":                    given("aclrtBinaryGetFunctionByEntry", 1, 7),
	"callback_blocks":                  given("aclrtLaunchCallback", 2, 0),
	"callback_does_not_block":          given("aclrtLaunchCallback", 2, 1),
	"callback_without_thread":          returns("aclrtLaunchCallback", acl.ACL_ERROR_RT_STREAM_NO_CB_REG, acl.ACL_SUCCESS),
	"captured_copy_reads_at_execution": given("aclrtMemcpyAsync", 4, 5),
	"context_of_another_thread":        returns("aclrtSetCurrentContext", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_INVALID_HANDLE),
	"copies_in_order":                  instead("aclrtMemcpyAsync", "aclrtMemcpy"),
	"copy_between_devices":             skipped("aclrtMemcpy"),
	"copy_does_not_wait":               waits("aclrtMemcpy"),
	"copy_there_and_back":              before("aclrtMemcpy", func(_ *Thread, w []uint64) { w[3]-- }),
	"core_limit":                       stores("aclrtGetStreamResLimit", 2, 4, 7),
	"core_limit_of_thread":             skipped("aclrtUseStreamResInCurrentThread"),
	"count_is_cleared":                 skipped("aclrtCntNotifyReset"),
	"counted_records":                  twice("aclrtCntNotifyRecord"),
	"created_with_options":             given("aclrtCreateStreamV2", 1, 0),
	"current_device_follows_context":   stores("aclrtGetDevice", 0, 4, 1),
	"default_context_state":            stores("aclrtGetPrimaryCtxState", 2, 4, 1),
	"default_context_stays":            returns("aclrtDestroyContext", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"default_stream_is_independent":    waits("aclrtLaunchKernelWithHostArgs"),
	"default_timeout":                  stores("aclrtGetOpExecuteTimeout", 0, 4, 28000),
	"descriptor_is_read_later":         second(skipped("aclrtSetMemcpyDesc")),
	"destroy_pending_event":            waits("aclrtDestroyEvent"),
	"destroyed_context":                skipped("aclrtDestroyContext"),
	"device_count":                     stores("aclrtGetDeviceCount", 0, 4, 1),
	"device_out_of_range":              returns("aclrtSetDevice", acl.ACL_ERROR_RT_INVALID_DEVICEID, acl.ACL_SUCCESS),
	"task_in_a_capture":                returns("aclmdlRIAddCondTask", acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, acl.ACL_SUCCESS),
	"end_without_begin":                returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, acl.ACL_SUCCESS),
	"error_of_the_whole":               stores("aclrtMemcpyBatch", 8, 8, 0),
	"event_synchronization_ends":       returns("aclrtSynchronizeEvent", acl.ACL_ERROR_RT_STREAM_ABORT, acl.ACL_SUCCESS),
	"fault_at_synchronization":         returns("aclrtSynchronizeStream", acl.ACL_ERROR_RT_AICORE_EXCEPTION, acl.ACL_SUCCESS),
	"filled_at_once":                   waits("aclrtMemset"),
	"filled_later":                     instead("aclrtMemsetAsync", "aclrtMemset"),
	"filled_with_words":                given("aclrtMemsetD32", 3, 4),
	"finalize_counts_references":       instead("aclFinalizeReference", "aclFinalize"),
	"finalize_drops_all_references":    instead("aclFinalize", "aclFinalizeReference"),
	"finalize_reference_without_count": returns("aclFinalizeReference", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"finalize_twice":                   returns("aclFinalize", acl.ACL_ERROR_REPEAT_FINALIZE, acl.ACL_SUCCESS),
	"finalized_first":                  returns("aclrtLaunchKernelWithConfig", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"flags":                            stores("aclrtStreamGetFlags", 1, 4, 0),
	"free_does_not_wait":               waits("aclrtFree"),
	"free_null":                        returns("aclrtFree", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"free_what_was_allocated":          returns("aclrtFree", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"free_with_sync_waits":             instead("aclrtFreeWithDevSync", "aclrtFree"),
	"function_gets_its_argument":       given("aclrtLaunchHostFunc", 2, 0),
	"grid_of_blocks":                   before("aclrtLaunchSIMTKernelWithArgsArray", func(_ *Thread, w []uint64) { w[1], w[2] = w[1]&(1<<32-1)|1<<32, 1 }),
	"host_aligned":                     behind("aclrtMallocHost", func(_ *Thread, w []uint64, _ acl.Error) { *(*uint64)(space.Pointer(w[0])) += 8 }),
	"host_free_with_sync_waits":        instead("aclrtFreeHostWithDevSync", "aclrtFreeHost"),
	"host_size_0":                      returns("aclrtMallocHost", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"ids":                              stores("aclrtStreamGetId", 1, 4, 5),
	"in_memory_of_the_program":         stores("aclrtKernelArgsGetMemSize", 2, 8, 0),
	"index_of_the_bad_copy":            stores("aclrtMemcpyBatch", 8, 8, 0),
	"init_after_finalize":              skipped("aclFinalize"),
	"init_damaged_configuration":       returns("aclInit", acl.ACL_ERROR_PARSE_FILE, acl.ACL_SUCCESS),
	"init_empty_configuration":         returns("aclInit", acl.ACL_SUCCESS, acl.ACL_ERROR_PARSE_FILE),
	"init_is_optional":                 returns("aclrtSetDevice", acl.ACL_SUCCESS, acl.ACL_ERROR_UNINITIALIZE),
	"init_missing_configuration":       returns("aclInit", acl.ACL_ERROR_INVALID_FILE, acl.ACL_SUCCESS),
	"init_repeated":                    returns("aclInit", acl.ACL_ERROR_REPEAT_INITIALIZE, acl.ACL_SUCCESS),
	"kernel_of_both_cores":             stores("aclrtGetFunctionAttribute", 2, 8, 0),
	"last_error_is_kept":               instead("aclrtGetLastError", "aclrtPeekAtLastError"),
	"last_error_is_overwritten":        keeps("aclrtSetDevice"),
	"last_set_context_counts":          skipped("aclrtSetCurrentContext"),
	"last_task_id":                     stores("aclrtGetThreadLastTaskId", 0, 4, 7),
	"launch_does_not_wait":             waits("aclrtLaunchKernelWithHostArgs"),
	"layout":                           stores("aclrtFunctionGetParamInfo", 2, 8, 0),
	"lazy_binary_has_no_address":       given("aclrtBinaryLoadFromFile", 1, 0),
	"many_wait_for_one":                second(skipped("aclrtStreamWaitEvent")),
	"mapped_before_its_address":        returns("aclrtHostGetDevicePointer", acl.ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, acl.ACL_SUCCESS),
	"memory_at_once":                   stores("aclrtMemPoolMallocAsync", 0, 8, 0),
	"memory_info":                      stores("aclrtGetMemInfo", 1, 8, 1<<35),
	"memory_info_of_missing_kind":      stores("aclrtGetMemInfo", 2, 8, 5),
	"missing_file":                     returns("aclrtBinaryLoadFromFile", acl.ACL_ERROR_RT_FILE_OPEN, acl.ACL_SUCCESS),
	"missing_kernel":                   returns("aclrtBinaryGetFunction", acl.ACL_ERROR_RT_KERNEL_LOOKUP, acl.ACL_SUCCESS),
	"other_contexts_go_on": behind("aclrtCreateContext", func(t *Thread, _ []uint64, _ acl.Error) {
		for _, o := range t.current.Device.Contexts {
			if p := o.Stopped.Load(); p != nil {
				t.current.Stopped.Store(p)
			}
		}
	}),
	"pool_is_full": {"aclrtMemPoolMallocAsync", func(t *Thread, fn api.ID, w []uint64) (uint64, bool) {
		r, ok := acl.Call(t, fn, w)
		if acl.Error(int32(r)) == acl.ACL_ERROR_RT_MEMORY_ALLOCATION {
			r = uint64(uint32(t.Malloc((*acl.Addr)(space.Pointer(w[0])), w[1], 0)))
		}
		return r, ok
	}},
	"mode_of_the_default_stream": {"aclrtSetStreamFailureMode", func(t *Thread, fn api.ID, w []uint64) (uint64, bool) {
		if w[0] == 0 {
			return 0, true
		}
		return acl.Call(t, fn, w)
	}},
	"name":                   stores("aclrtGetFunctionName", 2, 8, 0),
	"no_timeout":             stores("aclrtSetOpExecuteTimeOutV2", 1, 8, 0),
	"not_registered":         returns("aclrtHostUnregister", acl.ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, acl.ACL_SUCCESS),
	"notify_timeout":         skipped("aclrtWaitAndResetNotify"),
	"number_of_notifies":     returns("aclrtCreateNotify", acl.ACL_ERROR_RT_NO_NOTIFY_RESOURCE, acl.ACL_SUCCESS),
	"one_callback_a_call":    twice("aclrtProcessReport"),
	"one_device_a_thread":    returns("aclrtSubscribeReport", acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, acl.ACL_SUCCESS),
	"one_thread_a_stream":    returns("aclrtSubscribeReport", acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, acl.ACL_SUCCESS),
	"operator_timeout":       skipped("aclrtSetOpExecuteTimeOutWithMs"),
	"option_not_set":         returns("aclrtCtxGetSysParamOpt", acl.ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, acl.ACL_SUCCESS),
	"option_of_process":      returns("aclrtGetSysParamOpt", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_SYSPARAMOPT_NOT_SET),
	"pinned_anywhere":        returns("aclrtHostRegisterV2", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"id_of_a_captured_model": returns("aclmdlRIGetId", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_MODEL_CAPTURED),
	"option_of_context":      instead("aclrtCtxSetSysParamOpt", "aclrtSetSysParamOpt"),
	"option_set_last":        given("aclrtCtxSetSysParamOpt", 1, 0),
	"out_of_memory": behind("aclrtMalloc", func(t *Thread, _ []uint64, e acl.Error) {
		if e == acl.ACL_ERROR_RT_MEMORY_ALLOCATION {
			t.current.Device.Memory.Used = t.current.Device.Memory.Limit
		}
	}),
	"outside_needs_a_capture": returns("aclrtRecordEventWithFlag", acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, acl.ACL_SUCCESS),
	"overflow_switch": behind("aclrtSetStreamOverflowSwitch", func(t *Thread, w []uint64, _ acl.Error) {
		t.sim.streams.Each(func(s *device.Stream) { _ = t.SetStreamOverflowSwitch(acl.Stream(s.Handle), uint32(w[1])) })
	}),
	"peek_forgets_nothing":          instead("aclrtPeekAtLastError", "aclrtGetLastError"),
	"peer_of_itself":                returns("aclrtDeviceEnablePeerAccess", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"pinned_copy_does_not_wait":     waits("aclrtMemcpyAsync"),
	"priority":                      stores("aclrtStreamGetPriority", 1, 4, 0),
	"ranges_of_attributes":          given("aclrtMemcpyBatch", 7, 1),
	"reduction":                     given("aclrtReduceAsync", 3, 10),
	"register_whole_pages":          returns("aclrtHostRegisterV2", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"registered_copy_does_not_wait": waits("aclrtMemcpyAsync"),
	"registered_memory_for_kernels": skipped("aclrtHostRegister"),
	"registered_twice":              returns("aclrtHostRegisterV2", acl.ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, acl.ACL_SUCCESS),
	"report_timeout":                returns("aclrtProcessReport", acl.ACL_ERROR_RT_REPORT_TIMEOUT, acl.ACL_SUCCESS),
	"report_without_limit":          returns("aclrtProcessReport", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"reserved_bytes":                returns("aclrtMemcpyBatch", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"reserved_is_null":              returns("aclrtLaunchKernelWithConfig", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"reserved_registrations":        returns("aclrtHostRegisterV2", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"reset_after_failure":           skipped("aclrtResetDeviceForce"),
	"reset_ends_context":            skipped("aclrtResetDevice"),
	"reset_waits":                   instead("aclrtResetDevice", "aclrtResetDeviceForce"),
	"rounded_and_padded":            instead("aclrtMalloc", "aclrtMallocAlign32"),
	"rows":                          given("aclrtMemcpy2d", 1, 16),
	"rows_later":                    waits("aclrtMemcpy2dAsync"),
	"set_device_counts":             instead("aclrtResetDevice", "aclrtResetDeviceForce"),
	"set_device_makes_context":      behind("aclrtSetDevice", func(t *Thread, _ []uint64, _ acl.Error) { t.current = nil }),
	"size_0":                        returns("aclrtMalloc", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"stop_for_good":                 returns("aclrtSetStreamFailureMode", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"stop_on_failure":               skipped("aclrtSetStreamFailureMode"),
	"stop_is_for_the_context":       skipped("aclrtSetStreamFailureMode"),
	"streams_are_independent":       waits("aclrtLaunchKernelWithHostArgs"),
	"streams_for_the_device":        waits("aclrtSynchronizeStream"),
	"success_keeps_the_last_error":  forgets("aclrtMalloc"),
	"synchronization_ends":          returns("aclrtSynchronizeStream", acl.ACL_ERROR_RT_STREAM_ABORT, acl.ACL_SUCCESS),
	"synchronize_device_of_context": waits("aclrtSynchronizeDevice"),
	"synchronize_device_timeout":    returns("aclrtSynchronizeDeviceWithTimeout", acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, acl.ACL_SUCCESS),
	"synchronize_device_waits":      skipped("aclrtSynchronizeDevice"),
	"synchronize_waits_for_no_more": waits("aclrtSynchronizeEventWithTimeout"),
	"synchronize_without_limit":     given("aclrtSynchronizeStreamWithTimeout", 1, 1),
	"task_abort":                    instead("aclrtDeviceTaskAbort", "aclrtSynchronizeDevice"),
	"timeout_in_intervals":          stores("aclrtSetOpExecuteTimeOutV2", 1, 8, 1),
	"timeout_of_all_waits":          skipped("aclrtSetOpWaitTimeout"),
	"unknown_flags":                 returns("aclrtCreateStreamWithConfig", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"unknown_policy":                returns("aclrtMalloc", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"unloaded_kernel":               skipped("aclrtBinaryUnLoad"),
	"unmapped_addresses":            returns("aclrtMemset", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"updated":                       skipped("aclrtKernelArgsParaUpdate"),
	"updated_tasks":                 skipped("aclmdlRICaptureTaskUpdateEnd"),
	"used_memory":                   stores("aclrtMemPoolGetAttr", 2, 8, 0),
	"wait_for_and":                  given("aclrtValueWait", 2, 0),
	"wait_for_equal":                given("aclrtValueWait", 2, 0),
	"wait_for_greater":              given("aclrtValueWait", 2, 1),
	"wait_for_nor":                  given("aclrtValueWait", 2, 2),
	"wait_for_record":               skipped("aclrtWaitAndResetNotify"),
	"wait_timeout":                  given("aclrtStreamWaitEventWithTimeout", 2, 0),
	"requested_address":             given("aclrtReserveMemAddress", 3, 0),
	"where_pointers_lie":            stores("aclrtPointerGetAttributes", 1, 8, 1<<32),
	"words_on_the_host_at_once":     skipped("aclrtMemsetD32Async"),
	"wrapped_binary": behind("aclrtDestroyBinary", func(t *Thread, _ []uint64, _ acl.Error) {
		t.sim.binaries.Each(func(b *kernel.Binary) { t.sim.binaries.Remove(b.Handle) })
	}),
	"write_aligned":                  returns("aclrtValueWrite", acl.ACL_ERROR_RT_ADDR_UNALIGNED, acl.ACL_SUCCESS),
	"write_in_order":                 before("aclrtValueWrite", func(_ *Thread, w []uint64) { *(*uint64)(space.Pointer(w[0])) = w[1] }),
	"alignment_is_reserved":          returns("aclrtReserveMemAddress", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"assigned_in_each_run":           given("aclmdlRICondHandleCreate", 2, 0),
	"async_larger_than_destination":  returns("aclrtMemcpyAsync", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"captured_twice":                 returns("aclmdlRICaptureBegin", acl.ACL_ERROR_RT_STREAM_CAPTURED, acl.ACL_SUCCESS),
	"condition_during_capture":       returns("aclmdlRICondHandleCreate", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"condition_of_the_model":         returns("aclmdlRIAddCondTask", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"copy_of_nothing":                returns("aclrtMemcpy", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"default_stream":                 returns("aclmdlRICaptureBegin", acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, acl.ACL_SUCCESS),
	"destroy_waits":                  instead("aclrtDestroyStream", "aclrtDestroyStreamForce"),
	"elapsed_time":                   stores("aclrtEventElapsedTime", 0, 4, 0),
	"end_on_another_stream":          returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, acl.ACL_SUCCESS),
	"end_on_another_thread":          returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, acl.ACL_SUCCESS),
	"event_from_outside":             returns("aclrtStreamWaitEvent", acl.ACL_ERROR_RT_CAPTURE_DEPENDENCY, acl.ACL_SUCCESS),
	"event_timeout":                  returns("aclrtSynchronizeEventWithTimeout", acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, acl.ACL_SUCCESS),
	"every_block_runs":               given("aclrtLaunchKernelWithHostArgs", 1, 1),
	"ex_event_can_not_be_reset":      returns("aclrtResetEvent", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"ex_event_has_no_old_status":     returns("aclrtQueryEvent", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"ex_event_has_no_wait_status":    returns("aclrtQueryEventWaitStatus", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"fill_larger_than_memory":        returns("aclrtMemset", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"filled_on_the_host":             returns("aclrtMemset", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"kept_between_runs":              given("aclmdlRICondHandleCreate", 2, 1),
	"kernel_of_the_device":           returns("aclrtLaunchKernelWithHostArgs", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"kind_against_pageable_memory":   returns("aclrtMemcpyAsync", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"kind_is_corrected":              returns("aclrtMemcpyAsync", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"larger_than_destination":        returns("aclrtMemcpy", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"never_recorded":                 stores("aclrtQueryEventStatus", 1, 4, uint64(acl.ACL_EVENT_RECORDED_STATUS_NOT_READY)),
	"no_copy_inside_the_host":        returns("aclrtMemcpyAsync", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"number_of_parts":                returns("aclmdlRIAddCondTask", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"one_task_of_a_condition":        returns("aclmdlRIAddCondTask", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"pageable_copy_back":             skipped("aclrtMemcpyAsync"),
	"part_captured_once":             returns("aclmdlRICaptureToModelRIBegin", acl.ACL_ERROR_RT_MODEL_CAPTURED, acl.ACL_SUCCESS),
	"parts_are_captured_first":       returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, acl.ACL_SUCCESS),
	"pending_event":                  stores("aclrtQueryEventStatus", 1, 4, uint64(acl.ACL_EVENT_RECORDED_STATUS_COMPLETE)),
	"pinned_source_is_read_later":    given("aclrtMemcpyAsync", 4, uint64(acl.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)),
	"placeholder_outside":            returns("aclrtLaunchKernelWithHostArgs", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"record_again":                   second(skipped("aclrtRecordEvent")),
	"reserved_flags_of_a_condition":  returns("aclmdlRIAddCondTask", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"reset":                          skipped("aclrtResetEvent"),
	"reversed_events":                returns("aclrtEventElapsedTime", acl.ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, acl.ACL_SUCCESS),
	"row_wider_than_pitch":           returns("aclrtMemcpy2d", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"rows_inside_the_device":         returns("aclrtMemcpy2dAsync", acl.ACL_SUCCESS, acl.ACL_ERROR_INVALID_PARAM),
	"rows_inside_the_host":           returns("aclrtMemcpy2dAsync", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"staged_copy":                    given("aclrtMemcpyAsync", 4, uint64(acl.ACL_MEMCPY_HOST_TO_DEVICE)),
	"stream_that_does_not_come_back": returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_STREAM_UNJOINED, acl.ACL_SUCCESS),
	"stream_waits_for_event":         skipped("aclrtStreamWaitEvent"),
	"synchronize_failed_work":        returns("aclrtSynchronizeEvent", acl.ACL_ERROR_RT_AICORE_EXCEPTION, acl.ACL_SUCCESS),
	"synchronize_waits_for_event":    skipped("aclrtSynchronizeEvent"),
	"time_needs_the_flag":            returns("aclrtEventGetTimestamp", acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, acl.ACL_SUCCESS),
	"time_of_pending_event":          returns("aclrtEventGetTimestamp", acl.ACL_ERROR_RT_EVENT_NOT_COMPLETE, acl.ACL_SUCCESS),
	"timestamp":                      stores("aclrtEventGetTimestamp", 1, 8, 0),
	"too_many_rows":                  returns("aclrtMemcpy2dAsync", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"two_captures":                   returns("aclrtStreamWaitEvent", acl.ACL_ERROR_STREAM_CAPTURE_CONFLICT, acl.ACL_SUCCESS),
	"wait_for_never_recorded":        returns("aclrtStreamWaitEvent", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"wait_needs_the_flag":            returns("aclrtStreamWaitEvent", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"wait_status":                    stores("aclrtQueryEventWaitStatus", 1, 4, uint64(acl.ACL_EVENT_WAIT_STATUS_COMPLETE)),
	"zero_sizes":                     returns("aclrtReserveMemAddress", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"function_on_another_thread": {"aclrtLaunchHostFunc", func(t *Thread, _ api.ID, w []uint64) (uint64, bool) {
		t.sim.opts.Caller.Call(w[1], w[2])
		return 0, true
	}},
	"function_in_order": {"aclrtLaunchHostFunc", func(t *Thread, _ api.ID, w []uint64) (uint64, bool) {
		go t.sim.opts.Caller.CallAside(w[1], w[2])
		return 0, true
	}},
	"copy_after_free":             returns("aclrtSynchronizeStream", acl.ACL_ERROR_RT_SYS_DMA, acl.ACL_SUCCESS),
	"device_of_the_configuration": behind("aclInit", func(t *Thread, _ []uint64, _ acl.Error) { t.sim.life.defaultDevice.Store(noDevice) }),
	"freed_memory":                returns("aclrtMemcpy", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"global_mode":                 returns("aclrtMemcpy", acl.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"kernel_after_free":           returns("aclrtSynchronizeStream", acl.ACL_ERROR_RT_AICORE_EXCEPTION, acl.ACL_SUCCESS),
	"messages_of_the_process":     behind("aclInit", func(t *Thread, _ []uint64, _ acl.Error) { t.sim.messages.shared.Store(false) }),
	"null_is_default_stream":      stores("aclrtStreamGetId", 1, 4, 0),
	"pageable_copy":               returns("aclrtMemcpyAsync", acl.ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, acl.ACL_SUCCESS),
	"relaxed_mode":                given("aclmdlRICaptureBegin", 1, uint64(acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)),
	"stream_of_another_context":   returns("aclrtDestroyStream", acl.ACL_ERROR_RT_STREAM_CONTEXT, acl.ACL_SUCCESS),
	"thread_local_mode":           given("aclmdlRICaptureBegin", 1, uint64(acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)),
}
