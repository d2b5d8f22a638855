package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/probe"
	"github.com/spf13/cobra"
)

// doctorCmd tests by doing what the other commands need.
func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "what works on this machine, and what is missing",
		Args:  arguments(0, "no arguments"),
		RunE: func(_ *cobra.Command, _ []string) error {
			failed := 0
			check := func(what string, err error) {
				if err != nil {
					failed++
					fmt.Fprintf(a.out, "missing  %s: %v\n", what, err)
					return
				}
				fmt.Fprintf(a.out, "works    %s\n", what)
			}
			_, err := artifacts.Bytes(artifacts.Shim)
			check("record: the shim is here", err)
			s, err := probe.NewSession(acl.Model, nil)
			check("record: shared memory for the rings", err)
			if err == nil {
				check("record: shared memory is given back", s.Close())
			}
			_, err = artifacts.SimulatorDir()
			check("record --sim, sim: the simulator's libraries are here", err)
			_, err = artifacts.Bytes(artifacts.Player)
			check("replay: the player is here", err)
			check("attach, record --probe ebpf: uprobes", a.tryUprobes())
			if failed > 0 {
				return &exit{code: exitFailed}
			}
			return nil
		},
	}
}

// tryUprobes puts a probe that counts on the simulator, and takes it away.
func (a *app) tryUprobes() error {
	dir, err := artifacts.SimulatorDir()
	if err != nil {
		return err
	}
	u, err := probe.AttachUprobes(acl.Model, filepath.Join(dir, artifacts.Simulator), &probe.UprobeOptions{PIDs: []int{os.Getpid()}, CountOnly: true})
	if err != nil {
		return err
	}
	return u.Close()
}
