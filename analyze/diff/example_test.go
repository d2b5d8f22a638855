package diff_test

import (
	"fmt"
	"log"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/timeline"
)

// Compares two traces.
func ExampleNew() {
	a, m, err := timeline.OpenReader("../../timeline/testdata/example.aclt")
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	b, _, err := timeline.OpenReader("../../timeline/testdata/example.aclt")
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	d, err := diff.New(a, b, m, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Verdict, d.Differs)
	// Output: same false
}
