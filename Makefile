# Everything that a contributor runs. Each target does its own set-up.
.DELETE_ON_ERROR:
.PHONY: setup build cross demo demo-jaeger jaeger collector generate test test-gpu bench lint soak clean

# Between the commands that a loop over files makes.
define newline


endef

# Where scripts/setup.sh puts Go on a machine whose own is too old.
export PATH := $(CURDIR)/build/go/bin:$(PATH)

GO      ?= go
CC      ?= cc
CXX     ?= c++
WARN    := -Wall -Wextra -Werror
CFLAGS  := -std=c11 -O2 -g $(WARN) -Iapi/acl/include
ARCH    := $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The shim is linked to nothing. Its constructor copies a path (session.c), and its destructor stores a word (process.c).
SHIM_FLAGS := -fPIC -fvisibility=hidden -ffreestanding -fno-stack-protector -fno-builtin -nostdlib -shared -Wl,-z,nodelete -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,defs
# Atomic operations are instructions, not calls of functions in a library that the shim is not linked to.
SHIM_FLAGS += $(if $(filter arm64,$(ARCH)),-mno-outline-atomics)
# There is one for each runtime: what they have in common, and what is of one alone.
SHIM_ACL  := probe/shim/acl_gen.c probe/shim/acl.c probe/shim/inject.c
SHIM_CUDA := probe/shim/cuda_gen.c probe/shim/cuda.c probe/shim/params.c
SHIM_C    := $(filter-out $(SHIM_ACL) $(SHIM_CUDA),$(wildcard probe/shim/*.c))
# CUDA has no addresses of its own, so what is allocated is remembered; and of older drivers all kernels of what is loaded are.
CUDA_FLAGS := -DSHIM_FAR=8192 -DSHIM_KERNELS=131072 -Iapi/cuda/include
# The player runs with older C libraries than the one that it is built with: see replay/player/glibc.h.
PLAYER_FLAGS := -include replay/player/glibc.h -Wl,--wrap=__libc_start_main
PLAYER_LIBS := -Wl,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0
FACE_FLAGS := -fPIC -fvisibility=hidden -shared -Isim/libascendcl/include -Wl,-soname,libascendcl.so

HEADERS := $(wildcard api/acl/include/acl/*.h api/cuda/include/*.h sim/libascendcl/*.h sim/libascendcl/include/aclsim/*.h probe/shim/*.h replay/player/*.h examples/*/*.h)
SIM_GO  := $(shell find api sim -name '*.go' -not -name '*_test.go' 2>/dev/null)

PROGRAMS := vector_add matmul_pipeline tiny_decoder histogram
KERNELS  := $(basename $(notdir $(wildcard examples/kernels/*.c)))
LIBS     := lib/libascendcl.so lib/libaclsim.so lib/libacltrace.so lib/libacltrace-cuda.so lib/libacltrace-audit.so lib/acltrace-player lib/fakecuda/libcuda.so.1 lib/cupti-count.so
CUDA     := bin/examples/cuda/driver bin/examples/cuda/kernels.so
EXAMPLES := $(CUDA) bin/examples/hello $(PROGRAMS:%=bin/examples/%) $(KERNELS:%=bin/examples/%.o) $(KERNELS:%=bin/examples/%.so)

setup:
	@scripts/setup.sh

build: setup bin/acltrace $(LIBS) $(EXAMPLES) lib/aclsim_kernels.so lib/aclsim_kernels.o

# The program carries the C parts of its processor inside: see internal/artifacts. Neither they nor it keep what only debuggers
# read: half of the file, and of what each recording writes before its program starts. A Go panic names its lines without.
EMBEDDED := libacltrace.so libacltrace-cuda.so libacltrace-audit.so acltrace-player
STRIP    ?= strip
BUILD     = CGO_ENABLED=0 $(GO) build -trimpath -tags embedded -ldflags "-s -w -X main.version=$(VERSION)"

bin/acltrace: $(LIBS) FORCE
	@mkdir -p bin internal/artifacts/files/$(ARCH)
	$(foreach f,$(EMBEDDED),$(STRIP) --strip-debug -o internal/artifacts/files/$(ARCH)/$f lib/$f$(newline))
	$(BUILD) -o $@ ./cmd/acltrace
FORCE:

lib/libacltrace.so: $(SHIM_C) $(SHIM_ACL) $(HEADERS)
	@mkdir -p lib
	$(CC) $(CFLAGS) $(SHIM_FLAGS) -o $@ $(SHIM_C) $(SHIM_ACL)

lib/libacltrace-cuda.so: $(SHIM_C) $(SHIM_CUDA) $(HEADERS)
	@mkdir -p lib
	$(CC) $(CFLAGS) $(SHIM_FLAGS) $(CUDA_FLAGS) -o $@ $(SHIM_C) $(SHIM_CUDA)

lib/libacltrace-audit.so: probe/shim/audit/audit.c $(HEADERS)
	@mkdir -p lib
	$(CC) $(CFLAGS) $(SHIM_FLAGS) -o $@ $<

lib/acltrace-player: $(wildcard replay/player/*.c) $(HEADERS)
	@mkdir -p lib
	$(CC) $(CFLAGS) $(PLAYER_FLAGS) -o $@ $(wildcard replay/player/*.c) $(PLAYER_LIBS)

# For an aarch64 machine, built on another one: bin/acltrace-arm64 is the one file to copy there.
CROSS ?= aarch64-linux-gnu-gcc

cross: bin/acltrace-arm64

bin/acltrace-arm64: $(EMBEDDED:%=lib/arm64/%) FORCE
	@mkdir -p bin internal/artifacts/files/arm64
	$(foreach f,$(EMBEDDED),$(CROSS:gcc=strip) --strip-debug -o internal/artifacts/files/arm64/$f lib/arm64/$f$(newline))
	GOARCH=arm64 $(BUILD) -o $@ ./cmd/acltrace

lib/arm64/libacltrace.so: $(SHIM_C) $(SHIM_ACL) $(HEADERS)
	@scripts/setup.sh cross
	@mkdir -p lib/arm64
	$(CROSS) $(CFLAGS) $(SHIM_FLAGS) -mno-outline-atomics -o $@ $(SHIM_C) $(SHIM_ACL)

lib/arm64/libacltrace-cuda.so: $(SHIM_C) $(SHIM_CUDA) $(HEADERS)
	@scripts/setup.sh cross
	@mkdir -p lib/arm64
	$(CROSS) $(CFLAGS) $(SHIM_FLAGS) $(CUDA_FLAGS) -mno-outline-atomics -o $@ $(SHIM_C) $(SHIM_CUDA)

lib/arm64/libacltrace-audit.so: probe/shim/audit/audit.c $(HEADERS)
	@scripts/setup.sh cross
	@mkdir -p lib/arm64
	$(CROSS) $(CFLAGS) $(SHIM_FLAGS) -mno-outline-atomics -o $@ $<

lib/arm64/acltrace-player: $(wildcard replay/player/*.c) $(HEADERS)
	@scripts/setup.sh cross
	@mkdir -p lib/arm64
	$(CROSS) $(CFLAGS) $(PLAYER_FLAGS) -o $@ $(wildcard replay/player/*.c) $(PLAYER_LIBS)

lib/libascendcl.so: $(wildcard sim/libascendcl/*.c) $(HEADERS)
	@mkdir -p lib
	$(CC) $(CFLAGS) $(FACE_FLAGS) -o $@ $(wildcard sim/libascendcl/*.c) -ldl -lpthread
	ln -sf libascendcl.so lib/libacl_rt.so
	$(foreach n,libruntime libmsprofiler libascend_dump libacl_tdt_channel libacl_tdt_queue,ln -sf libascendcl.so lib/$n.so$(newline))

lib/libaclsim.so: $(SIM_GO) $(wildcard sim/libascendcl/engine/*.[ch]) $(HEADERS)
	@mkdir -p lib
	CGO_ENABLED=1 $(GO) build -buildmode=c-shared -trimpath -o $@ ./sim/libascendcl/engine
	@rm -f lib/libaclsim.h

# It lies apart: a program that finds the folder of the others finds the driver of the machine.
# Its calls of itself go past whoever comes before it, as those of a GPU's driver do.
# It stays loaded after dlclose: its threads run until the process ends.
lib/fakecuda/libcuda.so.1: $(wildcard sim/cuda/*.c sim/cuda/*.h sim/cuda/include/*.h) api/cuda/include/cuda.h
	@mkdir -p lib/fakecuda
	$(CC) -std=gnu11 -O2 -g $(WARN) -fPIC -shared -Iapi/cuda/include -Isim/cuda/include -Wl,-z,nodelete -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -o $@ $(wildcard sim/cuda/*.c) -ldl -lpthread
	ln -sf libcuda.so.1 lib/fakecuda/libcuda.so

# What scripts/test-gpu.sh counts calls with.
lib/cupti-count.so: scripts/cupti_count.c
	@mkdir -p lib
	$(CC) -std=gnu11 -O2 -g $(WARN) -fPIC -shared -o $@ $< -ldl

# The simulator of the conformance suite, which breaks the rule that ACLSIM_BREAK names. It is for tests alone.
lib/break/libaclsim.so: $(SIM_GO) $(wildcard sim/libascendcl/engine/*.[ch]) $(HEADERS) $(wildcard sim/libascendcl/*.c)
	@mkdir -p lib/break
	$(CC) $(CFLAGS) $(FACE_FLAGS) -o lib/break/libascendcl.so $(wildcard sim/libascendcl/*.c) -ldl -lpthread
	CGO_ENABLED=1 $(GO) build -tags aclsim_break -buildmode=c-shared -trimpath -o $@ ./sim/libascendcl/engine
	@rm -f lib/break/libaclsim.h

# The examples find the runtime beside them here; elsewhere LD_LIBRARY_PATH says where it is.
EXAMPLE_LIBS := -Llib -lascendcl -Wl,-rpath,'$$ORIGIN/../../lib'

bin/examples/hello: examples/hello.c lib/libascendcl.so $(HEADERS)
	@mkdir -p bin/examples
	$(CC) $(CFLAGS) -o $@ $< $(EXAMPLE_LIBS)

# These find the driver of the machine, or the fake one where LD_LIBRARY_PATH says so. An older one lacks functions that some cases call.
bin/examples/cuda/kernels.so: examples/cuda/kernels.c sim/cuda/include/fakecuda.h
	@mkdir -p bin/examples/cuda
	$(CC) -std=c11 -O2 -g $(WARN) -ffp-contract=off -fPIC -shared -Isim/cuda/include -o $@ $<

bin/examples/cuda/%: examples/cuda/%.c examples/cuda/kernels.h api/cuda/include/cuda.h lib/fakecuda/libcuda.so.1
	@mkdir -p bin/examples/cuda
	$(CC) -std=gnu11 -O2 -g $(WARN) -Iapi/cuda/include -o $@ $< -Llib/fakecuda -lcuda -ldl -Wl,-z,lazy

# A kernel is compiled twice: the object is what the program loads as its binary, the library is what the simulator runs.
KERNEL_FLAGS := $(CFLAGS) -ffp-contract=off -fPIC -Isim/libascendcl/include

bin/examples/%.o: examples/kernels/%.c $(HEADERS)
	@mkdir -p bin/examples
	$(CC) $(KERNEL_FLAGS) -c -o $@ $<

bin/examples/%.so: examples/kernels/%.c $(HEADERS)
	@mkdir -p bin/examples
	$(CC) $(KERNEL_FLAGS) -shared -Wl,-Bsymbolic -o $@ $< -lm

generate:
	@scripts/setup.sh generate
	$(GO) run ./internal/cmd/apigen
	$(GO) generate ./probe/...
	$(GO) run ./internal/cmd/skips
	$(GO) run ./internal/cmd/conformance

demo: build
	@bin/acltrace demo

# A real Jaeger, built from its Go module, that shows the demo's trace until it is stopped.
demo-jaeger: build
	@scripts/demo-jaeger.sh

jaeger:
	@scripts/jaeger.sh

# A real OpenTelemetry collector, built from its Go modules, for the tests of the export.
collector:
	@scripts/collector.sh

# All that is missing is said before anything is built.
test:
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build lib/break/libaclsim.so
	@scripts/test.sh

# On a machine with an NVIDIA GPU: the CUDA examples run, are recorded and replayed on its driver. Elsewhere it says why it does not. Where nothing can
# be built, what was brought along is used.
test-gpu:
	@if command -v $(GO) >/dev/null && command -v $(CC) >/dev/null; then $(MAKE) --no-print-directory build || echo "not built anew: what is here is tried"; fi
	@scripts/test-gpu.sh

bench: build
	@scripts/bench.sh

lint:
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	@$(GO) run ./internal/cmd/prose

soak: build lib/break/libaclsim.so
	@scripts/soak.sh

clean:
	rm -rf bin lib build internal/artifacts/files

# The simulator's own kernels: the library that ACLSIM_KERNELS names, and the binary that a program loads for them.
lib/aclsim_kernels.so: sim/kernels/kernels.c sim/kernels/typed.h $(HEADERS)
	$(CC) $(KERNEL_FLAGS) -shared -Wl,-Bsymbolic -o $@ $< -lm

lib/aclsim_kernels.o: sim/kernels/names.c $(HEADERS)
	$(CC) $(KERNEL_FLAGS) -c -o $@ $<

# Last, since it concerns every rule behind it: a program is all the sources of its folder.
.SECONDEXPANSION:
$(PROGRAMS:%=bin/examples/%): $$(wildcard examples/$$(@F)/*.cpp) lib/libascendcl.so $(HEADERS)
	@mkdir -p bin/examples
	$(CXX) -std=c++17 -O2 -g $(WARN) -ffp-contract=off -Iapi/acl/include -o $@ $(filter %.cpp,$^) $(EXAMPLE_LIBS)
