package space

// Access to a range of device memory.
const (
	Read  = 1
	Write = 2
)

// Extent is a range of device memory that a launch will touch.
type Extent struct {
	Addr, Size uint64
	Access     uint32
	Arg        uint32 // number of the argument that it comes from
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
