// Package minheap is a priority queue with the first item at the top. A Heap belongs to one goroutine. Its zero value is empty.
//
// Packages format, timeline, stats and scene use it for items that they need in order. It never removes an item on its own.
package minheap

// Ordered is the item interface. Equal items have no defined order.
type Ordered[T any] interface {
	Before(T) bool
}

// A Heap holds items.
type Heap[T Ordered[T]] struct{ items []T }

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// Min returns the first item. There must be one.
func (h *Heap[T]) Min() T { return h.items[0] }

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.items = append(h.items, item)
	x := h.items
	for i := len(x) - 1; i > 0; {
		up := (i - 1) / 2
		if !x[i].Before(x[up]) {
			return
		}
		x[i], x[up] = x[up], x[i]
		i = up
	}
}

// Pop removes the first item and returns it. There must be one.
func (h *Heap[T]) Pop() T {
	x := h.items
	top := x[0]
	last := len(x) - 1
	x[0] = x[last]
	clear(x[last:])
	h.items = x[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return top
		}
		if c+1 < last && x[c+1].Before(x[c]) {
			c++
		}
		if !x[c].Before(x[i]) {
			return top
		}
		x[c], x[i] = x[i], x[c]
		i = c
	}
}
