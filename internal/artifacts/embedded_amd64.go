//go:build embedded

package artifacts

import "embed"

//go:embed files/amd64/libacltrace.so files/amd64/libacltrace-cuda.so files/amd64/libacltrace-audit.so files/amd64/acltrace-player
var embedded embed.FS
