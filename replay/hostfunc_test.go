package replay

import "testing"

// A stub for a function of the program's takes as long as that did, each time that a graph runs it, where the time is kept: nothing else
// in this trace takes long.
func TestHostFunctionTime(t *testing.T) {
	simulate(t)
	const took, fn, data, graph = 100e6, 0x400000, 0x500000, 0x6000
	tw := newTrace(t)
	tw.begin()
	aside := onThread(tw.thread(0, 2)) // of the runtime's
	runs := func(n int64) {
		tw.sync()
		for i := range n {
			tw.call("hostFunction", []uint64{fn, data}, aside, lasting(tw.now, tw.now+took*(i+1)))
			tw.now -= took * (i + 1)
		}
	}
	tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, data})
	runs(1)
	tw.call("aclmdlRICaptureBegin", []uint64{stream, 1})
	tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, data})
	tw.call("aclmdlRICaptureEnd", []uint64{stream, page}, out(1, graph))
	for range 2 {
		tw.call("aclmdlRIExecuteAsync", []uint64{graph, stream})
	}
	runs(2)
	path := tw.close()
	for pace, want := range map[string]int64{PaceASAP: 0, PaceRecorded: 4 * took, PaceScaled + "0.5": 2 * took} {
		r := run(t, path, &Options{Verify: true, Pace: pace})
		identical(t, r, 0)
		if r.ReplayedNS < want || want == 0 && r.ReplayedNS >= 4*took {
			t.Errorf("%s: %d ns, want %d", pace, r.ReplayedNS, want)
		}
	}
}
