/*
 * Functions that the face answers without the engine until another call opens it. Their answers depend on no state. A process may ask for
 * the version or the number of devices in a constructor, while it holds the dynamic loader's lock, or before it forks.
 */
#ifndef ACLSIM_ALONE_H
#define ACLSIM_ALONE_H

#include "acl/acl.h"

#include <stdarg.h>

/* The simulated release, from the API model. */
extern const struct release {
	const char *toolkit;   /* MAJOR.MINOR.PATCH */
	const char *interface; /* MAJOR.MINOR.PATCH */
	const char *device;
} release;

/* Reports whether the functions below answer. With ACLSIM_FAULTS all calls are counted by the engine; with ACLSIM_ANSWERS=documents
 * functions need aclInit. */
int face_is_alone(void);

void alone_aclAppLog(aclLogLevel level, const char *func, const char *file, uint32_t line, const char *fmt, va_list args);
aclError alone_aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch);
const char *alone_aclrtGetSocName(void);
aclError alone_aclrtGetDeviceCount(uint32_t *count);
aclError alone_aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
aclError alone_aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version);
aclError alone_aclsysGetVersionStr(char *package, char *version);
aclError alone_aclsysGetVersionNum(char *package, int32_t *version);

#endif
