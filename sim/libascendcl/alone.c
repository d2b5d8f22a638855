#define _GNU_SOURCE
#include "alone.h"

#include "devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Returns the lowest level that is logged, by the documented variable. */
static int log_level(void)
{
	const char *s = getenv("ASCEND_GLOBAL_LOG_LEVEL");

	return s && *s >= '0' && *s <= '4' && !s[1] ? *s - '0' : ACL_ERROR;
}

/*
 * Writes a line in the documented form of the application's log. A device keeps it in a file unless ASCEND_SLOG_PRINT_TO_STDOUT is 1. The simulator
 * has no log files and writes it to stderr.
 */
void alone_aclAppLog(aclLogLevel level, const char *func, const char *file, uint32_t line, const char *fmt, va_list args)
{
	static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
	const char *print = getenv("ASCEND_SLOG_PRINT_TO_STDOUT");
	FILE *to = print && !strcmp(print, "1") ? stdout : stderr;
	char when[32];
	struct timespec now;
	struct tm tm;
	int before = errno;

	if ((int)level < 0 || level > ACL_ERROR || (int)level < log_level() || !fmt)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &tm);
	strftime(when, sizeof when, "%Y-%m-%d-%H:%M:%S", &tm);
	flockfile(to);
	fprintf(to, "[%s] APP(%d,%s):%s.%03ld.%03ld [%s:%u]", names[level], (int)getpid(), program_invocation_short_name, when, now.tv_nsec / 1000000,
		now.tv_nsec / 1000 % 1000, file ? file : "", line);
	fprintf(to, "%s: ", func ? func : "");
	errno = before; /* for %m */
	vfprintf(to, fmt, args);
	putc('\n', to);
	funlockfile(to);
	errno = before;
}

static void numbers(const char *version, int32_t v[3])
{
	memset(v, 0, 3 * sizeof *v);
	sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]);
}

aclError alone_aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch)
{
	int32_t v[3];

	if (!major || !minor || !patch)
		return ACL_ERROR_INVALID_PARAM;
	numbers(release.interface, v);
	*major = v[0];
	*minor = v[1];
	*patch = v[2];
	return ACL_SUCCESS;
}

const char *alone_aclrtGetSocName(void) { return release.device; }

aclError alone_aclrtGetDeviceCount(uint32_t *count)
{
	if (!count)
		return ACL_ERROR_INVALID_PARAM;
	*count = number_of_visible_devices();
	return ACL_SUCCESS;
}

/* No call has set an option yet. */
aclError alone_aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
	if (opt < ACL_OPT_DETERMINISTIC || opt > ACL_OPT_ENABLE_KERNEL_EARLY_START)
		return ACL_ERROR_RT_PARAM_INVALID;
	if (!value)
		return ACL_ERROR_INVALID_PARAM;
	*value = 0;
	return ACL_SUCCESS;
}

aclError alone_aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version)
{
	int32_t v[3];

	if (!version || name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER)
		return ACL_ERROR_INVALID_PARAM;
	if (name == ACL_PKG_NAME_COMPILER || name == ACL_PKG_NAME_HCCL || name == ACL_PKG_NAME_TOOLKIT)
		return ACL_ERROR_INVALID_FILE;
	memset(version, 0, sizeof *version);
	numbers(release.toolkit, v);
	snprintf(version->version, sizeof version->version, "%s", release.toolkit);
	snprintf(version->majorVersion, sizeof version->majorVersion, "%d", v[0]);
	snprintf(version->minorVersion, sizeof version->minorVersion, "%d", v[1]);
	snprintf(version->releaseVersion, sizeof version->releaseVersion, "%d", v[2]);
	return ACL_SUCCESS;
}

/* Returns 0 for a package that the release has. */
static aclError check(const char *package)
{
	static const char *const all[] = {"CANN", "cann", "runtime", "driver", "ops_math", "ops_nn", "ops_transformer", "ops_cv", "ops_legacy"};

	if (!package)
		return ACL_ERROR_INVALID_PARAM;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(package, all[i]))
			return ACL_SUCCESS;
	return ACL_ERROR_INVALID_FILE;
}

aclError alone_aclsysGetVersionStr(char *package, char *version)
{
	aclError e = check(package);

	if (e)
		return e;
	if (!version)
		return ACL_ERROR_INVALID_PARAM;
	strcpy(version, release.toolkit);
	return ACL_SUCCESS;
}

aclError alone_aclsysGetVersionNum(char *package, int32_t *version)
{
	aclError e = check(package);
	int32_t v[3];

	if (e)
		return e;
	if (!version)
		return ACL_ERROR_INVALID_PARAM;
	numbers(release.toolkit, v);
	*version = (v[0] * 100 + v[1]) * 100000 + v[2] * 1000;
	return ACL_SUCCESS;
}
