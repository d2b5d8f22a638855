/* A program that causes an error and prints the runtime's message. */
#include <stdio.h>

#include "acl/acl.h"

int main(void)
{
	if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(999) == ACL_SUCCESS)
		return 1;
	const char *said = aclGetRecentErrMsg();
	fputs(said == NULL ? "" : said, stdout);
	/* A message can be fetched once. */
	return aclGetRecentErrMsg() == NULL && aclFinalize() == ACL_SUCCESS ? 0 : 2;
}
