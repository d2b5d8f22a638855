package space

// Kinds of access to device memory.
const (
	Read  = 1
	Write = 2
)

// Extent is a device memory range that a launch touches.
type Extent struct {
	Addr, Size uint64
	Access     uint32
	Arg        uint32 // index of the argument
}

func AccessName(a uint32) string {
	switch a {
	case Read:
		return "read"
	case Write:
		return "written"
	}
	return "read and written"
}
