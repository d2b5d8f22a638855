// Package include holds the generated C headers of the runtime, for programs that write C that others compile.
package include

import "embed"

// Headers are acl/acl.h, as programs include it.
//
//go:embed acl/acl.h
var Headers embed.FS
