package human

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Kernel returns a kernel's name for people: a C++ name as it is in the source, with its parameters, so that overloads differ. Other names are
// unchanged.
func Kernel(name string) string {
	if !strings.HasPrefix(name, "_Z") {
		return name
	}
	if s, err := demangle.ToString(name); err == nil {
		return s
	}
	return name
}
