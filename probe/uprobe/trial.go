package uprobe

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/probe"
)

// Trial is the result of one way to attach uprobes, tried on a small program.
type Trial struct {
	Kind     string
	OneByOne bool // see Options
	// CostNS is the time in nanoseconds that recording adds to a launch with 64 bytes of arguments.
	CostNS float64
	Err    error // nil if every call was recorded correctly
}

const (
	trialCalls, trialBytes = 2000, 64
	trialTime              = 10 * time.Second
)

// Try tries the ways to attach uprobes, the better one first. Without all it stops after the first success.
func Try(m *api.Model, all bool) []Trial {
	kinds := []Trial{{Kind: attachMany.Name}, {Kind: "perf events", OneByOne: true}}
	for i := range kinds {
		k := &kinds[i]
		if k.CostNS, k.Err = try(m, k.OneByOne); k.Err == nil && !all {
			return kinds[:i+1]
		}
	}
	return kinds
}

// Features returns the table of features. Each is declared beside the code that uses it.
func Features() []*Feature {
	return []*Feature{attachMany, allocateAtProbes, waitForPages, probeCookies, ancestorCgroups, cgroupAccounting}
}

func try(m *api.Model, oneByOne bool) (float64, error) {
	f := trialFunc(m)
	if f == nil {
		return 0, fmt.Errorf("the runtime has no launch to try uprobes with: %w", ErrNotSupported)
	}
	program, err := newTrialProgram(f, runtime.GOARCH)
	if err != nil {
		return 0, err
	}
	dir, err := private.MkdirTemp("acltrace-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "trial")
	if err := os.WriteFile(path, program.file, 0o700); err != nil {
		return 0, err
	}
	u, err := Load(m, &Options{OneByOne: oneByOne})
	if err != nil {
		return 0, err
	}
	defer u.Close()
	if !oneByOne && !u.programs.multi {
		return 0, fmt.Errorf("attach many at once: %w", ErrNotSupported)
	}
	if err := u.attachSites(path, []site{{symbol: f.Name, offset: program.probe, cookie: uint64(f.ID)}}); err != nil {
		return 0, err
	}
	s := &trialSink{want: program}
	ctx, stop := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- u.Run(ctx, s) }()
	running, cancel := context.WithTimeout(ctx, trialTime)
	err = exec.CommandContext(running, path).Run()
	cancel()
	stop()
	if err = errors.Join(err, <-end); err != nil {
		return 0, err
	}
	if s.right != trialCalls || s.wrong != 0 {
		return 0, fmt.Errorf("of %d calls %d were seen right and %d wrong", trialCalls, s.right, s.wrong)
	}
	slices.Sort(s.took)
	return float64(s.took[len(s.took)/2]), nil
}

// trialFunc returns a launch function, if possible one with an argument block.
func trialFunc(m *api.Model) (launch *api.Func) {
	for i := range m.Funcs {
		switch f := &m.Funcs[i]; {
		case f.Task != api.Kernel || !f.Plain():
		case trialArgs(f) >= 0:
			return f
		case launch == nil:
			launch = f
		}
	}
	return launch
}

// trialArgs returns the index of the argument block, -1 if there is none.
func trialArgs(f *api.Func) int {
	return slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Role == api.Args && len(p.Size.Mul) == 1 })
}

// trialSink compares the recorded calls with those of the program.
type trialSink struct {
	want         *trialProgram
	right, wrong int
	last         int64
	took         []int64 // times between the starts of successive calls
}

func (s *trialSink) Process(*probe.Process) error   { return nil }
func (s *trialSink) Payload(*probe.Payload) error   { return nil }
func (s *trialSink) TaskTime(*probe.TaskTime) error { return nil }
func (s *trialSink) Gap(g *probe.Gap) error         { s.wrong += int(g.Calls); return nil }
func (s *trialSink) Call(c *probe.Call) error {
	var data []byte
	for _, p := range c.Pieces {
		data = append(data, p.Bytes...)
	}
	if slices.Equal(c.Words, s.want.words) && bytes.Equal(data, s.want.data) && !c.Unfinished() {
		s.right++
	} else {
		s.wrong++
	}
	if s.last != 0 {
		s.took = append(s.took, c.Start-s.last)
	}
	s.last = c.Start
	return nil
}

// trialProgram is a static executable that calls its own function in a loop, with a launch's arguments, and exits.
type trialProgram struct {
	file  []byte
	probe uint64 // offset in the file to probe
	words []uint64
	data  []byte
}

