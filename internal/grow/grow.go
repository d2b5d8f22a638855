// Package grow has lists by small numbers, such as those of threads, streams and functions. They grow as larger numbers come.
package grow

// At returns the element with an index. The list grows if it has none, and new elements are zero.
func At[S ~[]T, T any](list *S, i int) *T {
	if i >= len(*list) {
		extend(list, i+1)
	}
	return &(*list)[i]
}

func extend[S ~[]T, T any](list *S, n int) { *list = append(*list, make([]T, n-len(*list))...) }
