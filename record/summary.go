package record

import "github.com/acltrace/acltrace/format"

// A Summary is the JSON form of a Result.
type Summary struct {
	Output     string            `json:"output"`               // file of the trace
	NoFile     string            `json:"no_file,omitempty"`    // why there is no trace
	OlderKept  bool              `json:"older_kept,omitempty"` // no call was recorded, and the earlier trace is kept
	Moved      []string          `json:"moved"`                // new names of earlier traces
	Ranks      []RankSummary     `json:"ranks,omitempty"`      // traces of single ranks
	Stopped    Stop              `json:"stopped"`              // why recording stopped: ended, time, steps, size, asked or failed
	Sealed     []string          `json:"sealed,omitempty"`     // traces of a ring
	Bytes      int64             `json:"bytes"`                // size of the trace
	BlobFile   string            `json:"blob_file,omitempty"`  // file of --blobs
	BlobBytes  int64             `json:"blob_bytes,omitempty"` // size of the --blobs file
	Calls      uint64            `json:"calls"`                // number of recorded calls, without marks of operators
	Failed     uint64            `json:"failed"`               // calls that returned an error
	Unfinished uint64            `json:"unfinished"`           // calls that had not returned at the end
	Cut        uint64            `json:"cut,omitempty"`        // of them, calls during which the recording ended
	Lost       uint64            `json:"lost"`                 // calls known to be lost
	Unwritten  uint64            `json:"unwritten"`            // calls that could not be written
	Threads    int               `json:"threads_not_recorded"` // threads without a buffer, which were not recorded
	Processes  int               `json:"processes"`            // number of recorded processes
	Asleep     []format.Asleep   `json:"asleep,omitempty"`     // threads that slept throughout an attached recording
	Unseen     []format.Unhooked `json:"not_recorded"`         // processes and libraries that the recorder did not see
	Full       bool              `json:"full"`                 // --max-size ended the recording
	Incomplete string            `json:"incomplete,omitempty"` // why the recording ended before the program
	ExitCode   int               `json:"exit_code"`            // the program's exit code; 128 and the signal if one killed it
	Signal     int               `json:"signal,omitempty"`     // signal that killed the program
	// NotComputed are the operators that no kernel library computes: results that depend on them are unknown.
	NotComputed []string `json:"not_computed,omitempty"`
}

// A RankSummary is the trace of one rank.
type RankSummary struct {
	Rank   int    `json:"rank"`   // number of the rank
	Output string `json:"output"` // file of its trace
	Calls  uint64 `json:"calls"`  // number of recorded calls
	Bytes  int64  `json:"bytes"`  // size of its trace
}

// Summary returns the JSON form.
func (res *Result) Summary() *Summary {
	r := &Summary{
		Stopped: res.Stop,
		Output:  res.Output, NoFile: res.File.Missing, OlderKept: res.File.OlderKept, Moved: append([]string{}, res.File.Moved...), Sealed: res.Sealed, Bytes: res.File.Bytes, BlobFile: res.File.BlobFile, BlobBytes: res.File.BlobBytes,
		Calls: res.Calls - res.Marks, Failed: res.Failed, Unfinished: res.Unfinished, Cut: res.Cut, Lost: res.Lost, Unwritten: res.Unwritten, Threads: res.Refused, Processes: res.Processes, Asleep: res.Asleep,
		Unseen: append([]format.Unhooked{}, res.Unhooked...), Full: res.File.Full, ExitCode: res.ExitCode, Signal: res.Signal, NotComputed: res.Kernels.NotComputed,
	}
	for _, f := range res.Ranks {
		r.Ranks = append(r.Ranks, RankSummary(f))
	}
	if res.Incomplete != nil {
		r.Incomplete = res.Incomplete.Error()
	}
	return r
}
