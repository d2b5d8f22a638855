package timeline_test

import (
	"fmt"
	"log"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// Counts the launches of a trace on each stream.
func ExampleOpen() {
	t, err := timeline.Open("testdata/example.aclt")
	if err != nil {
		log.Fatal(err)
	}
	defer t.Reader.Close()
	launches := map[string]int{} // by stream
	for _, k := range t.Tasks {
		if k.Kind == api.Kernel {
			launches[t.Lanes[k.Lane].Name]++
		}
	}
	fmt.Println(launches)
	fmt.Println(len(t.Calls), "calls,", len(t.Objects), "objects,", len(t.Steps().List), "steps")
	// Output:
	// map[default stream:1 stream 1:4 stream 2:1]
	// 59 calls, 18 objects, 3 steps
}

// Sums up the measured times on the device.
func ExampleTask_Duration() {
	t, err := timeline.Open("testdata/example.aclt")
	if err != nil {
		log.Fatal(err)
	}
	defer t.Reader.Close()
	var sum int64
	unknown := 0
	for _, k := range t.Tasks {
		if ns, measured := k.Duration(); measured {
			sum += ns
		} else {
			unknown++
		}
	}
	fmt.Println(sum, "ns measured,", unknown, "tasks have bounds only")
	// Output: 2145 ns measured, 14 tasks have bounds only
}

// Reads the steps of a trace.
func ExampleTimeline_Steps() {
	t, err := timeline.Open("testdata/example.aclt")
	if err != nil {
		log.Fatal(err)
	}
	defer t.Reader.Close()
	fmt.Println(len(t.Steps().List), "steps")
	// Output: 3 steps
}
