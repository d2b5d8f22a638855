package session

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/ring"
)

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// A request reaches the recording whose socket it is, and gets its answer; Close waits for it.
func TestRequestsReachTheirRecording(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	write(t, filepath.Join(dir, Socket), nil) // left by a killed recorder
	var asked []Request
	var mu sync.Mutex
	s, err := Listen(dir, 0o666, func(q *Request, done <-chan struct{}) Status {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, *q)
		if q.Do == ActSnapshot {
			return Status{Session: dir, Error: string(NoRing)}
		}
		return Status{Session: dir, Calls: 7, Sealed: []string{"a"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(dir, Socket)); err != nil || st.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", st, err)
	}
	for _, q := range []Request{{Do: ActStatus}, {Do: ActStart, PID: 5}} {
		got, err := Ask(dir, &q)
		if err != nil || got.Session != dir || got.Calls != 7 || !slices.Equal(got.Sealed, []string{"a"}) {
			t.Errorf("%+v: %+v, %v", q, got, err)
		}
	}
	var refused Refusal
	if got, err := Ask(dir, &Request{Do: ActSnapshot}); !errors.As(err, &refused) || refused != NoRing || got.Session != dir {
		t.Errorf("%+v, %v", got, err)
	}
	s.Close()
	if _, err := Ask(dir, &Request{Do: ActStop}); !errors.Is(err, ErrNoRecorder) {
		t.Errorf("a closed server answers: %v", err)
	}
	if !slices.Equal(asked, []Request{{Do: ActStatus}, {Do: ActStart, PID: 5}, {Do: ActSnapshot}}) {
		t.Errorf("%+v", asked)
	}
}

// limited reports the time limits of a listener's connections.
type limited struct {
	net.Listener
	limits chan time.Time
}

type limitedConn struct {
	net.Conn
	limits chan time.Time
}

func (l limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return limitedConn{c, l.limits}, err
}

func (c limitedConn) SetDeadline(at time.Time) error {
	c.limits <- at
	return c.Conn.SetDeadline(at)
}

// A client that asks nothing is given up.
func TestServerLimitsSilentClients(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	limits := make(chan time.Time, 1)
	c := &Server{l: limited{l, limits}, done: make(chan struct{})}
	go c.serve()
	defer c.Close()
	before := time.Now()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	select {
	case at := <-limits:
		if at.Before(before) {
			t.Errorf("it is given up at %v, before %v", at, before)
		}
	case <-time.After(testenv.Patience):
		t.Error("it has no limit")
	}
}

// A connection that comes while the server is closed gets no answer, and holds nobody up.
func TestClosedServerBeginsNoAnswer(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	c := &Server{l: l, done: make(chan struct{})}
	testenv.Within(t, "closing", c.Close)
	testenv.Within(t, "a late connection", func() {
		if c.begin() {
			t.Error("it is answered")
		}
	})
}

// Sessions of recordings in progress have sockets.
func TestSessionsWithSocketsAreListed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"acltrace-1/socket", "acltrace-2/control", "other-3/socket", "acltrace-4/socket"} {
		write(t, filepath.Join(dir, name), nil)
	}
	if got := List(dir); !slices.Equal(got, []string{filepath.Join(dir, "acltrace-1"), filepath.Join(dir, "acltrace-4")}) {
		t.Errorf("%q", got)
	}
	made, err := os.MkdirTemp(ring.DefaultDir, "acltrace-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(made)
	write(t, filepath.Join(made, Socket), nil)
	if got := List(""); !slices.Contains(got, made) {
		t.Errorf("%q lack %s", got, made)
	}
}

