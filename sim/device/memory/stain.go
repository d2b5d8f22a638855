package memory

import "bytes"

// Stain stores a kernel's name for all processes that share the object. The first name stays.
func (l *Slot) Stain(kernel string) {
	if l.stainState.CompareAndSwap(0, 1) {
		copy(l.stainName[:len(l.stainName)-1], kernel)
		l.stainState.Store(2)
	}
}

// StainedBy returns the kernel's name; "of another process" while it is being written.
func (l *Slot) StainedBy() (kernel string, ok bool) {
	switch l.stainState.Load() {
	case 0:
		return "", false
	case 1:
		return "of another process", true
	}
	name, _, _ := bytes.Cut(l.stainName[:], []byte{0})
	return string(name), true
}
