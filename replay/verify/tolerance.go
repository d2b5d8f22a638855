package verify

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Tolerance is the allowed error of numbers in results: Relative times the recorded number, plus Absolute. The zero value allows none.
type Tolerance struct {
	Type               string // f16, bf16, f32 or f64
	Relative, Absolute float64
}

// toleranceTypes are the types at their codes, see player/plan.h.
var toleranceTypes = []string{"", "f16", "bf16", "f32", "f64"}

// Code returns the type as the player reads it.
func (t Tolerance) Code() uint32 { return uint32(slices.Index(toleranceTypes, t.Type)) }

// ParseTolerance reads TYPE:RELATIVE[,ABSOLUTE].
func ParseTolerance(s string) (Tolerance, error) {
	name, numbers, ok := strings.Cut(s, ":")
	t := Tolerance{Type: name}
	if !ok || name == "" || !slices.Contains(toleranceTypes, name) {
		return Tolerance{}, errors.New("want TYPE:RELATIVE[,ABSOLUTE] with the type f16, bf16, f32 or f64")
	}
	relative, absolute, both := strings.Cut(numbers, ",")
	var err error
	if t.Relative, err = strconv.ParseFloat(relative, 64); err != nil {
		return Tolerance{}, err
	}
	if both {
		if t.Absolute, err = strconv.ParseFloat(absolute, 64); err != nil {
			return Tolerance{}, err
		}
	}
	if !(t.Relative >= 0 && t.Relative < 1e9 && t.Absolute >= 0 && t.Absolute < 1e300) {
		return Tolerance{}, errors.New("want a finite number from 0 on")
	}
	return t, nil
}
