package human

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ianlancetaylor/demangle"
)

// demangled has the first C++ names that Kernel was called with. Views ask for the name of each launch.
var demangled struct {
	names sync.Map // string by string
	count atomic.Int32
}

// maxDemangled limits the names in demangled.
const maxDemangled = 1 << 14

// Kernel returns a kernel's name for people: a C++ name as it is in the source, with its parameters, so that overloads differ. Other names are
// unchanged. Every view takes the names of kernels and functions from here, or from a timeline.Walk, which does.
func Kernel(name string) string {
	if !strings.HasPrefix(name, "_Z") {
		return name
	}
	if shown, ok := demangled.names.Load(name); ok {
		return shown.(string)
	}
	shown, err := demangle.ToString(name)
	if err != nil {
		shown = name
	}
	if demangled.count.Add(1) <= maxDemangled {
		demangled.names.Store(name, shown)
	}
	return shown
}
