/* Functions of libopapi_transformer.so that have one stage: sizes that depend on the links between devices are not simulated. */
#include "operator.h"

#define ABSENT(name) \
	OPAPI_EXPORT int32_t name(void) { return aclsim_operator_absent(#name); }

ABSENT(aclnnMoeDistributeCombineSetupTeardownCalcOutputSize)
ABSENT(aclnnMoeDistributeDispatchSetupTeardownCalcOutputSize)
