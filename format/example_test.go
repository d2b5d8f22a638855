package format_test

import (
	"fmt"
	"log"

	"github.com/acltrace/acltrace/format"
)

// Counts the calls of a trace by function.
func ExampleOpen() {
	r, err := format.Open("../timeline/testdata/example.aclt", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	n := map[string]int{}
	for c, err := range r.Calls(nil) {
		if err != nil {
			log.Fatal(err)
		}
		n[r.Schema().FuncName(c.Func)]++
	}
	fmt.Println(len(n), "functions,", n["aclrtMalloc"], "calls of aclrtMalloc")
	// Output: 32 functions, 2 calls of aclrtMalloc
}
