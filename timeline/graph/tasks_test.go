package graph

import (
	"maps"
	"slices"
	"testing"
)

// A task stays on the lane of a task that precedes it, and tasks are numbered if other lanes wait for them.
func TestTasksStayOnTheirLane(t *testing.T) {
	after := [][]int{nil, {0}, {0}, {1, 2}, nil}
	lanes, crossed := Lanes(len(after), func(i int) []int { return after[i] })
	if !slices.Equal(lanes, []int{0, 0, 1, 0, 2}) || !maps.Equal(crossed, map[int]int32{0: 0, 2: 1}) {
		t.Errorf("lanes %v, waited for %v", lanes, crossed)
	}
}
