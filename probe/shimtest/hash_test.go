package shimtest

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"testing"

	"github.com/zeebo/xxh3"
)

// The shim computes the same hash as the trace file, for all lengths around the algorithm's limits.
func TestShimHash(t *testing.T) {
	bin := compileParts(t, "hash_main.c", []string{"base/hash.c"}, "-fsanitize=undefined,address", "-fno-sanitize-recover")
	out, err := exec.Command(bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 20001)
	for i := range b {
		b[i] = byte(i*131 + i>>8*7)
	}
	n := 0
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); n++ {
		var size int
		var lo, hi uint64
		if _, err := fmt.Sscanf(s.Text(), "%d %x %x", &size, &lo, &hi); err != nil {
			t.Fatal(err)
		}
		if want := xxh3.Hash128(b[size%2 : size%2+size]); want.Lo != lo || want.Hi != hi {
			t.Fatalf("%d bytes: %016x%016x, want %016x%016x", size, hi, lo, want.Hi, want.Lo)
		}
	}
	if n < 4000 {
		t.Errorf("%d lengths compared", n)
	}
}
