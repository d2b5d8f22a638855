#include "alone.h"

#include "devices.h"

#include <stdio.h>
#include <string.h>

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
	*count = number_of_devices();
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
	if (name != ACL_PKG_NAME_CANN && name != ACL_PKG_NAME_RUNTIME && name != ACL_PKG_NAME_DRIVER)
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
	static const char *const all[] = {"CANN", "cann", "runtime", "driver"};

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
