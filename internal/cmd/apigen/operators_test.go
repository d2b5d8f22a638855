package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The committed files are those that the table makes.
func TestOperatorsAreGenerated(t *testing.T) {
	t.Chdir("../../..")
	all, err := loadOperators(operatorTable)
	if err != nil {
		t.Fatal(err)
	}
	for path, w := range genOperators(all) {
		if b, err := os.ReadFile(path); err != nil || string(b) != w.String() {
			t.Errorf("%s is not what `go run ./internal/cmd/apigen` writes (%v)", path, err)
		}
	}
}

func TestOperatorTable(t *testing.T) {
	const good = "aclnnB\tnn\taclnn_b.h\tTtSfL\tib--x\tmax"
	for _, c := range []struct{ rows, want string }{
		{good, ""},
		{"# a comment\noperator\t\t\t\t\t\n" + good + "\naclnnC\tcv\taclnn_c.h\t-\t-\t-\n", ""},
		{"# a/b c/docs/aclnnB.md: self and value\naclnnB\tnn\taclnn_b.h\tTSI\tIN-\t-", ""},
		{"# a/b c/docs/aclnnB.md: self\naclnnB\tnn\taclnn_b.h\tTSI\tIN-\t-", "2 parameters may not be null"},
		{"# a/b c/docs/aclnnA.md: self\naclnnA\tnn\taclnn_a.h\tT\tI\t-\naclnnB\tnn\taclnn_b.h\tT\tO\t-", "aclnnB: 1 parameters may not be null"},
		{"aclnnB\tnn\taclnn_b.h\tT\ti", "5 columns"},
		{"aclnnB\tnone\taclnn_b.h\tT\ti\t-", "unknown library"},
		{"aclnnB\tnn\taclnn_b.h\tTT\ti\t-", "1 roles for 2 parameters"},
		{"aclnnB\tnn\taclnn_b.h\tZ\t-\t-", "unknown type"},
		{"aclnnB\tnn\taclnn_b.h\tT\t-\t-", "role '-'"},
		{"aclnnB\tnn\taclnn_b.h\ti\tN\t-", "role 'N'"},
		{"aclnnB\tnn\taclnn_b.h\tS\ti\t-", "role 'i'"},
		{"aclnnB\tnn\taclnn_b.h\tT\ti\tmin", "unknown word"},
		{good + "\n" + good, "is not after"},
		{good + "\naclnnA\tnn\taclnn_a.h\tT\ti\t-", "is not after"},
	} {
		path := filepath.Join(t.TempDir(), "t.tsv")
		if err := os.WriteFile(path, []byte(c.rows), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := loadOperators(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.rows, err, c.want)
		}
	}
}
