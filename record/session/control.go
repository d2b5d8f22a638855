package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/standing"
	"github.com/acltrace/acltrace/probe/ring"
)

// Action is a request to a recording. A recording in progress listens on a socket in its session's folder, which only its user
// can access. A client sends one JSON object and receives one.
type Action string

// The actions.
const (
	ActStatus   Action = "status"
	ActStart    Action = "start"    // record again
	ActStop     Action = "stop"     // record nothing for now
	ActSnapshot Action = "snapshot" // seal the ring into a trace
)

// Request is one message to a recording.
type Request struct {
	Do  Action `json:"do"`
	PID int    `json:"pid,omitempty"` // the only process that starts, 0 for all
}

// Status is a recording's answer.
type Status struct {
	Session   string          `json:"session"`              // folder of the recording's session
	Recorder  int             `json:"recorder_pid"`         // process id of the recorder
	Command   []string        `json:"command"`              // the program's command line, null if running programs were recorded
	Processes []int           `json:"pids"`                 // process ids that have called the runtime
	Recording bool            `json:"recording"`            // calls are being recorded
	Only      int             `json:"only_pid,omitempty"`   // only process that records, 0 for all
	Calls     uint64          `json:"calls"`                // number of calls so far
	Lost      uint64          `json:"lost"`                 // calls known to be lost so far
	Ring      int64           `json:"ring_bytes,omitempty"` // size of the ring, 0 for none
	Sealed    []string        `json:"sealed,omitempty"`     // traces saved so far, including those that are being written
	Output    string          `json:"output"`               // file of the trace
	Standing  []standing.Call `json:"standing"`             // unfinished calls, the outermost one a thread, oldest first
	Seconds   float64         `json:"seconds"`              // seconds since the recording began
	Error     string          `json:"error,omitempty"`      // why the recording refused the action
}

const Socket = "socket"

// controlTimeout is how long either side waits for the other.
const controlTimeout = 10 * time.Second

// Server answers requests, each on a goroutine of its own.
type Server struct {
	l      net.Listener
	answer Answer
	done   chan struct{}

	mu      sync.Mutex // guards closed, and Add before Wait
	closed  bool
	answers sync.WaitGroup
}

// Answer returns the answer to a request. It must return soon after done is closed.
type Answer func(q *Request, done <-chan struct{}) Status

// Listen begins to listen in a session's folder. A mode says who may ask; 0 means this user alone.
func Listen(dir string, mode os.FileMode, answer Answer) (*Server, error) {
	path := filepath.Join(dir, Socket)
	os.Remove(path) // a killed recorder may have left it
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
	c := &Server{l: l, answer: answer, done: make(chan struct{})}
	go c.serve()
	return c, nil
}

func (c *Server) serve() {
	for {
		conn, err := c.l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(controlTimeout))
			var q Request
			if json.NewDecoder(conn).Decode(&q) != nil || !c.begin() {
				return
			}
			s := c.answer(&q, c.done)
			c.answers.Done()
			_ = json.NewEncoder(conn).Encode(&s)
		}()
	}
}

// begin begins an answer, unless the server is closed.
func (c *Server) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.answers.Add(1)
	}
	return !c.closed
}

// Close ends the server, and waits for answers in progress.
func (c *Server) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	close(c.done)
	c.l.Close()
	c.answers.Wait()
}

// List returns the session folders of recordings in progress that this user can access. An empty parent stands for the
// default folder of sessions.
func List(parent string) []string {
	if parent == "" {
		parent = ring.DefaultDir
	}
	found, _ := filepath.Glob(filepath.Join(parent, "acltrace-*", Socket))
	for i, f := range found {
		found[i] = filepath.Dir(f)
	}
	return found
}

// Writing returns the session folder of the recording that is writing a trace, "" if there is none.
func Writing(uuid string) string {
	for _, dir := range List("") {
		if was := ReadNote(dir); was.UUID != "" && was.UUID == uuid {
			return dir
		}
	}
	return ""
}

// Refusal is a reason why a recording does not carry out a request.
type Refusal string

// The refusals.
const (
	NoRing   Refusal = "a snapshot needs a ring: this recording writes everything into one file"
	StopsAll Refusal = "stop applies to all processes"
	Busy     Refusal = "the recorder waits for a disk: it saves the snapshot when it can write"
)

func (r Refusal) Error() string { return string(r) }

// ErrNoRecorder is wrapped by the error of Ask if no recorder answers.
var ErrNoRecorder = errors.New("no recorder responds")

// Ask sends a request to the recording with a session folder. The error wraps a Refusal if the recording refuses.
func Ask(session string, q *Request) (*Status, error) {
	conn, err := net.DialTimeout("unix", filepath.Join(session, Socket), controlTimeout)
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
		return nil, fmt.Errorf("%s: its recorder did not respond within %s: it is stopped, or gets no processor", session, human.Duration(controlTimeout.Nanoseconds()))
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", session, ErrNoRecorder, err)
	}
	if st.Error != "" {
		return &st, fmt.Errorf("%s: %w", session, Refusal(st.Error))
	}
	return &st, nil
}

// Killed returns the session folder of a recorder that was killed while it wrote a trace: its programs' buffers may have calls that the trace lacks.
// It is "" if there is none, or if the trace is a copy.
func Killed(r *format.Reader) string {
	if r.Complete() {
		return ""
	}
	for _, dir := range List("") {
		if was := ReadNote(dir); was.WritesFile() && was.UUID == r.Meta().UUID && was.began(r.Path()) && Abandoned(dir) {
			return dir
		}
	}
	return ""
}
