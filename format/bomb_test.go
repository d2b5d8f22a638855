package format

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A small file that claims large contents costs no more than its length and one chunk allow, and the error has the place.
func TestClaimedSizesAreNotAllocated(t *testing.T) {
	const head = "aclt 1.0\nsession 00112233445566778899aabbccddeeff\nanchor 0 0\n"
	many := func(n int, f func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i))
		}
		return b.String()
	}
	calls := func(n, width int) string {
		return fmt.Sprintf("  block 1 0 0\n  table 1 0 rows %d width 6\n    0 const 3\n  table 2 3 rows %d width %d\n", n, n, width)
	}
	for name, text := range map[string]string{
		"rows of a process table": "chunk 0 dict none self-contained records 1\n" + `  json {"processes":[{"index":4194303,"row":{}}],"threads":[{"index":4194303,"row":{}}]}` + "\n",
		"gaps": many(300, func(i int) string {
			return fmt.Sprintf("chunk %d gap none self-contained records 1\n  table 1 0 rows 262144 width 5\n    0 const 5\n", i)
		}),
		"summaries": many(300, func(i int) string {
			return fmt.Sprintf("chunk %d summary none self-contained records 1\n  table 4 0 rows 262144 width 3\n    1 const 1\n    2 const 7\n", i)
		}),
		"blob table at the end of the numbers": "chunk 0 blobmap none self-contained records 1\n  table 1 18446744073709551615 rows 1 width 3\n    2 const 1\n  table 2 0 rows 1 width 2\n" +
			"chunk 1 events none self-contained records 1\n" + calls(1, 0) + "  table 3 0 rows 1 width 2\n  table 4 0 rows 1 width 0\n    65540 const 1\n    65541 const 1\n",
		"blob tables": many(300, func(i int) string {
			return fmt.Sprintf("chunk %d blobmap none self-contained records 1\n  table 1 0 rows 1 width 3\n    2 const 1\n  table 2 0 rows 4194304 width 3\n    0 const 5\n    2 const 1\n", i)
		}),
		"words of functions": "chunk 0 events none self-contained records 20000\n  block 1 0 0\n  table 1 0 rows 20000 width 6\n    0 delta 1 (const 1)\n" +
			many(20000, func(i int) string { return fmt.Sprintf("  table 2 %d rows 1 width 1024\n", i+1) }),
		"content of data": "chunk 0 events none self-contained records 1\n" + calls(1, 0) +
			"  table 3 0 rows 1000000 width 2\n  table 4 0 rows 1000000 width 512\n    0 const 9\n    65541 const 4096\n",
		"blocks": many(20, func(i int) string {
			return fmt.Sprintf("chunk %d events none self-contained records 262144\n", i) + calls(262144, 0)
		}),
		"json": "chunk 0 schema zstd self-contained records 1\n  json {\"functions\":[{}" + strings.Repeat(",{}", 5<<20) + "]}\n",
	} {
		b, err := os.ReadFile(assemble(t, head+text, nil))
		if err != nil {
			t.Fatal(err)
		}
		bounded(t, len(b), func() { readAll(t, b) })
		r, err := readBytes(t, name, b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range r.Calls(nil) {
		}
		_, _ = r.BlobStats()
		if damage := r.Damage(); len(damage) == 0 && name != "blocks" {
			t.Errorf("%s, %d bytes: taken as it is", name, len(b))
		}
		if n := r.Unknown()["column"]; n > 4 {
			t.Errorf("%s: %d tables were decoded", name, n)
		}
	}
}
