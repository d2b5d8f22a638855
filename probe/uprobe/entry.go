package uprobe

import "encoding/binary"

// probeOffset returns the distance from a function's entry to its probe, given the function's first bytes.
//
// The kernel emulates some instructions: pushes, jumps, calls, nops. A probe on any other costs ten times as much, since the
// kernel executes that instruction in a single step, out of line. So the probe goes after an entry marker, and after
// instructions that change neither arguments nor the stack, if a push follows them. A push is part of the prologue, so no loop
// jumps back to it.
//
// A 5-byte nop is skipped if a cheap instruction follows. Newer kernels replace such a probe by a call, which writes below the
// stack pointer. A function that has begun may keep data there.
//
// An arm64 function that begins with paciasp is probed at that instruction. After it the return address is signed, and the
// kernel's replacement would fail authentication.
//
// ok is false if the kernel refuses a probe on the function.
func probeOffset(code []byte, arch string) (behind uint64, ok bool) {
	switch arch {
	case "amd64":
		if behind = probeOffsetAMD64(code); behind > 0 && refusedPrefix(code[behind:]) {
			behind = 0
		}
		return behind, !refusedPrefix(code[behind:])
	case "arm64":
		if len(code) < 8 {
			return 0, true
		}
		switch binary.LittleEndian.Uint32(code) {
		case 0xd503245f, 0xd503249f, 0xd50324df: // bti c, j, jc
			return 4, true
		}
	}
	return 0, true
}

// refusedPrefix reports whether an instruction has a prefix that the kernel does not probe: LOCK or a segment ES, CS, SS or DS.
// The kernel may notice only when a process maps the file, and then reports no error.
func refusedPrefix(code []byte) bool {
	for _, b := range code {
		switch b {
		case 0xf0, 0x26, 0x2e, 0x36, 0x3e:
			return true
		case 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3: // FS, GS, size and repeat prefixes
		default:
			return false
		}
	}
	return false
}

func probeOffsetAMD64(code []byte) uint64 {
	begin := 0
	if len(code) >= 5 && binary.LittleEndian.Uint32(code) == 0xfa1e0ff3 { // endbr64
		begin = 4
	}
	if rest := code[begin:]; len(rest) > 5 && string(rest[:5]) == "\x0f\x1f\x44\x00\x00" && emulated(rest[5:]) {
		return uint64(begin + 5)
	}
	if emulated(code[begin:]) {
		return uint64(begin)
	}
	for at := begin; ; {
		n := harmlessLen(code[at:])
		if n == 0 {
			return uint64(begin)
		}
		at += n
		if isPush(code[at:]) {
			return uint64(at)
		}
	}
}

// emulated reports whether the kernel emulates the instruction.
func emulated(code []byte) bool {
	if len(code) == 0 {
		return false
	}
	switch code[0] {
	case 0x90, 0xe8, 0xe9, 0xeb: // nop, call, jump
		return true
	}
	return isPush(code)
}

// isPush reports whether the instruction pushes a register.
func isPush(code []byte) bool {
	if len(code) > 1 && code[0] == 0x41 {
		code = code[1:]
	}
	return len(code) > 0 && code[0] >= 0x50 && code[0] <= 0x57
}

// harmlessLen returns the length of an instruction that changes no argument and no memory, 0 for any other. Such an instruction
// sets another register from a register or a number, or compares.
func harmlessLen(code []byte) int {
	rex, n := byte(0), 0
	if len(code) > 0 && code[0]&0xf0 == 0x40 {
		rex, n = code[0], 1
	}
	if len(code) < n+2 {
		return 0
	}
	op, modrm := code[n], code[n+1]
	// free reports whether a register is neither an argument nor the stack pointer: %rax, %rbx, %rbp, and %r10 and above.
	free := func(reg byte) bool { return reg == 0 || reg == 3 || reg == 5 || reg >= 10 }
	reg, rm := modrm>>3&7|rex&4<<1, modrm&7|rex&1<<3
	switch {
	case op&0xf8 == 0xb8 && rex&8 == 0 && free(op&7|rex&1<<3) && len(code) >= n+5: // mov number
		return n + 5
	case modrm < 0xc0: // memory
		return 0
	case op == 0x85, op == 0x39, op == 0x3b: // test, cmp
		return n + 2
	case (op == 0x31 || op == 0x89) && free(rm), (op == 0x33 || op == 0x8b) && free(reg): // xor, mov
		return n + 2
	}
	return 0
}
