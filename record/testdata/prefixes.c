/* Runtime functions that begin with a prefix on which the kernel puts no uprobe. With -DALL all functions do. */
#define FUNCTION(name, first) \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" first "\n\txorl %eax, %eax\n\tret\n.size " #name ", . - " #name "\n")

#define LOCKED "\tlock orl $0, (%rsp)"
#define SEGMENT "\t.byte 0x3e, 0x90"
#ifdef ALL
#define PLAIN LOCKED
#define MARKED SEGMENT
#else
#define PLAIN "\tpush %rbx\n\tpop %rbx"
#define MARKED "\tendbr64\n" LOCKED
#endif

FUNCTION(aclInit, PLAIN);
FUNCTION(aclrtSetDevice, LOCKED);
FUNCTION(aclrtSynchronizeDevice, SEGMENT);
FUNCTION(aclFinalize, MARKED);