// A note says where the calls of a killed recorder are. A damaged or missing one says where to put them.
func TestNoteNamesTheKilledRecordersCalls(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out", "x.aclt")
	for text, want := range map[string]Note{
		"": {Output: "salvaged.aclt"}, "{": {Output: "salvaged.aclt"}, `{"pid":7}`: {PID: 7, Output: "salvaged.aclt"},
		string((&Note{PID: 7, Output: out, Handed: 3, Begun: 9, Ring: true, UUID: "u"}).Bytes()): {PID: 7, Output: out, Handed: 3, Begun: 9, Ring: true, UUID: "u"},
	} {
		write(t, filepath.Join(dir, NoteFile), []byte(text))
		if got := ReadNote(dir); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := ReadNote(filepath.Join(dir, "gone")); got != (Note{Output: "salvaged.aclt"}) {
		t.Errorf("%+v", got)
	}
	for n, want := range map[Note]bool{{UUID: "u"}: true, {}: false, {UUID: "u", Ring: true}: false, {Ring: true}: false} {
		if n.WritesFile() != want {
			t.Errorf("%+v writes a file: %v", n, !want)
		}
	}
}

// The file that a recorder had begun is found by its id, also if a later recording has its name.
func TestBegunFileIsFoundByID(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector closes files, too
	dir := t.TempDir()
	path := filepath.Join(dir, "x.aclt")
	create := func(path, uuid string) {
		t.Helper()
		w, err := format.Create(path, &format.Meta{API: "acl", UUID: uuid}, schema.Of(acl.Model), nil)
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	n := Note{Output: path, UUID: format.NewUUID()}
	if n.Open() != nil {
		t.Error("a file that does not exist")
	}
	create(path, format.NewUUID())
	if n.Open() != nil || n.began(path) {
		t.Error("the file of another recording")
	}
	create(path, n.UUID)
	if !n.began(path) || n.began(dir) {
		t.Error("the recorder has begun another file")
	}
	r := n.Open()
	if r == nil {
		t.Fatal("the recorder's file was not found")
	}
	r.Close()
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil && filepath.Dir(to) == dir {
			t.Errorf("%s is still open", to)
		}
	}
}

// A session that holds calls has no recorder any more if nobody holds its lock.
func TestUnlockedSessionHasNoRecorder(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		note  *Note // of a file in a folder that exists
		want  bool
	}{
		"with a file":      {[]string{"control"}, &Note{UUID: "u"}, true},
		"with a ring":      {[]string{"control", "flight/1.0.0.aclt"}, nil, true},
		"without calls":    {[]string{"control"}, nil, false},
		"an empty ring":    {[]string{"control", "flight/x"}, &Note{UUID: "u", Ring: true}, false},
		"shared":           {[]string{"control", SharedMark}, &Note{UUID: "u"}, false},
		"no session":       {nil, &Note{UUID: "u"}, false},
		"its folder gone":  {[]string{"control"}, &Note{UUID: "u", Output: "/nowhere/x.aclt"}, false},
		"of a file, ended": {[]string{"control"}, &Note{}, false},
	} {
		dir := t.TempDir()
		for _, f := range c.files {
			write(t, filepath.Join(dir, f), nil)
		}
		if c.note != nil {
			if c.note.Output == "" {
				c.note.Output = filepath.Join(dir, "x.aclt")
			}
			write(t, filepath.Join(dir, NoteFile), c.note.Bytes())
		}
		if got := Abandoned(dir); got != c.want || IsSession(dir) != slices.Contains(c.files, "control") {
			t.Errorf("%s: abandoned %v", name, got)
		}
	}
	held := t.TempDir()
	write(t, filepath.Join(held, "control"), nil)
	write(t, filepath.Join(held, NoteFile), (&Note{UUID: "u", Output: filepath.Join(held, "x.aclt")}).Bytes())
	f, err := os.Open(held)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, lock := range []int{syscall.LOCK_EX, syscall.LOCK_UN} {
		if err := syscall.Flock(int(f.Fd()), lock); err != nil {
			t.Fatal(err)
		}
		if got := Abandoned(held); got != (lock == syscall.LOCK_UN) {
			t.Errorf("abandoned %v with lock %d", got, lock)
		}
	}
	if Abandoned(filepath.Join(t.TempDir(), "gone")) {
		t.Error("no folder is abandoned")
	}
}
