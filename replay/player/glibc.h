/*
 * Included before everything else by the build: the versions of functions that a C library of 2012 has, too, where newer
 * ones have added another. Without this the player runs only where the C library is as new as on the machine that built it.
 */
#if defined(__gnu_linux__) && defined(__x86_64__)
#define OLD "GLIBC_2.2.5"
#elif defined(__gnu_linux__) && defined(__aarch64__)
#define OLD "GLIBC_2.17"
#endif
#ifdef OLD
__asm__(".symver dlopen,dlopen@" OLD);
__asm__(".symver dlsym,dlsym@" OLD);
__asm__(".symver dlerror,dlerror@" OLD);
__asm__(".symver pthread_create,pthread_create@" OLD);
__asm__(".symver pthread_join,pthread_join@" OLD);
#undef OLD
#endif
