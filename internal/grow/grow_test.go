package grow

import "testing"

func TestAtGrowsAndKeeps(t *testing.T) {
	var list []int
	*At(&list, 3) = 7
	*At(&list, 1) = 5
	*At(&list, 3)++
	if len(list) != 4 || list[0] != 0 || list[1] != 5 || list[3] != 8 {
		t.Error(list)
	}
	if *At(&list, 4) != 0 || len(list) != 5 || list[3] != 8 {
		t.Error(list)
	}
}
