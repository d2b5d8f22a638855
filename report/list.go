package report

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
)

// A listWriter writes a JSON document with a list whose items come one by one. Further keys follow the list.
type listWriter struct {
	w    io.Writer
	next []byte // precedes the next item
}

// newListWriter begins a document. head has the text up to the list.
func newListWriter(w io.Writer, head string) (*listWriter, error) {
	_, err := w.Write([]byte(head))
	return &listWriter{w, []byte("\n    ")}, err
}

func (l *listWriter) item(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = l.w.Write(slices.Concat(l.next, b))
	}
	l.next = []byte(",\n    ")
	return err
}

// close ends the document with the keys of v, an object.
func (l *listWriter) close(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = l.w.Write(slices.Concat([]byte("\n  ],"), bytes.TrimPrefix(b, []byte("{")), []byte("\n")))
	}
	return err
}
