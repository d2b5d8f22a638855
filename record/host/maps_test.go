package host

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
)

// The code of a process has its build ids, also if a file is mapped twice. Data is left out, and generated code has no file.
func TestCodeHasBuildIDs(t *testing.T) {
	source := filepath.Join(t.TempDir(), "k.c")
	if err := os.WriteFile(source, []byte("int k;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lib := testenv.CompileC(t, "k.so", []string{source}, "-shared", "-fPIC", "-Wl,--build-id=0x0123456789")
	text := fmt.Sprintf(`1000-2000 r-xp 00000010 fe:01 77 %s
2000-3000 r--p 00001000 fe:01 77 %[1]s
3000-4000 r-xp 00002000 fe:01 77 %[1]s
5000-6000 rwxp 00000000 00:00 0
6000-7000 rw-p 00000000 00:00 0
8000-9000 r-xp 00000000 fe:01 78 %s
`, lib, source)
	want := []format.Mapping{{Start: 0x5000, End: 0x6000}, {Start: 0x1000, End: 0x2000, Offset: 0x10, Path: lib, BuildID: "0123456789"},
		{Start: 0x3000, End: 0x4000, Offset: 0x2000, Path: lib, BuildID: "0123456789"}, {Start: 0x8000, End: 0x9000, Path: source}}
	got := ParseMaps([]byte(text))
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if fmt.Sprintf("%+v", got[i]) != fmt.Sprintf("%+v", want[i]) {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}
