package blame_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
)

// Blame said that pageable host memory is an address in no known allocation, and did not compare sizes with their capacities.
func TestBlameOfARefusedCopy(t *testing.T) {
	a := testtrace.A
	const pageable, nowhere = 0x7f5c00001000, testtrace.DeviceA + 1<<30
	for name, c := range map[string]struct {
		call func(s *testtrace.Sequence)
		want string // reasons after the first
	}{
		"copy": {func(s *testtrace.Sequence) {
			s.Then("aclrtMemcpy", a(testtrace.DeviceA, 16, pageable, 64, 1), testtrace.Fails(107000))
		}, "count is 64, but destMax is 16"},
		"back": {func(s *testtrace.Sequence) {
			s.Then("aclrtMemcpy", a(pageable, 16, testtrace.DeviceA, 64, 2), testtrace.Fails(107000))
		}, "count is 64, but destMax is 16"},
		"fill": {func(s *testtrace.Sequence) {
			s.Then("aclrtMemset", a(testtrace.DeviceA, 16, 0, 64), testtrace.Fails(107000))
		}, "count is 64, but maxCount is 16"},
		"rows": {func(s *testtrace.Sequence) {
			s.Then("aclrtMemcpy2d", a(testtrace.DeviceA, 64, pageable, 8, 16, 2, 1), testtrace.Fails(107000))
		}, "width is 16, but spitch is 8"},
		"both fit": {func(s *testtrace.Sequence) {
			s.Then("aclrtMemcpy", a(testtrace.DeviceA, 64, pageable, 64, 1), testtrace.Fails(107000))
		}, ""},
		"unknown device": {func(s *testtrace.Sequence) {
			s.Then("aclrtMemcpy", a(nowhere, 64, pageable, 64, 1), testtrace.Fails(107000))
		}, "dst is an address in no known allocation"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testtrace.NewSequence(t)
			s.Then("aclrtSetDevice", a(0))
			s.Malloc(testtrace.DeviceA, 4096)
			c.call(s)
			exit(s, 1)
			_, text := judged(t, s)
			var got []string
			for _, m := range regexp.MustCompile(`(?m)^  because (.*)$`).FindAllStringSubmatch(text, -1) {
				if m[1] != "the call itself returned the error" {
					got = append(got, m[1])
				}
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("reasons %q, want %q\n%s", got, c.want, text)
			}
		})
	}
}
