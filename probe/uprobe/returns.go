package uprobe

import (
	"encoding/binary"

	"github.com/acltrace/acltrace/internal/elffile"
)

// The kernel's return probes replace the return address on the stack. The unwinder finds no function there, so an exception can't
// pass a call with one: the program ends. If the thread is cancelled, cleanup handlers and destructors do not run. Functions that
// run callbacks of the program, or wait, get a probe at each return instruction instead. findReturns follows their code from the entry, through direct jumps only. It gives up if the code may be left in a way
// that it can't follow, such as a jump through a pointer.

// flow says which instruction runs after an instruction.
type flow uint8

const (
	flowUnknown flow = iota // also for an unknown instruction
	flowNext
	flowJump   // to the target
	flowBranch // to the target or to the next one
	flowReturn
	flowEnd // nothing runs after it
)

// maxFunction limits the instructions of one function.
const maxFunction = 1 << 16

// findReturns returns the addresses of the instructions that end a function, nil if they can't all be found.
func findReturns(f *elffile.File, entry uint64, arch string) (returns []uint64) {
	decode := decodeAMD64
	if arch == "arm64" {
		decode = decodeARM64
	}
	seen := map[uint64]bool{}
	for left := []uint64{entry}; len(left) > 0; {
		at := left[len(left)-1]
		left = left[:len(left)-1]
		for !seen[at] {
			seen[at] = true
			const longest = 15
			_, code, err := f.Code(at, longest)
			if err != nil || len(seen) > maxFunction {
				return nil
			}
			n, then, to := decode(code)
			switch target := at + uint64(to); then {
			case flowUnknown:
				return nil
			case flowReturn:
				returns = append(returns, at)
			case flowBranch:
				left = append(left, target)
			case flowJump:
				left = append(left, target)
			}
			if then != flowNext && then != flowBranch {
				break
			}
			at += uint64(n)
		}
	}
	return returns
}

// decodeARM64 decodes an instruction. to is the distance of the target. Returns that check a signature are unknown, because the
// kernel refuses probes on them.
func decodeARM64(code []byte) (n int, then flow, to int64) {
	if len(code) < 4 {
		return 0, flowUnknown, 0
	}
	op := binary.LittleEndian.Uint32(code)
	signed := func(v uint32, bits int) int64 { return int64(int32(v<<(32-bits))) >> (32 - bits) * 4 }
	switch {
	case op == 0xd65f03c0: // ret
		return 4, flowReturn, 0
	case op>>26 == 0x05: // b
		return 4, flowJump, signed(op, 26)
	case op>>24 == 0x54, op>>25&0x3f == 0x1a: // b.cond, cbz, cbnz
		return 4, flowBranch, signed(op>>5, 19)
	case op>>25&0x3f == 0x1b: // tbz, tbnz
		return 4, flowBranch, signed(op>>5, 14)
	case op>>25 == 0x6b && op>>21&1 == 0: // branches to a register other than calls
		return 0, flowUnknown, 0
	case op>>16 == 0, op>>21 == 0x6a1: // udf, brk
		return 4, flowEnd, 0
	}
	return 4, flowNext, 0
}

// Operands of instructions by opcode:
//
//	.  none
//	m  a ModRM byte
//	i  a byte
//	z  4 bytes, 2 with an operand size prefix
//	b  a ModRM byte and a byte
//	d  a ModRM byte and 4 bytes, 2 with an operand size prefix
//	j  a jump distance of 1 byte
//	J  a jump distance of 4 bytes
//	?  unknown, or with a case of its own
const (
	oneByte = "mmmmiz??mmmmiz??mmmmiz??mmmmiz??mmmmiz??mmmmiz??mmmmiz??mmmmiz??" + // 00 to 3f
		"????????????????................???m????zdib....jjjjjjjjjjjjjjjj" + // 40 to 7f
		"bd?bmmmmmmmmmmm?..........?.....????....iz......iiiiiiii????????" + // 80 to bf
		"bb????bd?.???i??mmmm???.mmmmmmmmjjjjiiii???.....?.???.??......mm" // c0 to ff; those with cases are below
	twoBytes = "mmmm?.....???m.?mmmmmmmmmmmmmmmmmmmm????mmmmmmmm........????????" + // 00 to 3f
		"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmbbbbmmm.mm??mmmm" + // 40 to 7f
		"JJJJJJJJJJJJJJJJmmmmmmmmmmmmmmmm...mbm??...mbmmmmmmmmmmmmmbmmmmm" + // 80 to bf
		"mmbmbbbm........mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm?" // c0 to ff
)

