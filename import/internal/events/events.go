// Package events reads the events in Chrome traces of profilers, one at a time. Packages msprof and kineto call it.
package events

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/internal/regular"
)

// Event has the fields that all events may have.
type Event struct {
	Phase string `json:"ph"`
	Name  Text   `json:"name"`
	Cat   Text   `json:"cat"`
	PID   Number `json:"pid"`
	TID   Number `json:"tid"`
	TS    Number `json:"ts"`
	Dur   Number `json:"dur"`
}

// Times returns the start and the duration in nanoseconds.
func (e *Event) Times(name string) (start, dur int64, err error) {
	if start, err = e.TS.Nanoseconds(); err != nil {
		return 0, 0, fmt.Errorf("ts %q of %q is %w", e.TS, name, err)
	}
	if dur, err = e.Dur.Nanoseconds(); err != nil {
		return 0, 0, fmt.Errorf("dur %q of %q is %w", e.Dur, name, err)
	}
	return start, dur, nil
}

// Text is a string; any other JSON value becomes "".
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(b []byte) error {
	var s string
	if len(b) > 0 && b[0] == '"' && json.Unmarshal(b, &s) == nil {
		*t = Text(s)
	}
	return nil
}

// Number keeps the digits of a JSON number or string: a float would lose nanoseconds in a time of day.
type Number string

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	s := string(bytes.Trim(b, `"`))
	if s != "null" && s != "N/A" {
		*n = Number(s)
	}
	return nil
}

// Int returns an integer, false for any other text.
func (n Number) Int() (int64, bool) {
	v, err := strconv.ParseInt(string(n), 10, 64)
	return v, err == nil
}

var errTime = errors.New("no time in microseconds")

// Nanoseconds converts microseconds, exactly if they have three decimals, else rounded.
func (n Number) Nanoseconds() (int64, error) {
	whole, part, _ := strings.Cut(strings.TrimSpace(string(n)), ".")
	v, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || whole[0] == '-' || v > math.MaxInt64/2000 || strings.ContainsAny(part, "eE+-") {
		f, err := strconv.ParseFloat(strings.TrimSpace(string(n)), 64)
		if err != nil || !(f >= 0 && f < math.MaxInt64/2000) {
			return 0, errTime
		}
		return int64(math.Round(f * 1000)), nil
	}
	v *= 1000
	for i, unit := 0, int64(100); i < len(part); i, unit = i+1, unit/10 {
		d := int64(part[i] - '0')
		if d < 0 || d > 9 {
			return 0, errTime
		}
		if unit == 0 {
			if i == 3 && d >= 5 {
				v++
			}
			continue
		}
		v += d * unit
	}
	return v, nil
}

// Open opens a profile file. It refuses compressed files, whose uncompressed size is unknown.
func Open(path string) (*os.File, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	head := make([]byte, 2)
	if _, err := f.ReadAt(head, 0); err == nil && string(head) == "\x1f\x8b" {
		f.Close()
		return nil, Compressed(path)
	}
	return f, nil
}

// Compressed returns the error for a compressed file.
func Compressed(path string) error {
	return fmt.Errorf("%s:1:1: it is compressed by gzip: unpack it first, as by gunzip", path)
}

// Read passes the events in f to each. The file is an event list, or an object with one; key gets its other members, if not nil.
// path is used in errors.
func Read[E any](path string, f io.Reader, key func(name string, value json.RawMessage), each func(*E) error) error {
	dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<20))
	at, err := read(dec, key, each)
	if err == nil {
		return nil
	}
	line, column := position(path, at)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends within the trace: it was cut off, export it again")
	}
	if strings.Contains(err.Error(), "exceeded max depth") {
		err = errors.New("values are nested more than 10,000 levels deep: this is not a Chrome trace as the profiler writes it")
	}
	return fmt.Errorf("%s:%d:%d: %w", path, line, column, err)
}

// read returns the offset of an error.
func read[E any](dec *json.Decoder, key func(string, json.RawMessage), each func(*E) error) (at int64, err error) {
	object, err := enter(dec, key)
	if err != nil {
		return dec.InputOffset(), err
	}
	for dec.More() {
		var e E
		at := dec.InputOffset()
		if err := dec.Decode(&e); err != nil {
			// The offsets of dec leave out the commas between events.
			if s := (*json.SyntaxError)(nil); errors.As(err, &s) && errors.As(json.NewDecoder(dec.Buffered()).Decode(&e), &s) {
				at = dec.InputOffset() + s.Offset - 1
			}
			return at, err
		}
		if err := each(&e); err != nil {
			return at, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return dec.InputOffset(), err
	}
	if object && key != nil {
		for dec.More() {
			if _, err := member(dec, key); err != nil {
				return dec.InputOffset(), err
			}
		}
	}
	return 0, nil
}

// enter moves to the first event.
func enter(dec *json.Decoder, key func(string, json.RawMessage)) (object bool, err error) {
	t, err := dec.Token()
	if err != nil {
		return false, err
	}
	if t == json.Delim('{') {
		object = true
		for dec.More() {
			list, err := member(dec, key)
			if err != nil {
				return false, err
			}
			if list {
				if t, err = dec.Token(); err != nil {
					return false, err
				}
				break
			}
		}
	}
	if t != json.Delim('[') {
		return false, errors.New("no list of events: this is not a Chrome trace as the profiler writes it")
	}
	return object, nil
}

// member reads a member of an object, or reports that its value is the list of events.
func member(dec *json.Decoder, key func(string, json.RawMessage)) (list bool, err error) {
	name, err := dec.Token()
	if err != nil {
		return false, err
	}
	if name == "traceEvents" {
		return true, nil
	}
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		return false, err
	}
	if s, ok := name.(string); ok && key != nil {
		key(s, value)
	}
	return false, nil
}

// position returns the line and column at a byte offset.
func position(path string, at int64) (line, column int) {
	line, column = 1, 1
	f, err := regular.Open(path)
	if err != nil {
		return line, column
	}
	defer f.Close()
	r := bufio.NewReader(io.LimitReader(f, at))
	for {
		b, err := r.ReadByte()
		if err != nil {
			return line, column
		}
		column++
		if b == '\n' {
			line, column = line+1, 1
		}
	}
}
