package fault

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

// A fault strikes at its number, once, and only what it names.
func TestFaultStrikesOnceAtItsNumber(t *testing.T) {
	f, err := Parse("aclrtMalloc:2=107000, kernel:add:2=timeout\nkernel:3=507015,copy:1=corrupt,kernel:1=freed,kernel:4=outside,oom:2,lost:1,copy:3=-7", 1)
	if err != nil {
		t.Fatal(err)
	}
	hits := func(what string, names ...string) string {
		var out []string
		for i, name := range names {
			if x := f.Hit(what, name); x != nil {
				out = append(out, fmt.Sprintf("%d:%d,%v,%s", i+1, x.Code, x.Corrupt, x.Memory))
			}
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct{ what, names, want string }{
		{"aclrtMalloc", "- - - -", "2:107000,false,"},
		{"kernel", "mul add mul add add", "1:0,false,freed 3:507015,false, 4:0,false,outside"},
		{"copy", "- - - -", "1:0,true, 3:-7,false,"}, {"oom", "- - -", "2:0,false,"}, {"lost", "- -", "1:0,false,"}, {"aclrtFree", "- -", ""},
	} {
		if got := hits(c.what, strings.Fields(c.names)...); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	g, err := Parse("kernel:add:2=timeout", 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"add", "mul", "add", "add"} {
		if x := g.Hit("kernel", name); (x != nil) != (i == 2) || x != nil && x.Code != acl.ACL_ERROR_RT_AICORE_TIMEOUT {
			t.Errorf("launch %d of %s: %+v", i, name, x)
		}
	}
	if (*Faults)(nil).Hit("kernel", "") != nil {
		t.Error("a fault without faults")
	}
}

// Numbers are decimal.
func TestNumbersAreDecimal(t *testing.T) {
	f, err := Parse("oom:10-10", 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if x := f.Hit("oom", ""); (x != nil) != (i == 9) {
			t.Errorf("hit %d: %v", i+1, x)
		}
	}
}

// A range is a number that the seed draws from it: each is drawn, and the same seed draws the same.
func TestRangeIsDrawnBySeed(t *testing.T) {
	at := func(seed uint64) int64 {
		f, err := Parse("oom:3-5", seed)
		if err != nil {
			t.Fatal(err)
		}
		for i := int64(1); i <= 10; i++ {
			if x := f.Hit("oom", ""); x != nil {
				return i
			}
		}
		return 0
	}
	seen := map[int64]bool{}
	for seed := range uint64(100) {
		n := at(seed)
		if seen[n] = true; n != at(seed) {
			t.Errorf("seed %d draws different numbers", seed)
		}
	}
	if len(seen) != 3 || !seen[3] || !seen[4] || !seen[5] {
		t.Errorf("drawn: %v", seen)
	}
}

func TestInvalidFaultsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"oom": "want NAME:N", "oom:0": `invalid number "0"`, ":1=5": "neither a function", "oom:x": "invalid number", "oom:3-2": "invalid number", "oom:1-x": "invalid number", "oom:1=5": "oom can't have an effect",
		"copy:name:1=corrupt": "a name is for kernels only", "kernel:1": "invalid effect", "kernel:1=0": "invalid effect", "kernel:1=corrupt": "invalid effect", "copy:1=timeout": "invalid effect",
		"copy:1=freed": "invalid effect", "copy:1=3000000000": "invalid effect", "nothing:1=5": "neither a function", "aclrtGetRecentErrMsg:1=5": "neither a function", "oom:1, oom:y": `fault "oom:y"`,
	} {
		if _, err := Parse(text, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, kind := range taskKinds {
		if _, err := Parse(string(kind)+":1=5", 1); err != nil {
			t.Error(err)
		}
	}
}

// A seed that somebody has noted chooses the same launch and the same buffer in each version.
func TestSeedStays(t *testing.T) {
	for seed, want := range map[uint64]string{1: "598261 0x16d0078c4a605356", 46: "188363 0xd0673b842be41ffa"} {
		f, err := Parse("kernel:1-1000000=freed", seed)
		if err != nil {
			t.Fatal(err)
		}
		if x := f.planned["kernel"][0]; fmt.Sprintf("%d %#x", x.At, x.Pick) != want {
			t.Errorf("seed %d: launch %d, buffer %#x", seed, x.At, x.Pick)
		}
	}
}

// A corrupted transfer differs in one byte, and an empty one stays empty.
func TestCorruptionChangesOneByte(t *testing.T) {
	for size := range uint64(5) {
		b := make([]byte, 8)
		Corrupt(space.Span{Addr: space.AddressOf(&b[0]), Size: size})
		changed := 0
		for i, c := range b {
			if c != 0 {
				changed++
				if uint64(i) >= size {
					t.Errorf("%d bytes: byte %d changed", size, i)
				}
			}
		}
		if changed != int(min(size, 1)) {
			t.Errorf("%d bytes: %d changed", size, changed)
		}
	}
}
