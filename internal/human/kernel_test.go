package human

import "testing"

// C++ kernels were shown by their mangled names.
func TestKernel(t *testing.T) {
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