// decodeAMD64 decodes an instruction. to is the distance of the target from its start.
func decodeAMD64(code []byte) (n int, then flow, to int64) {
	at, short, wide := 0, false, false
	for ; at < len(code); at++ {
		switch code[at] {
		case 0x66:
			short = true
			continue
		case 0x67, 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
			continue
		}
		break
	}
	if at < len(code) && code[at]&0xf0 == 0x40 {
		wide = code[at]&8 != 0
		at++
	}
	if len(code) < at+2 {
		if len(code) > at && (code[at] == 0xc3 || code[at] == 0xcc) {
			return at + 1, map[byte]flow{0xc3: flowReturn, 0xcc: flowEnd}[code[at]], 0
		}
		return 0, flowUnknown, 0
	}
	immediate := 4
	if short && !wide {
		immediate = 2
	}
	op, kind := code[at], oneByte[code[at]]
	at++
	modrm := code[at]
	switch {
	case op == 0xc3:
		return at, flowReturn, 0
	case op == 0xc2:
		return at + 2, flowReturn, 0
	case op == 0xcc, op == 0xf4:
		return at, flowEnd, 0
	case op == 0x0f:
		return decode0F(code, at, immediate)
	case op == 0xc4, op == 0xc5, op == 0x62:
		return decodeVector(code, at, op)
	case op == 0xe8: // call
		return at + 4, flowNext, 0
	case op == 0xe9:
		return jump(code, at, 4, flowJump)
	case op == 0xeb:
		return jump(code, at, 1, flowJump)
	case op >= 0xb8 && op <= 0xbf && wide:
		return at + 8, flowNext, 0
	case op >= 0xb8 && op <= 0xbf:
		kind = 'z'
	case op == 0xc8: // enter
		return at + 3, flowNext, 0
	case op == 0x8f && modrm>>3&7 == 0: // pop
		kind = 'm'
	case op == 0xf6 || op == 0xf7:
		kind = 'm'
		if modrm>>4&3 == 0 { // test
			kind = map[byte]byte{0xf6: 'b', 0xf7: 'd'}[op]
		}
	case op == 0xff && modrm>>3&6 == 4: // jump through a pointer
		return 0, flowUnknown, 0
	}
	return operands(code, at, kind, immediate)
}

// decode0F decodes an instruction with a second opcode byte at at.
func decode0F(code []byte, at, immediate int) (n int, then flow, to int64) {
	op := code[at]
	switch op {
	case 0x0b:
		return at + 1, flowEnd, 0
	case 0x38:
		return operands(code, at+2, 'm', immediate)
	case 0x3a:
		return operands(code, at+2, 'b', immediate)
	}
	return operands(code, at+1, twoBytes[op], immediate)
}

// decodeVector decodes an instruction with a VEX or EVEX prefix, whose second byte is at at.
func decodeVector(code []byte, at int, prefix byte) (n int, then flow, to int64) {
	table, size := byte(1), 1
	switch prefix {
	case 0xc4:
		table, size = code[at]&0x1f, 2
	case 0x62:
		table, size = code[at]&7, 3
	}
	if at += size; at >= len(code) {
		return 0, flowUnknown, 0
	}
	switch op := code[at]; {
	case table == 1 && op == 0x77: // vzeroupper
		return at + 1, flowNext, 0
	case table == 1 && twoBytes[op] == 'b', table == 3:
		return operands(code, at+1, 'b', 4)
	case table == 1, table == 2:
		return operands(code, at+1, 'm', 4)
	}
	return 0, flowUnknown, 0
}

// operands ends the decoding of an instruction whose operands begin at at.
func operands(code []byte, at int, kind byte, immediate int) (n int, then flow, to int64) {
	switch kind {
	case 'j':
		return jump(code, at, 1, flowBranch)
	case 'J':
		return jump(code, at, 4, flowBranch)
	case '.':
		return at, flowNext, 0
	case 'i':
		return at + 1, flowNext, 0
	case 'z':
		return at + immediate, flowNext, 0
	case '?':
		return 0, flowUnknown, 0
	}
	if at+2 > len(code) {
		return 0, flowUnknown, 0
	}
	mod, rm := code[at]>>6, code[at]&7
	at++
	if mod != 3 && rm == 4 { // a SIB byte
		if at++; mod == 0 && code[at-1]&7 == 5 {
			at += 4
		}
	}
	switch {
	case mod == 1:
		at++
	case mod == 2, mod == 0 && rm == 5:
		at += 4
	}
	switch kind {
	case 'b':
		at++
	case 'd':
		at += immediate
	}
	return at, flowNext, 0
}

// jump decodes a jump whose distance of size bytes is at at.
func jump(code []byte, at, size int, then flow) (int, flow, int64) {
	if at+size > len(code) {
		return 0, flowUnknown, 0
	}
	n := at + size
	if size == 1 {
		return n, then, int64(n) + int64(int8(code[at]))
	}
	return n, then, int64(n) + int64(int32(binary.LittleEndian.Uint32(code[at:])))
}
