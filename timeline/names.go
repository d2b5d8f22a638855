package timeline

import "github.com/acltrace/acltrace/internal/human"

// kernelNames has the symbols of C++ kernels by the names that the Walk has reported.
type kernelNames map[string]string

// of returns a kernel's name as viewers show it.
func (n *kernelNames) of(symbol string) string {
	name := human.Kernel(symbol)
	if name == symbol {
		return name
	}
	if _, known := (*n)[name]; !known {
		if *n == nil {
			*n = kernelNames{}
		}
		(*n)[name] = symbol
	}
	return name
}

// Symbol returns the name in the kernel's binary for a name that the Walk has reported.
func (w *Walk) Symbol(kernel string) string {
	if symbol, ok := w.names.kernels[kernel]; ok {
		return symbol
	}
	return kernel
}
