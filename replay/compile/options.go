package compile

import (
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/verify"
)

// CompileOptions are the parameters of Trace. Backend is required; the zero value of each other field is its default.
type Options struct {
	Backend      backend.Backend
	Place        string  // PlaceSame, PlaceMove or PlaceAuto
	Scale        float64 // of recorded times, 0 if they are not kept
	Compare      bool    // results are compared: with the recorded ones, or between repeated runs
	TimeLaunches bool    // the player reads its clock around each launch of a kernel
	Poison       bool    // fill new device memory with the byte of a run
	StubComm     bool    // replace processes that are not in the trace
	Relative     bool    // the plan names files by their path in its folder
	Tolerance    verify.Tolerance
	Limits       Limits
}

// Values of CompileOptions.Place.
const (
	PlaceSame = "same" // allocations lie where they were, or the replay is an error
	PlaceMove = "move" // the simulator puts all of them elsewhere
	PlaceAuto = "auto" // where they were if the library can do that
)
