package uprobe

import (
	"fmt"

	"github.com/acltrace/acltrace/probe/bpf"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A kernel without cookies does not pass a probe's cookie to its program. So each probe gets a program of its own, a stub. The
// stub stores the cookie in the map cookie and jumps to the shared program on the same processor. These kernels run no other
// probe in between.

const stubEnter, stubLeave = 0, 1

// prepareStubs makes the table of programs that stubs jump to.
func (u *Probes) prepareStubs() error {
	var err error
	u.programs.stubs, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 2})
	if err != nil {
		return fmt.Errorf("programs of probes: %w", err)
	}
	for at, name := range map[uint32]string{stubEnter: u.programs.entry, stubLeave: u.programs.exit} {
		if name == "" {
			continue
		}
		if err := u.programs.stubs.Put(at, u.programs.coll.Programs[name]); err != nil {
			return fmt.Errorf("programs of probes: %w", err)
		}
	}
	return nil
}

// stub makes the program for one probe.
func (u *Probes) stub(cookie uint64, as how) (*ebpf.Program, error) {
	next := int32(stubEnter)
	if as != atEntry {
		next = stubLeave
	}
	return ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, u.programs.coll.Maps[bpf.UprobeMapCookie].FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.LoadImm(asm.R1, int64(cookie), asm.DWord),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, u.programs.stubs.FD()),
		asm.Mov.Imm(asm.R3, next),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	}})
}
