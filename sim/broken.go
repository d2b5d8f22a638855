//go:build aclsim_break

package sim

import (
	"os"
	"sync/atomic"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
)

// This build is for the conformance suite alone: each rule's program has to fail on a simulator that breaks the rule, which
// ACLSIM_BREAK names. Most rules are broken where the program calls: breaches says how. Others are broken where things
// happen, by a line that asks broken.

var breaking = os.Getenv("ACLSIM_BREAK")

func broken(rule string) bool { return rule == breaking }

// breach is a function that does something else than it should.
type breach struct {
	function string
	call     func(t *Thread, fn api.ID, words []uint64) (uint64, bool)
}

func (t *Thread) dispatch(fn api.ID, words []uint64) (uint64, bool) {
	if b, ok := breaches[breaking]; ok && acl.Model.Func(fn).Name == b.function {
		return b.call(t, fn, words)
	}
	return acl.Call(t, fn, words)
}

// returns says another result where the function returns a certain one.
func returns(function string, is, says acl.Error) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		r, ok := acl.Call(t, fn, words)
		if ok && acl.Error(int32(r)) == is {
			r = uint64(uint32(says))
		}
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

// instead does what another function does with the arguments.
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
		for _, d := range t.sim.devices {
			for _, s := range d.streams {
				if s != nil {
					s.wait(nil, s.submittedTasks(), forever)
				}
			}
		}
		return acl.Call(t, fn, words)
	}}
}

// given takes a value for one of its arguments, whatever it is.
func given(function string, argument int, value uint64) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		words[argument] = value
		return acl.Call(t, fn, words)
	}}
}

