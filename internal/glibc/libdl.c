/*
 * The libraries in this folder are for the linker only. They have the functions that glibc moved in 2.32 and 2.34, with the versions that
 * they had in 2012: see amd64.map and arm64.map. Parts of a release that are linked to them run with old and new C libraries. Before 2.30
 * glibc finds a function only in the library in which the linker found it.
 */
void dladdr(void) {}
void dladdr1(void) {}
void dlerror(void) {}
void dlinfo(void) {}
void dlopen(void) {}
void dlsym(void) {}
