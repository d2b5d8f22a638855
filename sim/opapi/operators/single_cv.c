/* aclnnGaussianBlur: its phase two repeats the parameters of phase one, which the executor has already. */
#include "operator.h"

OPAPI_EXPORT int32_t aclnnGaussianBlur(void *workspace, uint64_t workspace_size, aclOpExecutor *executor, const void *src, const void *ksize, double sigma_x, double sigma_y,
				       int64_t border_type, void *dst, void *stream)
{
	(void)src;
	(void)ksize;
	(void)sigma_x;
	(void)sigma_y;
	(void)border_type;
	(void)dst;
	return op_phase_two(__func__, workspace, workspace_size, executor, stream);
}
