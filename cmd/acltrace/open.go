package main

import (
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
)

// models are the runtimes that this acltrace knows.
var models = map[string]*api.Model{acl.Model.Name: acl.Model, cuda.Model.Name: cuda.Model}

// open opens a trace and finds the model of the runtime that it was recorded from.
func open(path string) (*format.Reader, *api.Model, error) {
	r, err := format.Open(path, nil)
	if err != nil {
		return nil, nil, err
	}
	m := models[r.Meta().API]
	if m == nil {
		r.Close()
		if r.Meta().API == "" && !r.Complete() {
			return nil, nil, fmt.Errorf("%s: %w before what says of which runtime it is a trace", path, format.ErrTruncated)
		}
		return nil, nil, fmt.Errorf("%s: a trace of the runtime %q, which this acltrace does not know", path, r.Meta().API)
	}
	return r, m, nil
}