func newTrialProgram(f *api.Func, arch string) (*trialProgram, error) {
	const base, head = 0x400000, 64 + 56
	p := &trialProgram{words: make([]uint64, f.Words)}
	for i := range f.Params {
		if f.Params[i].Role == api.Value {
			p.words[f.Params[i].Word] = uint64(i)
		}
	}
	if args := trialArgs(f); args >= 0 {
		for i := range trialBytes {
			p.data = append(p.data, byte(3*i+1))
		}
		p.words[f.Params[args].Word] = base + head
		p.words[f.Params[f.Params[args].Size.Mul[0]].Word] = trialBytes
	}
	var code []byte
	var function uint64
	machine := elf.EM_X86_64
	switch arch {
	case "amd64":
		code, function = trialAMD64(p.words)
	case "arm64":
		machine = elf.EM_AARCH64
		code, function = trialARM64(p.words)
	default:
		return nil, fmt.Errorf("uprobes on %s: %w", arch, ErrNotSupported)
	}
	text := append(slices.Clone(p.data), code...)
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Entry: base + head + uint64(len(p.data)), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	size := uint64(head + len(text))
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, &h)
	_ = binary.Write(&b, binary.LittleEndian, &elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000})
	b.Write(text)
	p.file = b.Bytes()
	p.probe = uint64(head+len(p.data)) + function
	behind, _ := probeOffset(p.file[p.probe:], arch)
	p.probe += behind
	return p, nil
}

// trialAMD64 returns machine code and the function's offset in it.
func trialAMD64(words []uint64) (code []byte, function uint64) {
	le := func(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }
	code = le([]byte{0xbb}, trialCalls) // mov $calls, %ebx
	loop := len(code)
	stack := 0
	for i := len(words) - 1; i >= 6; i-- {
		code = le(append(code, 0x68), uint32(words[i])) // push
		stack += 8
	}
	for i, op := range [][]byte{{0xbf}, {0xbe}, {0xba}, {0xb9}, {0x41, 0xb8}, {0x41, 0xb9}} { // mov to %edi, %esi, %edx, %ecx, %r8d, %r9d
		if i < len(words) {
			code = le(append(code, op...), uint32(words[i]))
		}
	}
	call := len(code)
	code = le(append(code, 0xe8), 0)
	code = le(append(code, 0x48, 0x81, 0xc4), uint32(stack)) // add to %rsp
	code = append(code, 0xff, 0xcb, 0x0f, 0x85)              // dec %ebx, jnz
	code = le(code, uint32(loop-len(code)-4))
	code = append(code, 0x31, 0xff, 0xb8, 231, 0, 0, 0, 0x0f, 0x05) // exit_group(0)
	function = uint64(len(code))
	binary.LittleEndian.PutUint32(code[call+1:], uint32(len(code)-call-5))
	code = append(code, 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x5d, 0x31, 0xc0, 0xc3) // endbr64, push and pop %rbp, return 0
	return code, function
}

func trialARM64(words []uint64) (code []byte, function uint64) {
	add := func(op uint32) { code = binary.LittleEndian.AppendUint32(code, op) }
	move := func(reg uint32, v uint64) {
		add(0xd2800000 | uint32(v&0xffff)<<5 | reg)
		add(0xf2a00000 | uint32(v>>16&0xffff)<<5 | reg)
	}
	move(19, trialCalls)
	loop := len(code)
	stack := uint32(max(len(words)-8, 0)+1) &^ 1
	add(0xd10003ff | 8*stack<<10) // sub from sp
	for i, w := range words {
		if i >= 8 {
			move(9, w)
			add(0xf90003e9 | uint32(i-8)<<10) // str x9
			continue
		}
		move(uint32(i), w)
	}
	call := len(code)
	add(0)
	add(0x910003ff | 8*stack<<10)                                     // add to sp
	add(0x71000673)                                                   // subs w19, w19, #1
	add(0x54000001 | uint32((loop-len(code))/4)&0x7ffff<<5)           // b.ne
	for _, op := range []uint32{0xd2800000, 0xd2800bc8, 0xd4000001} { // exit_group(0)
		add(op)
	}
	function = uint64(len(code))
	binary.LittleEndian.PutUint32(code[call:], 0x94000000|uint32(len(code)-call)/4)
	for _, op := range []uint32{0xd503245f, 0xa9bf7bfd, 0xa8c17bfd, 0x52800000, 0xd65f03c0} { // bti c, store and load a pair, return 0
		add(op)
	}
	return code, function
}
