import ctypes
import sys

runtime = ctypes.CDLL(sys.argv[1])
for i in range(int(sys.argv[2])):
    p = ctypes.c_void_p()
    data = ctypes.create_string_buffer(64)
    args = (ctypes.c_uint64 * 2)(1, i)
    z = ctypes.c_size_t
    assert runtime.aclrtSetDevice(0) == 0
    assert runtime.aclrtMalloc(ctypes.byref(p), z(64), 0) == 0
    assert runtime.aclrtMemcpy(p, z(64), data, z(64), 1) == 0
    assert runtime.aclrtLaunchKernelWithHostArgs(None, 7, None, None, args, z(16), None, z(0)) == 0
    assert runtime.aclrtFree(p) == 0
print("done")
