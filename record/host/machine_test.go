package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
)

func TestVersionsOfRuntimeAndDriver(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"driver/version.info":                       "Version=24.1.rc3\nascendhal_version=7.35.23\n",
		"toolkit/runtime/version.info":              "Version=8.2.0.1\n",
		"ascend-toolkit/latest/version.cfg":         "# version: 1.0\nruntime_running_version=[7.5.0.1.129:8.0.RC3]\n",
		"loaded":                                    "550.54.15\n",
		"elsewhere/ascend-toolkit/latest/other.cfg": "Version=1\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := acl.Model.Installed
	in.Folders, in.Driver = []string{filepath.Join(root, "cann")}, []string{filepath.Join(root, "driver/version.info"), filepath.Join(root, "loaded")}
	if r, d := RuntimeVersions(&in, []string{"ASCEND_HOME_PATH=" + filepath.Join(root, "toolkit")}); r != "8.2.0.1" || d != "24.1.rc3" {
		t.Errorf("runtime %q, driver %q", r, d)
	}
	in.Folders = []string{filepath.Join(root, "cann"), filepath.Join(root, "ascend-toolkit/latest")}
	in.Driver[0] = filepath.Join(root, "none")
	if r, d := RuntimeVersions(&in, nil); r != "7.5.0.1.129:8.0.RC3" || d != "550.54.15" {
		t.Errorf("runtime %q, driver %q", r, d)
	}
	if r, d := RuntimeVersions(&api.Installed{Folders: []string{filepath.Join(root, "elsewhere")}, Runtime: []string{"version.cfg"}}, nil); r != "" || d != "" {
		t.Errorf("runtime %q, driver %q", r, d)
	}
}
