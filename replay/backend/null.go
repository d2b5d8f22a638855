package backend

import "github.com/acltrace/acltrace/api"

// NullName is Null's name on the command line and for the player.
const NullName = "null"

var nullKind = Kind{
	Name:     NullName,
	Text:     "no library",
	Excludes: []string{"place", "graphs", "guess", "verify", "kernels", "tolerance", "strict", "trust", "poison"},
	Because:  "no library is called",
	make:     func(string, *api.Model) Backend { return Null{} },
}

// Null calls no library: the player replaces each function by one that returns 0 at once. A replay's duration is the player's own.
type Null struct{}

func (Null) Clock() Clock                { return RealClock }
func (Null) Library() (string, error)    { return NullName, nil }
func (Null) Placement() Placement        { return Nowhere }
func (Null) Environment(uint64) []string { return nil }
func (Null) NeedsTrust() bool            { return false }
func (Null) Computes() bool              { return false }
