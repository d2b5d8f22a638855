package human

import "testing"

// C++ kernels were shown by their mangled names.
func TestKernelNamesAreDemangled(t *testing.T) {
	for name, want := range map[string]string{
		"_Z3addPKfPfi":                           "add(float const*, float*, int)",
		"_ZN4cann4gemmIfLi16EEEvPT_i":            "void cann::gemm<float, 16>(float*, int)",
		"_Z":                                     "_Z",
		"aclnnMm":                                "aclnnMm",
		"":                                       "",
		"_Z" + "3add" + "PKf_mix_aic_but_broken": "_Z3addPKf_mix_aic_but_broken",
	} {
		if got := Kernel(name); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
}

// Only C++ names are kept, and no more than the limit.
func TestKernelKeepsNames(t *testing.T) {
	kept := func(name string) bool {
		Kernel(name)
		_, ok := demangled.names.Load(name)
		return ok
	}
	before := demangled.count.Load()
	defer demangled.count.Store(before)
	if !kept("_Z5firstv") || kept("plain") {
		t.Error("the wrong names are kept")
	}
	demangled.names.Store("_Z5firstv", "kept")
	if got := Kernel("_Z5firstv"); got != "kept" {
		t.Errorf("a kept name is demangled again: %s", got)
	}
	demangled.count.Store(maxDemangled - 1)
	if !kept("_Z4lastv") || kept("_Z4morev") {
		t.Error("the wrong number of names is kept")
	}
	if got := Kernel("_Z4morev"); got != "more()" {
		t.Error(got)
	}
}
