package backend

import "github.com/acltrace/acltrace/api"

// NullName is Null's name on the command line and for the player.
const NullName = "null"

var nullKind = Kind{
	Name:     NullName,
	Excludes: []string{"place", "verify", "kernels", "tolerance", "strict", "trust", "poison"},
	Because:  "no library is called",
	make:     func(string, *api.Model) Backend { return Null{} },
}

// Null calls no library: the player replaces each function by one that returns 0 at once. A replay's duration is the player's own.
type Null struct{}

// Clock implements Backend.
func (Null) Clock() Clock { return RealClock }

// Library implements Backend.
func (Null) Library() (string, error) { return NullName, nil }

// Placement implements Backend.
func (Null) Placement() Placement { return Nowhere }

// Environment implements Backend.
func (Null) Environment(uint64, bool) []string { return nil }

// NeedsTrust implements Backend.
func (Null) NeedsTrust() bool { return false }

// Computes implements Backend.
func (Null) Computes() bool { return false }
