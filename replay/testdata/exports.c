/*
 * Memory that is exported and that no process imports, by a key and as physical memory. Results: 0 before the export, 1 after it, 2 a copy
 * of it, 3 memory that was not exported, 4 mapped physical memory after its export.
 */
#include "program.h"

enum { COUNT = 64, KEY = 65 };

static uint32_t host[COUNT];

static void result(uint32_t *x)
{
	to_host(host, x, sizeof host);
	EXPECT(host[0] == 1 && host[COUNT - 1] == COUNT);
}

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	aclrtFuncHandle add = kernel(argv[1], "add");
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtDrvMemHandle physical;
	void *mapped;
	CHECK(aclrtReserveMemAddress(&mapped, 2 << 20, 0, NULL, 1));
	CHECK(aclrtMallocPhysical(&physical, 2 << 20, &prop, 0));
	CHECK(aclrtMapMem(mapped, 2 << 20, 0, physical, 0));
	uint32_t *x[] = {device_memory(sizeof host), device_memory(sizeof host), device_memory(sizeof host), mapped};
	for (int i = 0; i < 4; i++) {
		struct add_args args = {x[i], COUNT, 1, 0};
		CHECK(aclrtMemset(x[i], sizeof host, 0, sizeof host));
		launch(add, 1, s, &args, sizeof args);
	}
	CHECK(aclrtSynchronizeStream(s));
	result(x[0]);
	char key[KEY];
	uint64_t shared;
	CHECK(aclrtIpcMemGetExportKey(x[0], sizeof host, key, sizeof key, 1));
	CHECK(aclrtMemExportToShareableHandle(physical, ACL_MEM_HANDLE_TYPE_NONE, 1, &shared));
	result(x[0]);
	CHECK(aclrtMemcpy(x[1], sizeof host, x[0], sizeof host, ACL_MEMCPY_DEVICE_TO_DEVICE));
	result(x[1]);
	result(x[2]);
	result(x[3]);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
