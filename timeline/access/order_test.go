package access_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/ordertest"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline/access"
)

// A launch has known arguments if the task that wrote them certainly precedes it.
func TestArgumentsWrittenBefore(t *testing.T) {
	for _, p := range ordertest.Programs {
		pairs, _ := p.Wants()
		for _, w := range pairs {
			t.Run(p.Name+" "+w.Before+w.After, func(t *testing.T) {
				if why := cmp.Or(p.Skipped(), unfit(&p, w)); why != "" {
					t.Skip(why)
				}
				tr := p.Trace(t, func(c *ordertest.Call) ordertest.Task {
					switch c.Name {
					case w.Before:
						return ordertest.Fill(c, ordertest.Memory)
					case w.After:
						return ordertest.Task{Func: "aclrtLaunchKernel", Args: func(s uint64) []uint64 { return testtrace.A(ordertest.Function, 1, ordertest.Memory, 16, s) }}
					}
					return ordertest.Fill(c, ordertest.Memory+0x400)
				})
				x, err := access.New(tr.Reader, acl.Model, nil)
				if err != nil {
					t.Fatal(err)
				}
				for c, err := range tr.Reader.CallsByStart(nil) {
					if err != nil {
						t.Fatal(err)
					}
					if x.Apply(tr.Reader.ProcessOf(c.Thread), c); tr.Names[c.Index] != w.After {
						continue
					}
					if _, known, why := x.DevArgs(); known != w.Certain {
						t.Errorf("known %v: %s", known, why)
					}
				}
			})
		}
	}
}

// unfit returns why a pair says nothing about arguments, "" if it does.
func unfit(p *ordertest.Program, w ordertest.Pair) string {
	calls := p.Calls()
	at := func(f func(c ordertest.Call) bool) int { return slices.IndexFunc(calls, f) }
	if at(func(c ordertest.Call) bool { return c.Op == "capture" }) >= 0 {
		return "the program uses graphs"
	}
	for _, name := range []string{w.Before, w.After} {
		if c := calls[at(func(c ordertest.Call) bool { return c.Name == name })]; c.Stream == "p1" || c.Stream == "h1" {
			return "two processes share no addresses"
		}
	}
	if lost := at(func(c ordertest.Call) bool { return c.Op == "lost" }); lost > at(func(c ordertest.Call) bool { return c.Name == w.Before }) {
		return "the lost calls may have written"
	}
	return ""
}
