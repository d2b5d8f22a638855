package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
)

// What a user types for --backend selects the target, and with it whether recorded code runs on a device, and whether there are results to compare.
func TestNameSelectsTheTarget(t *testing.T) {
	dir := t.TempDir()
	library := filepath.Join(dir, "lib.so")
	if err := os.WriteFile(library, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for name, want := range map[string]struct {
		is              Backend
		path            string
		clock           Clock
		placement       Placement
		trust, computes bool
	}{
		"":        {Simulator{acl.Model, ""}, "", RealClock, ByCall, false, true},
		"sim":     {Simulator{acl.Model, ""}, "", RealClock, ByCall, false, true},
		"null":    {Null{}, "null", RealClock, Nowhere, false, false},
		"virtual": {Virtual{}, "", VirtualClock, Nowhere, false, false},
		library:   {Library{library}, library, RealClock, ByList, true, true},
		"lib.so":  {Library{"lib.so"}, library, RealClock, ByList, true, true},
	} {
		b := New(name, acl.Model)
		if !reflect.DeepEqual(b, want.is) {
			t.Errorf("%q is %#v", name, b)
			continue
		}
		if b.Clock() != want.clock || b.Placement() != want.placement || b.NeedsTrust() != want.trust || b.Computes() != want.computes {
			t.Errorf("%q: %v %v %v %v", name, b.Clock(), b.Placement(), b.NeedsTrust(), b.Computes())
		}
		if path, err := b.Library(); want.path != "" && (path != want.path || err != nil) || name == "virtual" && err == nil {
			t.Errorf("%q: %s, %v", name, path, err)
		}
		if err := Check(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		k := KindOf(name, acl.Model)
		if (len(k.Excludes) > 0) != (k.Because != "") || slices.ContainsFunc(k.Options, func(o string) bool { return slices.Contains(k.Excludes, o) }) {
			t.Errorf("%q: %+v", name, k)
		}
		env := b.Environment(0x123000)
		if want.placement != ByCall && env != nil {
			t.Errorf("%q: %q", name, env)
		}
	}
	sim := acl.Model.Simulator
	for base, want := range map[uint64][]string{0: {sim.Place + "="}, 0x123000: {sim.Place + "=", fmt.Sprintf("%s=0x123000", sim.Base)}} {
		if got := New("sim", acl.Model).Environment(base); !slices.Equal(got, want) {
			t.Errorf("base %#x: %q", base, got)
		}
	}
	if got, err := (Simulator{acl.Model, "lib.so"}).Library(); got != library || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if err := Check("gone"); !os.IsNotExist(unwrap(err)) {
		t.Error(err)
	}
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return err
}
