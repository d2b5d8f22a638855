/* An empty library. record --framework-marks preloads it under the name of a library for which a framework looks. It takes no symbol from another library. */
typedef int acltrace_decoy;
