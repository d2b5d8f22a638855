// Package host reads facts about the machine, its processes and its programs: /proc, ELF files, the loader, installed
// versions.
//
// The recorder, detect, doctor and watch call it. It keeps no state, changes no process that it looks at, and reads files
// from other processes with bounds on their size.
package host

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/regular"
)

// Exists reports whether a path names a file or folder that this process can see.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// RuntimeVersions returns the installed runtime's and driver's versions from the vendor's files, "" if unknown.
func RuntimeVersions(in *api.Installed, env []string) (runtimeVersion, driverVersion string) {
	var dirs []string
	for _, name := range in.Homes {
		if dir, _ := Lookup(env, name); filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	first := func(dir string, files []string) (version string) {
		for i := 0; i < len(files) && version == ""; i++ {
			version = versionIn(filepath.Join(dir, files[i]))
		}
		return version
	}
	for _, dir := range append(dirs, in.Folders...) {
		if runtimeVersion = first(dir, in.Runtime); runtimeVersion != "" {
			break
		}
	}
	return runtimeVersion, first("/", in.Driver)
}

// versionIn finds a version in a file with lines such as `Version=24.1.0` or `runtime_running_version=[7.5.0.1.129:8.0.0]`,
// or in a file that contains only the version.
func versionIn(path string) string {
	f, err := regular.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 64<<10)
	n, _ := f.Read(b)
	if alone := strings.TrimSpace(string(b[:n])); len(alone) <= 100 && !strings.ContainsAny(alone, "= \t\n") {
		return alone
	}
	for line := range strings.Lines(string(b[:n])) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && (strings.EqualFold(key, "version") || key == "runtime_running_version") && len(value) <= 100 {
			return strings.Trim(value, `[]"`)
		}
	}
	return ""
}

// FreeSpace returns the free bytes in a folder's file system.
func FreeSpace(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return fs.Bavail * uint64(fs.Bsize), err
}
