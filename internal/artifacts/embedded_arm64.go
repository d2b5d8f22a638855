//go:build embedded

package artifacts

import "embed"

//go:embed files/arm64/libacltrace.so files/arm64/libacltrace-cuda.so files/arm64/libacltrace-audit.so files/arm64/acltrace-player
var embedded embed.FS
