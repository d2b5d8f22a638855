package procstat

import (
	"os"
	"reflect"
	"slices"
	"testing"
)

// Files are read from a process's mappings, whatever their paths have, also those that were deleted. Other memory and cut lines are left out.
func TestMappedFilesWithOddPaths(t *testing.T) {
	got := slices.Collect(Mapped([]byte(`55d0c8a00000-55d0c8a02000 r--p 00000000 fe:01 1311         /usr/bin/a program
55d0c8a02000-55d0c8a07000 r-xp 00002000 fe:01 1311         /usr/bin/a program
7f11f0000000-7f11f0021000 rw-p 00000000 00:00 0
7f11f7c00000-7f11f7c28000 r-xp ffffffffff000 fe:01 77      /tmp/lib.so (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]
7f11f8000000-7f11f8001000 r--s 00000000 fe:01 78
1000-2000 r--p 00000000 fe:01 80 more fields               /odd
7f11f9000000- r--p 00000000 fe:01 79                       /cut
zz-7f11f9000000 r--p 00000000 fe:01 79                     /invalid
7f11fa000000-7f11fa001000 r--p 0 fe:01                     /short`)))
	want := []MappedFile{
		{0x55d0c8a00000, 0x55d0c8a02000, 0, false, "/usr/bin/a program", false, "fe:01 1311"},
		{0x55d0c8a02000, 0x55d0c8a07000, 0x2000, true, "/usr/bin/a program", false, "fe:01 1311"},
		{0x7f11f7c00000, 0x7f11f7c28000, 0xffffffffff000, true, "/tmp/lib.so", true, "fe:01 77"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestFieldNamesAreMatchedWhole(t *testing.T) {
	status := []byte("Name:\tName: x\nUid:\t0\t0\nPid:\t7\nNSpid:\t7 1")
	for name, want := range map[string]string{"Name": "Name: x", "Uid": "0\t0", "Pid": "7", "NSpid": "7 1", "pid": "", "Tgid": ""} {
		if got := Field(status, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Processes of this machine are found, and files of a process that is gone are not there.
func TestLivingAndGoneProcesses(t *testing.T) {
	pids, err := PIDs()
	if err != nil || !slices.Contains(pids, os.Getpid()) || !slices.Contains(pids, os.Getppid()) || slices.Contains(pids, 0) {
		t.Errorf("%d not in %d, %v", os.Getpid(), pids, err)
	}
	if b, err := Text(os.Getpid(), "comm"); err != nil || len(b) < 2 {
		t.Errorf("%q, %v", b, err)
	}
	const gone = 1 << 22 // above the largest PID
	if _, err := Text(gone, "comm"); !os.IsNotExist(err) {
		t.Error(err)
	}
	if s := Read(gone); s != (Stat{}) {
		t.Errorf("%+v", s)
	}
}

// The title of a process was followed by as many blanks as its former arguments had bytes.
func TestTitlesHaveNoTrailingBlanks(t *testing.T) {
	for text, want := range map[string][]string{"": nil, "\x00": nil, "a\x00": {"a"}, "a\x00\x00b c\x00": {"a", "", "b c"}, "title\x00\x00\x00": {"title"}, "cut": {"cut"}} {
		if got := Args(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
