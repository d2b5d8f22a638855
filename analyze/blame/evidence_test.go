package blame

import "testing"

func TestMentionsFindsWholeWords(t *testing.T) {
	if mentions("kernel vector_add_2: argument 0", "vector_add") || !mentions("xvector_add, vector_add: argument 0", "vector_add") {
		t.Error("a name within another word counts as mentioned, or a later mention is not found")
	}
}
