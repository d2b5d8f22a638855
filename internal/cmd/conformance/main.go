// Command conformance lists the simulator's conformance rules in docs/dev/conformance.md. `make generate` runs it.
// It compiles and runs no rule.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/acltrace/acltrace/sim/conformance"
)

func run() error {
	rules, err := conformance.Load(filepath.Join("sim", "conformance"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("docs", "dev", "conformance.md"), conformance.Document(rules), 0o644)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}
