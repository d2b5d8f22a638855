package stats_test

import (
	"fmt"
	"log"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/timeline"
)

// Prints the functions of a trace, the longest first.
func ExampleNew() {
	r, m, err := timeline.OpenReader("../../timeline/testdata/example.aclt")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	s, err := stats.New(r, m, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range s.Functions[:3] {
		fmt.Println(f.Func, f.Calls, "calls,", f.TotalNS, "ns")
	}
	// Output:
	// aclrtSynchronizeStreamWithTimeout 1 calls, 10050 ns
	// aclrtSynchronizeStream 5 calls, 2890 ns
	// aclrtLaunchKernel 9 calls, 310 ns
}
