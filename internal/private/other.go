//go:build !unix

package private

import "os"

// Check finds nothing: these systems have no owners and permissions that it knows.
func Check(string) error { return nil }

// Owns finds none.
func Owns(os.FileInfo) bool { return false }

// Mappable finds nothing.
func Mappable(string) error { return nil }

func checkOwner(string) error { return nil }

func ownedBy(string, os.FileInfo) error { return nil }
