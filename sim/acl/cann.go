package acl

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

// The packages of the simulated release, which have one version. sim/libascendcl/alone.c has the same.
var (
	cannPackages     = []acl.CANNPackageName{acl.ACL_PKG_NAME_CANN, acl.ACL_PKG_NAME_RUNTIME, acl.ACL_PKG_NAME_OPP, acl.ACL_PKG_NAME_OPP_KERNEL, acl.ACL_PKG_NAME_DRIVER}
	cannPackageNames = []string{"CANN", "cann", "runtime", "driver", "ops_math", "ops_nn", "ops_transformer", "ops_cv", "ops_legacy"}
)

// sysPackage refuses packages that are not there.
func (t *Thread) sysPackage(pkgName *byte) acl.Error {
	if pkgName == nil {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "pkgName is null")
	}
	if name := space.GoString(pkgName); !slices.Contains(cannPackageNames, name) {
		return t.fail(acl.ACL_ERROR_INVALID_FILE, "package %q is not installed in the simulator", name)
	}
	return acl.ACL_SUCCESS
}

// SysGetCANNVersion returns a package version.
func (t *Thread) SysGetCANNVersion(name acl.CANNPackageName, version *acl.CANNPackageVersion) acl.Error {
	if version == nil {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "version is null")
	}
	if name < acl.ACL_PKG_NAME_CANN || name > acl.ACL_PKG_NAME_DRIVER {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "package %d is unknown", name)
	}
	if !slices.Contains(cannPackages, name) {
		return t.fail(acl.ACL_ERROR_INVALID_FILE, "package %d is not installed in the simulator", name)
	}
	*version = acl.CANNPackageVersion{}
	b := (*[unsafe.Sizeof(*version)]byte)(unsafe.Pointer(version))
	space.PutText(b[:128], release.Toolkit)
	for i, part := range strings.Split(release.Toolkit, ".") {
		space.PutText(b[128+64*i:192+64*i], part)
	}
	return acl.ACL_SUCCESS
}

// SysGetVersionStr stores a package version as text.
func (t *Thread) SysGetVersionStr(pkgName, versionStr *byte) acl.Error {
	if e := t.sysPackage(pkgName); e != 0 {
		return e
	}
	if versionStr == nil {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "versionStr is null")
	}
	space.PutText(space.List(versionStr, uint64(len(release.Toolkit)+1)), release.Toolkit)
	return acl.ACL_SUCCESS
}

// numbers returns the three parts of a version.
func numbers(version string) (v [3]int32) {
	for i, part := range strings.Split(version, ".") {
		n, _ := strconv.ParseInt(part, 10, 32)
		v[i] = int32(n)
	}
	return v
}

// SysGetVersionNum stores a package version as an increasing number.
func (t *Thread) SysGetVersionNum(pkgName *byte, versionNum *int32) acl.Error {
	if e := t.sysPackage(pkgName); e != 0 {
		return e
	}
	v := numbers(release.Toolkit)
	return put(t, "versionNum", versionNum, (v[0]*100+v[1])*100000+v[2]*1000)
}

// cannAttrs are the supported software features.
var cannAttrs = []acl.CannAttr{acl.ACL_CANN_ATTR_INF_NAN, acl.ACL_CANN_ATTR_BF16}

// GetCannAttributeList returns the features that there are. The list is the runtime's.
func (t *Thread) GetCannAttributeList(cannAttrList **acl.CannAttr, num *uint64) acl.Error {
	if cannAttrList == nil || num == nil {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "cannAttrList or num is null")
	}
	t.sim.attributes.once.Do(func() {
		n := uint64(len(cannAttrs)) * 4
		t.sim.attributes.list = t.sim.text.Get(space.RoundUp(n, 8))
		copy(space.List((*acl.CannAttr)(space.Pointer(t.sim.attributes.list)), uint64(len(cannAttrs))), cannAttrs)
	})
	*cannAttrList, *num = (*acl.CannAttr)(space.Pointer(t.sim.attributes.list)), uint64(len(cannAttrs))
	return acl.ACL_SUCCESS
}

// GetCannAttribute reports whether a feature is supported.
func (t *Thread) GetCannAttribute(cannAttr acl.CannAttr, value *int32) acl.Error {
	if cannAttr < acl.ACL_CANN_ATTR_INF_NAN || cannAttr > acl.ACL_CANN_ATTR_JIT_COMPILE {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "attribute %d is unknown", cannAttr)
	}
	supported := int32(0)
	if slices.Contains(cannAttrs, cannAttr) {
		supported = 1
	}
	return put(t, "value", value, supported)
}