// stores stores a value where an argument says, whatever the result is.
func stores(function string, argument, size int, value uint64) breach {
	return breach{function, func(t *Thread, fn api.ID, words []uint64) (uint64, bool) {
		r, ok := acl.Call(t, fn, words)
		if words[argument] != 0 {
			for i, b := 0, hostBytes(words[argument], uint64(size)); i < size; i++ {
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

// breaches are the rules that are broken where a function is called.
var breaches = map[string]breach{
	"abort_discards":                   instead("aclrtStreamAbort", "aclrtSynchronizeStream"),
	"addresses_are_read_later":         given("aclrtMemcpyAsyncWithOffset", 2, 0),
	"align32_has_no_pad":               instead("aclrtMallocAlign32", "aclrtMalloc"),
	"alignment_is_reserved":            returns("aclrtReserveMemAddress", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"allocation_does_not_wait":         waits("aclrtMalloc"),
	"appended_in_order":                skipped("aclrtLaunchKernelWithConfig"),
	"arguments_of_the_stream_s_device": returns("aclrtLaunchKernel", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"array_of_arguments":               skipped("aclrtLaunchKernelWithArgsArray"),
	"async_larger_than_destination":    returns("aclrtMemcpyAsync", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"asynchronous_errors_count":        keeps("aclrtSynchronizeStream"),
	"at_most_128":                      returns("aclrtKernelArgsAppend", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"attribute_set_last":               second(skipped("aclrtMemPoolSetAttr")),
	"attributes":                       skipped("aclrtSetStreamAttribute"),
	"available_events":                 stores("aclrtGetEventAvailNum", 0, 4, 65536),
	"available_streams":                stores("aclrtGetStreamAvailableNum", 0, 4, 100),
	"batch_copies_all":                 given("aclrtMemcpyBatch", 4, 1),
	"batch_inside_the_device":          returns("aclrtMemcpyBatch", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"batch_on_a_stream":                waits("aclrtMemcpyBatchAsync"),
	"batch_reset":                      skipped("aclrtNotifyBatchReset"),
	"batch_without_index":              returns("aclrtMemcpyBatchAsync", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"binary_of_a_kernel":               stores("aclrtFunctionGetBinary", 1, 8, 0),
	"buffer_of_a_placeholder":          skipped("aclrtLaunchKernelWithConfig"),
	"by_tiling_key":                    given("aclrtBinaryGetFunctionByEntry", 1, 7),
	"callback_blocks":                  given("aclrtLaunchCallback", 2, 0),
	"callback_does_not_block":          given("aclrtLaunchCallback", 2, 1),
	"callback_without_thread":          returns("aclrtLaunchCallback", acl.ACL_ERROR_RT_STREAM_NO_CB_REG, acl.ACL_SUCCESS),
	"called_when_destroyed":            skipped("aclmdlRIDestroyRegisterCallback"),
	"capture_state":                    stores("aclmdlRICaptureGetInfo", 1, 4, 0),
	"captured_copy_reads_at_execution": given("aclrtMemcpyAsync", 4, 5),
	"captured_event":                   returns("aclrtQueryEventStatus", acl.ACL_ERROR_RT_EVENT_CAPTURED, acl.ACL_SUCCESS),
	"captured_twice":                   returns("aclmdlRICaptureBegin", acl.ACL_ERROR_RT_STREAM_CAPTURED, acl.ACL_SUCCESS),
	"context_of_another_thread":        returns("aclrtSetCurrentContext", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_INVALID_HANDLE),
	"copies_in_order":                  instead("aclrtMemcpyAsync", "aclrtMemcpy"),
	"copy_after_free":                  returns("aclrtSynchronizeStream", acl.ACL_ERROR_RT_SYS_DMA, acl.ACL_SUCCESS),
	"copy_behind_the_end":              returns("aclrtMemcpy", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"copy_between_devices":             skipped("aclrtMemcpy"),
	"copy_does_not_wait":               waits("aclrtMemcpy"),
	"copy_of_nothing":                  returns("aclrtMemcpy", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"copy_there_and_back":              skipped("aclrtMemcpy"),
	"core_limit":                       stores("aclrtGetStreamResLimit", 2, 4, 7),
	"core_limit_of_thread":             skipped("aclrtUseStreamResInCurrentThread"),
	"count_is_cleared":                 skipped("aclrtCntNotifyReset"),
	"counted_records":                  twice("aclrtCntNotifyRecord"),
	"created_with_options":             given("aclrtCreateStreamV2", 1, 0),
	"current_device_follows_context":   stores("aclrtGetDevice", 0, 4, 1),
	"default_context_state":            stores("aclrtGetPrimaryCtxState", 2, 4, 1),
	"default_context_stays":            returns("aclrtDestroyContext", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"default_kind":                     returns("aclrtMemcpyAsync", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"default_stream":                   returns("aclmdlRICaptureBegin", acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, acl.ACL_SUCCESS),
	"default_stream_is_independent":    waits("aclrtLaunchKernelWithHostArgs"),
	"default_timeout":                  stores("aclrtGetOpExecuteTimeout", 0, 4, 28000),
	"descriptor_inside_the_device":     returns("aclrtGetMemcpyDescSize", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"descriptor_is_read_later":         second(skipped("aclrtSetMemcpyDesc")),
	"destroy_pending_event":            waits("aclrtDestroyEvent"),
	"destroy_waits":                    instead("aclrtDestroyStream", "aclrtDestroyStreamForce"),
	"destroyed_context":                skipped("aclrtDestroyContext"),
	"destroyed_stream":                 returns("aclrtSynchronizeStream", acl.ACL_ERROR_RT_INVALID_HANDLE, acl.ACL_SUCCESS),
	"destroying_a_running_graph":       returns("aclmdlRIDestroy", acl.ACL_ERROR_RT_MODEL_RUNNING, acl.ACL_SUCCESS),
	"device_count":                     stores("aclrtGetDeviceCount", 0, 4, 1),
	"device_out_of_range":              returns("aclrtSetDevice", acl.ACL_ERROR_RT_INVALID_DEVICEID, acl.ACL_SUCCESS),
	"elapsed_time":                     stores("aclrtEventElapsedTime", 0, 4, 0x3cf5c28f),
	"end_on_another_stream":            returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, acl.ACL_SUCCESS),
	"end_on_another_thread":            returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, acl.ACL_SUCCESS),
	"end_without_begin":                returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, acl.ACL_SUCCESS),
	"error_of_the_whole":               stores("aclrtMemcpyBatch", 8, 8, 0),
	"event_from_outside":               returns("aclrtStreamWaitEvent", acl.ACL_ERROR_RT_CAPTURE_DEPENDENCY, acl.ACL_SUCCESS),
	"event_synchronization_ends":       returns("aclrtSynchronizeEvent", acl.ACL_ERROR_RT_STREAM_ABORT, acl.ACL_SUCCESS),
	"event_timeout":                    returns("aclrtSynchronizeEventWithTimeout", acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, acl.ACL_SUCCESS),
	"every_block_runs":                 given("aclrtLaunchKernelWithHostArgs", 1, 1),
	"ex_event_can_not_be_reset":        returns("aclrtResetEvent", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"ex_event_has_no_old_status":       returns("aclrtQueryEvent", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"ex_event_has_no_wait_status":      returns("aclrtQueryEventWaitStatus", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"exchanged_mode":                   skipped("aclmdlRICaptureThreadExchangeMode"),
	"execution_in_order":               skipped("aclmdlRIExecuteAsync"),
	"execution_runs_them":              skipped("aclmdlRIExecuteAsync"),
	"external_flag_alone":              returns("aclrtCreateEventWithFlag", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"fault_at_synchronization":         returns("aclrtSynchronizeStream", acl.ACL_ERROR_RT_AICORE_EXCEPTION, acl.ACL_SUCCESS),
	"fewer_bytes_than_words":           returns("aclrtMemsetD32", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"fill_larger_than_memory":          returns("aclrtMemset", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"filled_at_once":                   waits("aclrtMemset"),
	"filled_later":                     instead("aclrtMemsetAsync", "aclrtMemset"),
	"filled_on_the_host":               returns("aclrtMemset", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"filled_with_words":                given("aclrtMemsetD32", 3, 4),
	"finalize_counts_references":       instead("aclFinalizeReference", "aclFinalize"),
	"finalize_drops_all_references":    instead("aclFinalize", "aclFinalizeReference"),
	"finalize_reference_without_count": returns("aclFinalizeReference", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"finalize_twice":                   returns("aclFinalize", acl.ACL_ERROR_REPEAT_FINALIZE, acl.ACL_SUCCESS),
	"finalized_first":                  returns("aclrtLaunchKernelWithConfig", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"flags":                            stores("aclrtStreamGetFlags", 1, 4, 0),
	"forced_destroy_discards":          instead("aclrtDestroyStreamForce", "aclrtDestroyStream"),
	"free_does_not_wait":               waits("aclrtFree"),
	"free_null":                        returns("aclrtFree", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"free_what_was_allocated":          returns("aclrtFree", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"free_with_sync_waits":             instead("aclrtFreeWithDevSync", "aclrtFree"),
	"freed_memory":                     skipped("aclrtFree"),
	"function_gets_its_argument":       given("aclrtLaunchHostFunc", 2, 0),
	"global_mode":                      returns("aclrtMemcpy", acl.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"grid_of_blocks":                   skipped("aclrtLaunchSIMTKernelWithArgsArray"),
	"group_of_kernels":                 returns("aclrtMemsetAsync", acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"host_aligned":                     returns("aclrtMallocHost", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_MEMORY_ALLOCATION),
	"host_free_with_sync_waits":        instead("aclrtFreeHostWithDevSync", "aclrtFreeHost"),
	"host_size_0":                      returns("aclrtMallocHost", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"ids":                              stores("aclrtStreamGetId", 1, 4, 5),
	"in_memory_of_the_program":         stores("aclrtKernelArgsGetMemSize", 2, 8, 0),
	"index_of_the_bad_copy":            stores("aclrtMemcpyBatch", 8, 8, 0),
	"init_after_finalize":              skipped("aclFinalize"),
	"init_damaged_configuration":       returns("aclInit", acl.ACL_ERROR_PARSE_FILE, acl.ACL_SUCCESS),
	"init_empty_configuration":         returns("aclInit", acl.ACL_SUCCESS, acl.ACL_ERROR_PARSE_FILE),
	"init_first":                       returns("aclrtSetDevice", acl.ACL_ERROR_UNINITIALIZE, acl.ACL_SUCCESS),
	"init_missing_configuration":       returns("aclInit", acl.ACL_ERROR_INVALID_FILE, acl.ACL_SUCCESS),
	"init_repeated":                    returns("aclInit", acl.ACL_ERROR_REPEAT_INITIALIZE, acl.ACL_SUCCESS),
	"kernel_after_free":                skipped("aclrtFree"),
	"kernel_of_both_cores":             stores("aclrtGetFunctionAttribute", 2, 8, 0),
	"kernel_of_the_device":             returns("aclrtLaunchKernelWithHostArgs", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"kind_against_pageable_memory":     returns("aclrtMemcpyAsync", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"kind_is_corrected":                returns("aclrtMemcpyAsync", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"kind_is_reserved":                 returns("aclrtMemcpy", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"larger_than_destination":          returns("aclrtMemcpy", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"last_error_is_kept":               instead("aclrtGetLastError", "aclrtPeekAtLastError"),
	"last_error_is_overwritten":        keeps("aclrtSetDevice"),
	"last_error_of_each_thread":        returns("aclrtPeekAtLastError", acl.ACL_SUCCESS, acl.ACL_ERROR_INVALID_PARAM),
	"last_set_context_counts":          skipped("aclrtSetCurrentContext"),
	"last_task_id":                     stores("aclrtGetThreadLastTaskId", 0, 4, 7),
	"launch_does_not_wait":             waits("aclrtLaunchKernelWithHostArgs"),
	"layout":                           stores("aclrtFunctionGetParamInfo", 2, 8, 0),
	"lazy_binary_has_no_address":       given("aclrtBinaryLoadFromFile", 1, 0),
	"many_wait_for_one":                second(skipped("aclrtStreamWaitEvent")),
	"mapped_as_a_whole":                returns("aclrtMapMem", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"mapped_before_its_address":        returns("aclrtHostGetDevicePointer", acl.ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, acl.ACL_SUCCESS),
	"mapped_memory_works":              returns("aclrtMemcpy", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"mapped_without_access":            instead("aclrtMemMapNoAccess", "aclrtMapMem"),
	"memory_at_once":                   stores("aclrtMemPoolMallocAsync", 0, 8, 0),
	"memory_info":                      stores("aclrtGetMemInfo", 1, 8, 1<<35),
	"memory_info_of_missing_kind":      stores("aclrtGetMemInfo", 2, 8, 5),
	"message_names_the_kernel":         skipped("aclGetRecentErrMsg"),
	"message_of_each_thread":           returns("aclGetRecentErrMsg", acl.ACL_SUCCESS, 1),
	"missing_file":                     returns("aclrtBinaryLoadFromFile", acl.ACL_ERROR_RT_FILE_OPEN, acl.ACL_SUCCESS),
	"missing_kernel":                   returns("aclrtBinaryGetFunction", acl.ACL_ERROR_RT_KERNEL_LOOKUP, acl.ACL_SUCCESS),
	"mode_of_the_default_stream":       returns("aclrtSetStreamFailureMode", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"name":                             stores("aclrtGetFunctionName", 2, 8, 0),
	"name_of_a_graph":                  second(skipped("aclmdlRISetName")),
	"never_recorded":                   stores("aclrtQueryEventStatus", 1, 4, 0),
	"no_copy_inside_the_host":          returns("aclrtMemcpyAsync", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"no_rows":                          returns("aclrtMemcpy2d", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"no_timeout":                       stores("aclrtSetOpExecuteTimeOutV2", 1, 8, 0),
	"not_registered":                   returns("aclrtHostUnregister", acl.ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, acl.ACL_SUCCESS),
	"notify_timeout":                   skipped("aclrtWaitAndResetNotify"),
	"number_of_blocks":                 returns("aclrtLaunchKernelWithHostArgs", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"number_of_notifies":               returns("aclrtCreateNotify", acl.ACL_ERROR_RT_NO_NOTIFY_RESOURCE, acl.ACL_SUCCESS),
	"number_of_streams":                returns("aclrtCreateStream", acl.ACL_ERROR_RT_NO_STREAM_RESOURCE, acl.ACL_SUCCESS),
	"one_callback_a_call":              twice("aclrtProcessReport"),
	"one_device_a_thread":              returns("aclrtSubscribeReport", acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, acl.ACL_SUCCESS),
	"one_thread_a_stream":              returns("aclrtSubscribeReport", acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, acl.ACL_SUCCESS),
	"onto_itself":                      returns("aclrtMemcpyAsync", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"operator_timeout":                 skipped("aclrtSetOpExecuteTimeOutWithMs"),
	"option_not_set":                   returns("aclrtCtxGetSysParamOpt", acl.ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, acl.ACL_SUCCESS),
	"option_of_context":                instead("aclrtCtxSetSysParamOpt", "aclrtSetSysParamOpt"),
	"option_set_last":                  given("aclrtCtxSetSysParamOpt", 1, 0),
	"other_contexts_go_on":             returns("aclrtSynchronizeStreamWithTimeout", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_AICORE_EXCEPTION),
	"out_of_memory":                    returns("aclrtMalloc", acl.ACL_ERROR_RT_DEVICE_OOM, acl.ACL_SUCCESS),
	"outside_needs_a_capture":          returns("aclrtRecordEventWithFlag", acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, acl.ACL_SUCCESS),
	"overflow_switch":                  skipped("aclrtSetStreamOverflowSwitch"),
	"pageable_copy":                    returns("aclrtMemcpyAsync", acl.ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, acl.ACL_SUCCESS),
	"pageable_copy_back":               skipped("aclrtMemcpyAsync"),
	"pageable_copy_waits":              given("aclrtMemcpyAsync", 4, 5),
	"peek_forgets_nothing":             instead("aclrtPeekAtLastError", "aclrtGetLastError"),
	"peer_of_itself":                   returns("aclrtDeviceEnablePeerAccess", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"pending_event":                    stores("aclrtQueryEventStatus", 1, 4, 1),
	"physical_memory_in_units":         returns("aclrtMallocPhysical", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"pinned_copy_does_not_wait":        waits("aclrtMemcpyAsync"),
	"pinned_source_is_read_later":      given("aclrtMemcpyAsync", 4, 5),
	"placeholder_outside":              returns("aclrtLaunchKernelWithHostArgs", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"pool_is_full":                     returns("aclrtMemPoolMallocAsync", acl.ACL_ERROR_RT_DEVICE_OOM, acl.ACL_SUCCESS),
	"priority":                         stores("aclrtStreamGetPriority", 1, 4, 0),
	"priority_out_of_range":            returns("aclrtCreateStreamWithConfig", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"query":                            stores("aclrtStreamQuery", 1, 4, 0),
	"ranges_of_attributes":             given("aclrtMemcpyBatch", 7, 1),
	"read_only_mapping":                skipped("aclrtMemSetAccess"),
	"record_again":                     stores("aclrtQueryEventStatus", 1, 4, 1),
	"record_captures_earlier_work":     stores("aclrtQueryEventStatus", 1, 4, 0),
	"reduction":                        given("aclrtReduceAsync", 3, 10),
	"reduction_of_unknown_type":        returns("aclrtReduceAsync", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"register_whole_pages":             returns("aclrtHostRegisterV2", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"registered_copy_does_not_wait":    waits("aclrtMemcpyAsync"),
	"registered_memory_for_kernels":    skipped("aclrtHostRegister"),
	"registered_twice":                 returns("aclrtHostRegisterV2", acl.ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, acl.ACL_SUCCESS),
	"relaxed_mode":                     given("aclmdlRICaptureBegin", 1, 0),
	"report_timeout":                   returns("aclrtProcessReport", acl.ACL_ERROR_RT_REPORT_TIMEOUT, acl.ACL_SUCCESS),
	"report_without_limit":             returns("aclrtProcessReport", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"reserved_bytes":                   returns("aclrtMemcpyBatch", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"reserved_is_null":                 returns("aclrtLaunchKernelWithConfig", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"reserved_registrations":           returns("aclrtHostRegisterV2", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"reset":                            skipped("aclrtResetEvent"),
	"reset_after_failure":              skipped("aclrtResetDeviceForce"),
	"reset_ends_context":               skipped("aclrtResetDevice"),
	"reset_waits":                      instead("aclrtResetDevice", "aclrtResetDeviceForce"),
	"reversed_events":                  returns("aclrtEventElapsedTime", acl.ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, acl.ACL_SUCCESS),
	"rounded_and_padded":               instead("aclrtMalloc", "aclrtMallocAlign32"),
	"row_wider_than_pitch":             returns("aclrtMemcpy2d", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"rows":                             given("aclrtMemcpy2d", 1, 16),
	"rows_inside_the_device":           returns("aclrtMemcpy2dAsync", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"rows_inside_the_host":             returns("aclrtMemcpy2dAsync", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"rows_later":                       waits("aclrtMemcpy2dAsync"),
	"second_stream":                    skipped("aclrtStreamWaitEvent"),
	"set_device_counts":                instead("aclrtResetDevice", "aclrtResetDeviceForce"),
	"set_device_makes_context":         returns("aclrtGetCurrentContext", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_CONTEXT_NULL),
	"size_0":                           returns("aclrtMalloc", acl.ACL_ERROR_INVALID_PARAM, acl.ACL_SUCCESS),
	"staged_copy":                      given("aclrtMemcpyAsync", 4, 1),
	"stop_for_good":                    returns("aclrtSetStreamFailureMode", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"stop_is_for_the_device":           returns("aclrtStreamStop", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"stop_on_failure":                  skipped("aclrtSetStreamFailureMode"),
	"stream_of_another_context":        returns("aclrtDestroyStream", acl.ACL_ERROR_RT_STREAM_CONTEXT, acl.ACL_SUCCESS),
	"stream_that_does_not_come_back":   returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_STREAM_UNJOINED, acl.ACL_SUCCESS),
	"stream_waits_for_event":           skipped("aclrtStreamWaitEvent"),
	"streams_are_independent":          waits("aclrtLaunchKernelWithHostArgs"),
	"streams_for_the_device":           waits("aclrtSynchronizeStream"),
	"success_keeps_the_last_error":     forgets("aclrtMalloc"),
	"synchronization_ends":             returns("aclrtSynchronizeStream", acl.ACL_ERROR_RT_STREAM_ABORT, acl.ACL_SUCCESS),
	"synchronize_device_of_context":    waits("aclrtSynchronizeDevice"),
	"synchronize_device_timeout":       returns("aclrtSynchronizeDeviceWithTimeout", acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, acl.ACL_SUCCESS),
	"synchronize_device_waits":         skipped("aclrtSynchronizeDevice"),
	"synchronize_failed_work":          returns("aclrtSynchronizeEvent", acl.ACL_ERROR_RT_AICORE_EXCEPTION, acl.ACL_SUCCESS),
	"synchronize_timeout":              returns("aclrtSynchronizeStreamWithTimeout", acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, acl.ACL_SUCCESS),
	"synchronize_waits":                skipped("aclrtSynchronizeStream"),
	"synchronize_waits_for_event":      skipped("aclrtSynchronizeEvent"),
	"synchronize_waits_for_no_more":    waits("aclrtSynchronizeEventWithTimeout"),
	"synchronize_without_limit":        given("aclrtSynchronizeStreamWithTimeout", 1, 1),
	"synchronizing_a_captured_stream":  returns("aclmdlRICaptureEnd", acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, acl.ACL_SUCCESS),
	"task_abort":                       instead("aclrtDeviceTaskAbort", "aclrtSynchronizeDevice"),
	"thread_local_mode":                given("aclmdlRICaptureBegin", 1, 0),
	"time_needs_the_flag":              returns("aclrtEventGetTimestamp", acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, acl.ACL_SUCCESS),
	"time_of_pending_event":            returns("aclrtEventGetTimestamp", acl.ACL_ERROR_RT_EVENT_NOT_COMPLETE, acl.ACL_SUCCESS),
	"timeout_in_intervals":             stores("aclrtSetOpExecuteTimeOutV2", 1, 8, 1),
	"timeout_of_all_waits":             skipped("aclrtSetOpWaitTimeout"),
	"timestamp":                        stores("aclrtEventGetTimestamp", 1, 8, 12345),
	"too_many_rows":                    returns("aclrtMemcpy2dAsync", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"two_captures":                     returns("aclrtStreamWaitEvent", acl.ACL_ERROR_STREAM_CAPTURE_CONFLICT, acl.ACL_SUCCESS),
	"unknown_attribute":                returns("aclrtLaunchKernelWithHostArgs", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"unknown_flags":                    returns("aclrtCreateStreamWithConfig", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"unknown_policy":                   returns("aclrtMalloc", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"unloaded_kernel":                  skipped("aclrtBinaryUnLoad"),
	"unmap_before_release":             returns("aclrtReleaseMemAddress", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"unmapped_addresses":               returns("aclrtMemset", acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_SUCCESS),
	"update_with_other_tasks":          returns("aclmdlRICaptureTaskUpdateEnd", acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, acl.ACL_SUCCESS),
	"updated":                          skipped("aclrtKernelArgsParaUpdate"),
	"updated_tasks":                    skipped("aclmdlRICaptureTaskUpdateEnd"),
	"used_memory":                      stores("aclrtMemPoolGetAttr", 2, 8, 0),
	"wait_for_and":                     given("aclrtValueWait", 2, 0),
	"wait_for_equal":                   given("aclrtValueWait", 2, 0),
	"wait_for_greater":                 given("aclrtValueWait", 2, 1),
	"wait_for_never_recorded":          returns("aclrtStreamWaitEvent", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_PARAM_INVALID),
	"wait_for_nor":                     given("aclrtValueWait", 2, 2),
	"wait_for_record":                  skipped("aclrtWaitAndResetNotify"),
	"wait_needs_the_flag":              returns("aclrtStreamWaitEvent", acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS),
	"wait_status":                      stores("aclrtQueryEventWaitStatus", 1, 4, 0),
	"wait_timeout":                     given("aclrtStreamWaitEventWithTimeout", 2, 0),
	"where_pointers_lie":               stores("aclrtPointerGetAttributes", 1, 8, 1<<32),
	"words_on_the_host_at_once":        skipped("aclrtMemsetD32Async"),
	"wrapped_binary":                   returns("aclrtBinaryLoad", acl.ACL_SUCCESS, acl.ACL_ERROR_RT_INVALID_HANDLE),
	"write_aligned":                    returns("aclrtValueWrite", acl.ACL_ERROR_RT_ADDR_UNALIGNED, acl.ACL_SUCCESS),
	"write_in_order":                   skipped("aclrtValueWrite"),
}
