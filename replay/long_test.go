package replay

import "testing"

// In a plan with more than 64 MiB of data the player gives back the data that it has passed.
func TestLongPlan(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.load()
	const n, rounds = 2 << 20, 20
	tw.malloc(dev, n)
	tw.malloc(dev+n, n)
	for i := range rounds {
		a := pattern(n, byte(2*i)) // all payloads differ
		tw.toDevice(dev, a)
		for range 4 {
			tw.launch(dev+n, dev, n) // with relocations that spoils end
		}
		tw.sync()
		tw.toHost(dev+n, plusOne(a))
	}
	path := tw.close()
	for _, base := range []string{"0x124041200000", other} {
		r := run(t, path, &Options{Backend: l, Verify: true, Env: []string{"FAKE_BASE=" + base}})
		identical(t, r, rounds)
		if r.RelocatedTotal != 2*4*rounds {
			t.Errorf("%d relocations", r.RelocatedTotal)
		}
	}
}
