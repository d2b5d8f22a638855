/* A program that does something wrong and prints the runtime's own words on it. */
#include <stdio.h>

#include "acl/acl.h"

int main(void)
{
	if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(999) == ACL_SUCCESS)
		return 1;
	const char *said = aclGetRecentErrMsg();
	fputs(said == NULL ? "" : said, stdout);
	/* Who has fetched it has had it. */
	return aclGetRecentErrMsg() == NULL && aclFinalize() == ACL_SUCCESS ? 0 : 2;
}
