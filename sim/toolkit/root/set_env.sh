# Makes programs use this folder as their toolkit: source it in sh or bash. It may be sourced again.
aclsim_root=@ROOT@
if [ -n "${BASH_SOURCE:-}" ]; then # the folder may have moved
	aclsim_root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE}")" && pwd)
fi

# The folder's last file is missing if acltrace was interrupted.
if [ ! -e "$aclsim_root/acltrace-root" ]; then
	printf 'acltrace: %s is incomplete: remove it, and make it anew with acltrace sim --root %s\n' "$aclsim_root" "$aclsim_root" >&2
	unset aclsim_root
	return 1
fi

# Puts a folder before those of a variable, unless it is there.
aclsim_prepend() {
	eval "aclsim_old=\${$1:-}"
	case ":$aclsim_old:" in
	*":$2:"*) ;;
	*) eval "export $1=\"\$2\${aclsim_old:+:\$aclsim_old}\"" ;;
	esac
}

export ASCEND_HOME_PATH="$aclsim_root"
export ASCEND_TOOLKIT_HOME="$aclsim_root"
export ASCEND_AICPU_PATH="$aclsim_root"
export ASCEND_OPP_PATH="$aclsim_root/opp"
export ACLSIM_KERNELS_BESIDE="${ACLSIM_KERNELS_BESIDE-1}"
aclsim_prepend LD_LIBRARY_PATH "$aclsim_root/lib64"
aclsim_prepend PATH "$aclsim_root/bin"
aclsim_prepend PYTHONPATH "$aclsim_root/python/site-packages"
unset aclsim_root aclsim_old
unset -f aclsim_prepend
