//go:build embedded

package artifacts

import "embed"

// The Makefile fills the folder with exactly the parts to embed.
//
//go:embed files/arm64
var embedded embed.FS
