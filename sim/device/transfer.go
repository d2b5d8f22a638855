package device

import (
	"fmt"
	"slices"
	"time"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// Transfer is a copy of rows; a plain copy has one row.
type Transfer struct {
	Dst, Src             uint64
	Width, Height        uint64
	DstPitch, SrcPitch   uint64
	ToDevice, FromDevice bool   // Dst, Src must be device memory
	Pinned               bool   // the host side must be allocated by the runtime
	Staged               []byte // bytes taken at the call; nil if the task reads Src
	Doubt                uint8  // a reason to mark all bytes if they come from host memory; 0 for none
}

func Plain(dst, src, n uint64) Transfer {
	return Transfer{Dst: dst, Src: src, Width: n, Height: 1, DstPitch: n, SrcPitch: n}
}

// Check returns an error unless known memory holds the transfer.
func (s *Machine) Check(x *Transfer) error {
	if err := s.checkSide(x.Dst, (x.Height-1)*x.DstPitch+x.Width, space.Write, x.ToDevice, x.Pinned); err != nil {
		return err
	}
	if x.Staged != nil {
		return nil
	}
	return s.checkSide(x.Src, (x.Height-1)*x.SrcPitch+x.Width, space.Read, x.FromDevice, x.Pinned)
}

// checkSide checks one side. onDevice requires device memory; pinned requires host memory of the runtime, which the
// program may have freed since the call.
func (s *Machine) checkSide(addr, n uint64, access uint32, onDevice, pinned bool) error {
	if mutant.Breaks("copy_behind_the_end") {
		return nil
	}
	if d := s.Locate(addr).Device; d != nil {
		return d.Memory.Check(addr, n, access)
	}
	if s.Managed.Owns(addr) {
		return s.Managed.Check(addr, n)
	}
	if onDevice {
		return fmt.Errorf("%s at %#x, not on a device", human.Plural(n, "byte"), addr)
	}
	if addr < space.PageSize {
		return fmt.Errorf("%#x is not a valid address", addr)
	}
	h, ok := s.Host.Find(addr)
	if ok && n > h.End()-addr || pinned && !ok {
		return fmt.Errorf("%s at %#x, not in one host allocation", human.Plural(n, "byte"), addr)
	}
	return nil
}

// Move copies the bytes.
func (x *Transfer) Move() {
	if x.Staged != nil {
		copy(space.Bytes(x.Dst, x.Width), x.Staged)
		return
	}
	for i := range x.Height {
		copy(space.Bytes(x.Dst+i*x.DstPitch, x.Width), space.Bytes(x.Src+i*x.SrcPitch, x.Width))
	}
}

// CopyKind returns the cost model's kind for a transfer.
func (s *Machine) CopyKind(x *Transfer) model.CopyKind {
	from, to := s.Locate(x.Src).Device, s.Locate(x.Dst).Device
	switch {
	case from == nil && to == nil:
		return model.HostToHost
	case from == nil || x.Staged != nil:
		return model.HostToDevice
	case to == nil:
		return model.DeviceToHost
	case from != to:
		return model.PeerToPeer
	}
	return model.DeviceToDevice
}

// TransferCost returns the device time of a transfer.
func (s *Machine) TransferCost(x *Transfer) time.Duration {
	return s.CopyTime(s.CopyKind(x), x.Width*x.Height)
}

// Fill fills device memory or pinned host memory with a pattern. n must be a multiple of its length.
func (s *Machine) Fill(p uint64, pattern []byte, n uint64) error {
	if err := s.checkSide(p, n, space.Write, false, true); err != nil {
		return err
	}
	s.MarkKnown(p, n)
	s.Repeat(space.Span{Addr: p, Size: n}, pattern)
	return nil
}

// largeFill is the size from which a fill with zeros returns pages to the host. A framework zeroes caches of many GiB that it hardly uses.
const largeFill = 1 << 20

// Repeat fills memory with a pattern.
func (s *Machine) Repeat(at space.Span, pattern []byte) {
	if slices.Max(pattern) == 0 {
		if at.Size >= largeFill && s.Locate(at.Addr).Device != nil {
			memory.Zero(at)
		} else {
			clear(space.Bytes(at.Addr, at.Size))
		}
		return
	}
	// Doubling copies are faster than a loop over bytes.
	b := space.Bytes(at.Addr, at.Size)
	for done := copy(b, pattern); done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
}

// Copied returns the copy for strict mode.
func (x *Transfer) Copied() *strict.Copy {
	return &strict.Copy{Dst: x.Dst, Src: x.Src, Width: x.Width, Height: x.Height, DPitch: x.DstPitch, SPitch: x.SrcPitch, Staged: x.Staged != nil}
}
