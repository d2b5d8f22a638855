//go:build !unix

package private

// Check finds nothing: these systems have no owners and permissions that it knows.
func Check(string) error { return nil }

// Mappable finds nothing.
func Mappable(string) error { return nil }

func checkOwner(string) error { return nil }
