//go:build embedded

package artifacts

import "embed"

//go:embed files/libacltrace.so files/libacltrace-audit.so files/acltrace-player
var embedded embed.FS
