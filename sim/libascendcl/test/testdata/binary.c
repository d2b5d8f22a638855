/* Compiled without linking, this is a kernel binary: its symbols list its kernels. */
void test_add(void) {}
void test_count(void) {}
void test_sleep_mix_aic(void) {}
void test_fail(void) {}
void test_fail_parallel(void) {}
void test_fail_extents(void) {}
void test_call(void) {}
void test_unknown(void) {}

/* Device variables. */
int test_table[4] = {1, 2, 3, 4};
int test_zeros[100];
