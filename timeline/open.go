package timeline

import (
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/format"
)

// Open loads a whole trace: its reader, the model of its runtime, and all calls, tasks, objects and steps. The caller closes Timeline.Reader. A
// Walk reads long traces in bounded memory.
func Open(path string) (*Timeline, error) {
	r, m, err := OpenReader(path)
	if err != nil {
		return nil, err
	}
	t, err := Load(r, m)
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return t, nil
}

// OpenReader opens a trace and finds the model of its runtime.
func OpenReader(path string) (*format.Reader, *api.Model, error) {
	r, err := format.Open(path, nil)
	if err != nil {
		return nil, nil, err
	}
	m, err := modelOf(path, r)
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return r, m, nil
}

func modelOf(path string, r *format.Reader) (*api.Model, error) {
	name := r.Meta().API
	m := runtimes.Named(name)
	switch of := r.Meta().BlobsOf; {
	case of != "":
		return nil, fmt.Errorf("%s has only the payloads of %s: name that trace", path, of)
	case m != nil:
		return m, nil
	case name == "" && !r.Complete():
		return nil, fmt.Errorf("%s: %w before the name of its runtime", path, format.ErrTruncated)
	case name == "":
		return nil, fmt.Errorf("%s: the trace does not name its runtime", path)
	}
	return nil, fmt.Errorf("%s: unknown runtime %q", path, name)
}
