#include "base/state.h"

__thread struct shim_thread shim_t __attribute__((tls_model("initial-exec"))) HIDDEN;
union shim_process_page shim_process_page __attribute__((aligned(SHIM_PAGE)));
union shim_control_pages shim_control_pages __attribute__((aligned(SHIM_PAGE)));
uint32_t shim_visible;
bool shim_after_task;
struct process *shim_self;
