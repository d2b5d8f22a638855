package inject

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/artifacts"
)

// A program gets the simulator's toolkit unless it has one, and a toolkit that another acltrace has set is none of its own.
func TestSimulatorsToolkitGivesWay(t *testing.T) {
	outer, root := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{filepath.Join(outer, artifacts.Headers): "", filepath.Join(root, "acltrace-root"): "v1\n"} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		env  []string
		want string // ASCEND_HOME_PATH, ASCEND_OPP_PATH
		note string
	}{
		{nil, "/sim/toolkit,/sim/toolkit/opp", ""},
		{[]string{"ASCEND_HOME_PATH=", "ASCEND_OPP_PATH=/own/opp"}, "/sim/toolkit,/own/opp", ""},
		{[]string{"ASCEND_HOME_PATH=/own"}, "/own,", "use the simulator's libraries with the toolkit in ASCEND_HOME_PATH=/own"},
		{[]string{"ASCEND_TOOLKIT_HOME=/own"}, ",", "ASCEND_TOOLKIT_HOME=/own"},
		{[]string{"ASCEND_HOME_PATH=" + outer, "ASCEND_OPP_PATH=" + outer + "/opp"}, "/sim/toolkit,/sim/toolkit/opp", ""},
		{[]string{"ASCEND_HOME_PATH=" + root}, root + ",", "is a root of acltrace v1, this is v2"},
	} {
		env := Simulate(acl.Model, c.env, "/sim")
		value := func(name string) (v string) {
			for _, e := range env {
				if s, ok := strings.CutPrefix(e, name+"="); ok {
					v = s
				}
			}
			return v
		}
		if got := value("ASCEND_HOME_PATH") + "," + value("ASCEND_OPP_PATH"); got != c.want {
			t.Errorf("%q: %s, want %s", c.env, got, c.want)
		}
		if !slices.Contains(env, "LD_LIBRARY_PATH=/sim") || !slices.Contains(env, "ACLSIM_KERNELS_BESIDE=1") {
			t.Errorf("%q: %q", c.env, env)
		}
		notes := ""
		for _, n := range Toolkits(acl.Model, c.env, true, "v2") {
			if notes += n.Text + "\n"; (n.Root != "") != strings.Contains(n.Text, "is a root of") || n.Root != "" && n.Root != root {
				t.Errorf("%q: %+v, want the root %s", c.env, n, root)
			}
		}
		if !strings.Contains(notes, c.note) || (notes == "") != (c.note == "") {
			t.Errorf("%q: notes %q, want %q", c.env, notes, c.note)
		}
	}
	if notes := Toolkits(acl.Model, []string{"ASCEND_HOME_PATH=" + root}, false, "v1"); notes != nil {
		t.Errorf("a root of this version: %q", notes)
	}
}
