/* Writes a line of each level to the application's log. */
#include "acl/acl.h"

#include <errno.h>

int main(void)
{
	errno = ENOSPC;
	for (int level = -1; level < 6; level++)
		aclAppLog((aclLogLevel)level, "step", "train.c", 42, "level %d of %s, %.1f: %m", level, "loss", 0.5);
	aclAppLog(ACL_ERROR, NULL, NULL, 0, NULL);
	return errno != ENOSPC;
}
