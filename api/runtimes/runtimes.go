// Package runtimes lists the models of all runtimes in api.
//
// The list is generated. Commands and tests that work with any runtime read it, from any goroutine, and must not change it.
// Packages that get their model from a caller do not import this package.
package runtimes

import "github.com/acltrace/acltrace/api"

// Named returns the runtime with a name, nil if there is none.
func Named(name string) *api.Model {
	for _, m := range All {
		if m.Name == name {
			return m
		}
	}
	return nil
}
