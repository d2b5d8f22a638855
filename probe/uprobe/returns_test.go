package uprobe

import (
	"bufio"
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/elffile"
)

// The lengths of all instructions in the C++ library, with which exceptions are thrown, are those of another disassembler.
func TestInstructionLengths(t *testing.T) {
	if _, err := exec.LookPath("objdump"); err != nil {
		t.Skip("no objdump")
	}
	out, err := exec.Command("cc", "-print-file-name=libstdc++.so.6").Output()
	lib := strings.TrimSpace(string(out))
	if err != nil || !filepath.IsAbs(lib) {
		t.Skip("no C++ library")
	}
	dump := exec.Command("objdump", "-d", "--no-show-raw-insn", "-w", "-j", ".text", lib)
	text, err := dump.StdoutPipe()
	if err != nil || dump.Start() != nil {
		t.Skip(err)
	}
	defer dump.Wait()
	f, err := elffile.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var last uint64
	var what string
	checked, unknown, wrong := 0, 0, 0
	for lines := bufio.NewScanner(text); lines.Scan(); {
		number, instruction, _ := strings.Cut(lines.Text(), ":")
		at, err := strconv.ParseUint(strings.TrimSpace(number), 16, 64)
		if err != nil || strings.Contains(number, "<") {
			last = 0
			continue
		}
		if _, code, err := f.Code(last, 15); last != 0 && err == nil {
			n, then, _ := decodeAMD64(code)
			switch {
			case strings.Contains(what, "(bad)"):
			case then == flowUnknown:
				unknown++
			case uint64(n) != at-last:
				if wrong++; wrong < 10 {
					t.Errorf("%x %s: length %d, want %d (%s)", last, what, n, at-last, hex.EncodeToString(code))
				}
			case (then == flowReturn) != strings.Contains(" "+what+" ", " ret "):
				t.Errorf("%x %s: flow %d", last, what, then)
			}
			checked++
		}
		last, what = at, strings.TrimSpace(instruction)
	}
	if checked < 1000 || unknown*100 > checked {
		t.Errorf("%d instructions checked, %d unknown", checked, unknown)
	}
	t.Logf("%d instructions, %d unknown", checked, unknown)
}
