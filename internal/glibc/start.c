/* The start files of glibc call the newest __libc_start_main. The linker redirects that call to this file (--wrap), since the newest version is of 2021. */
#include <features.h>

#ifdef __GLIBC__
#if defined(__x86_64__)
__asm__(".symver old_libc_start_main,__libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver old_libc_start_main,__libc_start_main@GLIBC_2.17");
#endif

typedef int program(int, char **, char **);
typedef void function(void);

extern int old_libc_start_main(program *main, int argc, char **argv, function *init, function *fini, function *rtld_fini, void *stack_end);
int __wrap___libc_start_main(program *main, int argc, char **argv, function *init, function *fini, function *rtld_fini, void *stack_end);
int __wrap___libc_start_main(program *main, int argc, char **argv, function *init, function *fini, function *rtld_fini, void *stack_end)
{
	return old_libc_start_main(main, argc, argv, init, fini, rtld_fini, stack_end);
}
#else
typedef int nothing; /* C11 forbids an empty file */
#endif
