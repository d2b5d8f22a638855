package shell

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A shell reads the words of a command back as they were, and words without special characters stay readable.
func TestWordsAreReadBack(t *testing.T) {
	words := []string{"", "plain", "a b", "it's", "''", `"x"`, "$HOME", "`id`", "a\nb", `\`, "*", "~", "#", "é", "-_./,:=@%+", "azAZ09", "{a,b}", "a;b", "!", "[z]", "^`"}
	out, err := exec.Command("sh", "-c", Command(append([]string{"printf", `%s\0`}, words...)...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
		t.Errorf("%q, want %q", got, words)
	}
	for word, want := range map[string]string{"-_./,:=@%+": "-_./,:=@%+", "azAZ09": "azAZ09", "": "''", "a b": "'a b'", "é": "'é'", "[": "'['", "{": "'{'", "~": "'~'", "it's": `'it'\''s'`} {
		if got := Quote(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
	}
	if got := Command("a", "b c"); got != "a 'b c'" {
		t.Error(got)
	}
}
