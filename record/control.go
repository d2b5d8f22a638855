package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

// A recording in progress listens on a socket in its session's folder, which only its user can reach. The protocol is one JSON object
// there and one back.

// Action is what a recording can be asked.
type Action string

// The actions.
const (
	ActStatus   Action = "status"
	ActStart    Action = "start"    // record again
	ActStop     Action = "stop"     // record nothing for now
	ActSnapshot Action = "snapshot" // of a Ring: seal it into a trace
)

// Request is one question to a recording.
type Request struct {
	Do  Action `json:"do"`
	PID int    `json:"pid,omitempty"` // of the only process that starts, 0 for all
}

// Status is what a recording says of itself.
type Status struct {
	Session   string   `json:"session"` // folder
	Recorder  int      `json:"recorder_pid"`
	Command   []string `json:"command"`
	Processes []int    `json:"pids"` // that have called the runtime
	Recording bool     `json:"recording"`
	Only      int      `json:"only_pid,omitempty"` // records alone
	Calls     uint64   `json:"calls"`
	Lost      uint64   `json:"lost"`
	Ring      int64    `json:"ring_bytes,omitempty"` // that the ring takes, where there is one
	Sealed    []string `json:"sealed,omitempty"`     // traces so far, those that are being written among them
	Output    string   `json:"output"`
	// Standing are calls that have begun and not returned, of each thread the outermost, the oldest first.
	Standing []Standing `json:"standing"`
	Seconds  float64    `json:"seconds"` // since the beginning
	Error    string     `json:"error,omitempty"`
}

// Standing is a call that has begun and not returned.
type Standing struct {
	PID     int    `json:"pid"`
	TID     int    `json:"tid"`
	Func    string `json:"func"`
	On      string `json:"on,omitempty"` // the handle of the stream, event or notify that the call names
	StartNS int64  `json:"start_ns"`     // on the clock of the trace's calls
	ForNS   int64  `json:"for_ns"`       // until now
}

const controlSocket = "socket"

// controlTimeout is how long either side waits for the other.
const controlTimeout = 10 * time.Second

// control answers requests between drains, on the goroutine that drains.
type control struct {
	l    net.Listener
	asks chan ask
	once sync.Once
	done chan struct{}
}

type ask struct {
	Request
	answer chan Status
}

// listen begins to listen in a session's folder. A mode says who may ask; 0 means this user alone.
func listen(dir string, mode os.FileMode) (*control, error) {
	path := filepath.Join(dir, controlSocket)
	os.Remove(path) // of a recorder that was killed
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if mode != 0 {
		if err := os.Chmod(path, mode); err != nil {
			l.Close()
			return nil, err
		}
	}
	c := &control{l: l, asks: make(chan ask), done: make(chan struct{})}
	go c.serve()
	return c, nil
}

func (c *control) serve() {
	for {
		conn, err := c.l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(controlTimeout))
			a := ask{answer: make(chan Status, 1)}
			if json.NewDecoder(conn).Decode(&a.Request) != nil {
				return
			}
			select {
			case c.asks <- a:
			case <-c.done:
				return
			}
			select {
			case s := <-a.answer:
				_ = json.NewEncoder(conn).Encode(&s)
			case <-c.done:
			}
		}()
	}
}

func (c *control) close() {
	c.once.Do(func() {
		close(c.done)
		c.l.Close()
	})
}

// answer does what has been asked since the last time.
func (r *recorder) answer(s *probe.Session) error {
	if r.control == nil {
		return nil
	}
	for {
		select {
		case a := <-r.control.asks:
			err := r.act(s, &a.Request)
			st := r.status(s)
			if err != nil {
				st.Error = err.Error()
			}
			a.answer <- st
		default:
			return nil
		}
	}
}

