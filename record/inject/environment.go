package inject

import (
	"slices"
	"strings"

	"github.com/acltrace/acltrace/record/host"
)

// Append puts a value behind those that a variable has.
func Append(env []string, name, value, sep string) []string {
	if old, ok := host.Lookup(env, name); ok && old != "" {
		value = old + sep + value
	}
	return append(slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name+"=") }), name+"="+value)
}

// Prepend puts a value before those that a variable has.
func Prepend(env []string, name, value, sep string) []string {
	for i, v := range env {
		if old, ok := strings.CutPrefix(v, name+"="); ok {
			env = slices.Clone(env)
			if old != "" {
				value += sep + old
			}
			env[i] = name + "=" + value
			return env
		}
	}
	return append(slices.Clone(env), name+"="+value)
}

// LinkOrder lets AddressSanitizer's shared runtime be loaded after the shim. By default it ends a program in which it is not
// the first library. The shim replaces no function that a sanitizer checks. The option also reaches programs that a launcher
// or a script starts. The sanitizer in LD_PRELOAD would be loaded into every child: a shell reports leaks, and a program with
// a static sanitizer ends. The user's own ASAN_OPTIONS follow, so that they take precedence.
const LinkOrder = "verify_asan_link_order=0"
