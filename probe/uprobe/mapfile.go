package uprobe

import (
	"fmt"
	"path/filepath"
	"strings"
)

// filesOf returns paths to open a mapped file here. The first is the file itself and takes privilege. The second may have been
// replaced.
func filesOf(pid int, from, to uint64, path string) []string {
	return []string{mapFile(pid, from, to), filepath.Join(fmt.Sprintf("/proc/%d/root", pid), strings.TrimSuffix(path, " (deleted)"))}
}

func mapFile(pid int, from, to uint64) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, from, to)
}