func (r *recorder) act(s *probe.Session, q *Request) error {
	switch q.Do {
	case ActStatus:
		return nil
	case ActSnapshot:
		if r.flight == nil {
			return errors.New("it records everything into one file: a snapshot is of a ring, which `acltrace record --ring` keeps")
		}
		return r.flight.seal("somebody asked for it")
	case ActStart:
		if q.PID != 0 {
			s.Wait(q.PID)
		} else {
			s.Go()
		}
		return r.resumed()
	case ActStop:
		if q.PID != 0 {
			return errors.New("stop is for all processes; start --pid has one record alone")
		}
		if r.waiting == 0 {
			r.waiting = max(probe.Now()-r.meta.StartMono, 1)
		}
		r.b.lacks = format.Detached
		s.Wait(0)
		return nil
	}
	return fmt.Errorf("no action %q", q.Do)
}

// resumed notes that nothing was recorded for a time.
func (r *recorder) resumed() error {
	from := r.waiting
	if r.waiting = 0; from == 0 {
		return nil
	}
	r.since = probe.Now() - r.meta.StartMono
	return r.b.gap(format.Gap{Thread: format.NoThread, From: from, To: r.since, Reason: format.Detached})
}

func (r *recorder) status(s *probe.Session) Status {
	only, waiting := s.Waiting()
	st := Status{Session: s.Dir(), Recorder: os.Getpid(), Command: r.o.Command, Processes: s.Processes(), Recording: !waiting || only != 0, Only: only,
		Calls: r.b.calls, Lost: r.b.lost, Output: r.o.Output, Seconds: float64(probe.Now()-r.meta.StartMono) / 1e9}
	slices.Sort(st.Processes)
	st.Standing = r.standing(s)
	if r.flight != nil {
		st.Ring = r.flight.size()
		for n := range r.flight.sealed {
			st.Sealed = append(st.Sealed, numbered(r.o.Output, n+1))
		}
	}
	return st
}

// standing lists the calls that programs are in.
func (r *recorder) standing(s *probe.Session) []Standing {
	list := []Standing{}
	for _, c := range s.Standing() {
		f := r.o.Model.Func(c.Func)
		st := Standing{PID: c.PID, TID: c.TID, Func: f.Name, StartNS: c.Start - r.meta.StartMono, ForNS: max(probe.Now()-c.Start, 0)}
		for kind, i := range map[string]int{"stream": int(f.Stream), "event": int(f.Event)} {
			if i >= 0 && i < len(f.Params) && st.On == "" {
				st.On = fmt.Sprintf("%s %#x", kind, c.Words[f.Params[i].Word])
			}
		}
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b Standing) int { return cmp.Compare(a.StartNS, b.StartNS) })
	return list
}

// Sessions returns the folders of the recordings in progress that this user can reach, of those in a parent folder; ""
// is where they are made.
func Sessions(parent string) []string {
	if parent == "" {
		parent = probe.DefaultDir
	}
	found, _ := filepath.Glob(filepath.Join(parent, "acltrace-*", controlSocket))
	for i, f := range found {
		found[i] = filepath.Dir(f)
	}
	return found
}

// SessionOf returns the folder of the recording in progress that writes a trace, "" if there is none.
func SessionOf(uuid string) string {
	for _, dir := range Sessions("") {
		if was := left(dir); was.UUID != "" && was.UUID == uuid {
			return dir
		}
	}
	return ""
}

// ErrNoRecorder is returned, wrapped, where no recorder answers in a session's folder.
var ErrNoRecorder = errors.New("no recorder answers")

// Ask asks the recording with the session's folder.
func Ask(session string, q *Request) (*Status, error) {
	conn, err := net.DialTimeout("unix", filepath.Join(session, controlSocket), controlTimeout)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", session, ErrNoRecorder, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(controlTimeout))
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return nil, fmt.Errorf("%s: %w", session, err)
	}
	var st Status
	err = json.NewDecoder(conn).Decode(&st)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%s: its recorder does not answer within %v: it is stopped, or has no core", session, controlTimeout)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", session, ErrNoRecorder, err)
	}
	if st.Error != "" {
		return &st, fmt.Errorf("%s: %s", session, st.Error)
	}
	return &st, nil
}
