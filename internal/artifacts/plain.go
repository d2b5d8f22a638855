//go:build !embedded

package artifacts

import "embed"

var embedded embed.FS
