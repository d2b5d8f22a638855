package memory

import "bytes"

// stain writes the name of a kernel into the page that all processes of the object see. The first one stays.
func (l *Slot) Stain(kernel string) {
	if l.stainState.CompareAndSwap(0, 1) {
		copy(l.stainName[:len(l.stainName)-1], kernel)
		l.stainState.Store(2)
	}
}

// stainedBy returns the name of the kernel, "" while another process is writing it.
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
