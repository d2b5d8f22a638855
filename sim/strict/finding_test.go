package strict

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each kind has advice and is documented.
func TestStrictKindsAreDocumented(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "simulator.md"))
	if err != nil {
		t.Fatal(err)
	}
	for k, a := range advices {
		if a.title == "" || a.means == "" || a.remedy == "" || !strings.Contains(string(b), "| `"+string(k)+"` |") {
			t.Errorf("%s is not described", k)
		}
	}
}
