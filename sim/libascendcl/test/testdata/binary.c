/* Compiled without linking, this is a kernel binary: its symbols say which kernels are in it. */
void test_add(void) {}
void test_count(void) {}
void test_sleep_mix_aic(void) {}
void test_crash(void) {}
void test_unknown(void) {}
