// Package esapi has the types that Jaeger uses: see package elasticsearch.
package esapi

import (
	"errors"
	"io"
)

type Indices struct{}

type Response struct{ StatusCode int }

func (r *Response) String() string { return "no response" }

func (*Indices) PutIndexTemplate(name string, body io.Reader) (*Response, error) {
	return nil, errors.New("not built in")
}
