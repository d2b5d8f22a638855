/*
 * The build includes this file before all others. It binds functions to the symbol versions that a C library of 2012 has. Otherwise the player
 * would need a C library as new as that of the build machine.
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
