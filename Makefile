# All commands of a contributor. Each target does its own set-up.
.DELETE_ON_ERROR:
.PHONY: setup build cross demo demo-jaeger jaeger collector generate test test-gpu bench lint soak clean

# Separates commands that $(foreach) produces.
define newline


endef

# The parts of each runtime: NAME_shim, NAME_shim_c and so on.
include api/runtimes.mk
each = $(foreach r,$(RUNTIMES),$($r_$1))

# scripts/setup.sh installs Go here if the machine's own is too old.
export PATH := $(CURDIR)/build/go/bin:$(PATH)

GO      ?= go
CC      ?= cc
CXX     ?= c++
WARN    := -Wall -Wextra -Werror
CFLAGS  := -std=c11 -O2 -g $(WARN)
ARCH    := $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The shim links no library. Its constructor copies a path (session/session.c), and its destructor stores a word (session/process.c).
SHIM_FLAGS := -fPIC -fvisibility=hidden -ffreestanding -fno-stack-protector -fno-builtin -nostdlib -shared -Iprobe/shim -Wl,-z,nodelete -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,defs
# Atomic operations must be instructions, because calls would need a library.
SHIM_FLAGS += $(if $(filter arm64,$(ARCH)),-mno-outline-atomics)
# Each runtime has a shim: the common sources and its own.
SHIM_C := $(wildcard $(patsubst %,probe/shim/%/*.c,base session record task payload bind))
# The player also runs with C libraries that are older than the one on the build machine: see replay/player/glibc/glibc.h.
PLAYER_C := $(wildcard replay/player/*.c replay/player/glibc/*.c)
PLAYER_FLAGS := -include replay/player/glibc/glibc.h -Wl,--wrap=__libc_start_main
PLAYER_LIBS := -Wl,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0

HEADERS := $(shell find api sim probe/shim replay/player examples -name '*.h' -not -path 'sim/conformance/*' 2>/dev/null) api/runtimes.mk
SIM_GO  := $(shell find api sim -name '*.go' -not -name '*_test.go' 2>/dev/null)

PROGRAMS := vector_add matmul_pipeline tiny_decoder histogram
KERNELS  := $(basename $(notdir $(wildcard examples/kernels/*.c)))
EMBEDDED := $(call each,shim) libacltrace-audit.so acltrace-player
BREAK    := $(addprefix lib/break/,$(call each,engine))
LIBS     := $(addprefix lib/,$(call each,sim) $(call each,engine) $(EMBEDDED) cupti-count.so)
CUDA     := bin/examples/cuda/driver bin/examples/cuda/kernels.so
EXAMPLES := $(CUDA) bin/examples/hello $(PROGRAMS:%=bin/examples/%) $(KERNELS:%=bin/examples/%.o) $(KERNELS:%=bin/examples/%.so)

setup:
	@scripts/setup.sh

build: setup bin/acltrace $(LIBS) $(EXAMPLES) lib/aclsim_kernels.so lib/aclsim_kernels.o

# acltrace embeds the C parts for its processor: see internal/artifacts. Debug information is stripped. It is half of the
# file, and of the bytes that each recording writes before its program starts. A Go panic has line numbers without it.
STRIP    ?= strip
CROSS    ?= aarch64-linux-gnu-gcc
BUILD     = CGO_ENABLED=0 $(GO) build -trimpath -tags embedded -ldflags "-s -w -X main.version=$(VERSION)"

# Copies the stripped parts, and no others, for the architecture $1 from the folder $2 with the program $3.
define embed
	@mkdir -p bin && rm -rf internal/artifacts/files/$1 && mkdir -p internal/artifacts/files/$1
	$(foreach f,$(EMBEDDED),$3 --strip-debug -o internal/artifacts/files/$1/$f $2/$f$(newline))
endef

bin/acltrace: $(LIBS) FORCE
	$(call embed,$(ARCH),lib,$(STRIP))
	$(BUILD) -o $@ ./cmd/acltrace
FORCE:

# The shim of the runtime $1.
define shim
lib/$($1_shim): $(SHIM_C) $($1_shim_c) $(HEADERS)
	@mkdir -p lib
	$(CC) $(CFLAGS) $(SHIM_FLAGS) -I$($1_include) $($1_shim_flags) -o $$@ $(SHIM_C) $($1_shim_c)

lib/arm64/$($1_shim): $(SHIM_C) $($1_shim_c) $(HEADERS)
	@scripts/setup.sh cross
	@mkdir -p lib/arm64
	$(CROSS) $(CFLAGS) $(SHIM_FLAGS) -mno-outline-atomics -I$($1_include) $($1_shim_flags) -o $$@ $(SHIM_C) $($1_shim_c)
endef
$(foreach r,$(RUNTIMES),$(eval $(call shim,$r)))

lib/libacltrace-audit.so: probe/shim/audit/audit.c $(HEADERS)
	@mkdir -p lib
	$(CC) $(CFLAGS) $(SHIM_FLAGS) -o $@ $<

lib/acltrace-player: $(PLAYER_C) $(HEADERS)
	@mkdir -p lib
	$(CC) $(CFLAGS) $(PLAYER_FLAGS) -o $@ $(PLAYER_C) $(PLAYER_LIBS)

# bin/acltrace-arm64 is the one file to copy to an aarch64 machine.
cross: bin/acltrace-arm64

bin/acltrace-arm64: $(EMBEDDED:%=lib/arm64/%) FORCE
	$(call embed,arm64,lib/arm64,$(CROSS:gcc=strip))
	GOARCH=arm64 $(BUILD) -o $@ ./cmd/acltrace

lib/arm64/libacltrace-audit.so: probe/shim/audit/audit.c $(HEADERS)
	@scripts/setup.sh cross
	@mkdir -p lib/arm64
	$(CROSS) $(CFLAGS) $(SHIM_FLAGS) -mno-outline-atomics -o $@ $<

lib/arm64/acltrace-player: $(PLAYER_C) $(HEADERS)
	@scripts/setup.sh cross
	@mkdir -p lib/arm64
	$(CROSS) $(CFLAGS) $(PLAYER_FLAGS) -o $@ $(PLAYER_C) $(PLAYER_LIBS)

# The simulator of the runtime $1. A simulator in Go is two libraries: the exports in C, and the engine that they load.
SIM_FLAGS := -fPIC -shared

define simulator
lib/$($1_sim): $($1_sim_c) $(HEADERS)
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS) $(SIM_FLAGS) -I$($1_include) $($1_sim_flags) -Wl,-soname,$$(@F) -o $$@ $($1_sim_c) -ldl -lpthread
	$$(foreach n,$($1_sim_links),ln -sf $$(@F) $$(@D)/$$n$$(newline))

ifneq ($($1_engine),)
lib/$($1_engine): $(SIM_GO) $(wildcard $($1_engine_go)/*.[ch]) $(HEADERS)
	@mkdir -p lib
	CGO_ENABLED=1 $(GO) build -buildmode=c-shared -trimpath -o $$@ $($1_engine_go)
	@rm -f $$(@:.so=.h)

# For the conformance suite only: ACLSIM_BREAK names the rule that this simulator breaks.
lib/break/$($1_engine): $(SIM_GO) $(wildcard $($1_engine_go)/*.[ch]) $(HEADERS) $($1_sim_c)
	@mkdir -p lib/break
	$(CC) $(CFLAGS) $(SIM_FLAGS) -I$($1_include) $($1_sim_flags) -Wl,-soname,$($1_sim) -o lib/break/$($1_sim) $($1_sim_c) -ldl -lpthread
	CGO_ENABLED=1 $(GO) build -tags aclsim_break -buildmode=c-shared -trimpath -o $$@ $($1_engine_go)
	@rm -f $$(@:.so=.h)
endif
endef
$(foreach r,$(RUNTIMES),$(if $($r_sim_c),$(eval $(call simulator,$r))))

# Counts calls for scripts/test-gpu.sh.
lib/cupti-count.so: scripts/cupti_count.c
	@mkdir -p lib
	$(CC) -std=gnu11 -O2 -g $(WARN) -fPIC -shared -o $@ $< -ldl

# The examples find the simulator beside them. LD_LIBRARY_PATH selects another library.
EXAMPLE_LIBS := -Llib -lascendcl -Wl,-rpath,'$$ORIGIN/../../lib'

bin/examples/hello: examples/hello.c lib/$(acl_sim) $(HEADERS)
	@mkdir -p bin/examples
	$(CC) $(CFLAGS) -I$(acl_include) -o $@ $< $(EXAMPLE_LIBS)

# These find the machine's driver, or the fake one through LD_LIBRARY_PATH. Old drivers lack functions that some cases call.
bin/examples/cuda/kernels.so: examples/cuda/kernels.c sim/cuda/include/fakecuda.h
	@mkdir -p bin/examples/cuda
	$(CC) -std=c11 -O2 -g $(WARN) -ffp-contract=off -fPIC -shared -Isim/cuda/include -o $@ $<

bin/examples/cuda/%: examples/cuda/%.c examples/cuda/kernels.h $(cuda_include)/cuda.h lib/$(cuda_sim)
	@mkdir -p bin/examples/cuda
	$(CC) -std=gnu11 -O2 -g $(WARN) -I$(cuda_include) -o $@ $< -Llib/fakecuda -lcuda -ldl -Wl,-z,lazy

# A kernel is compiled twice: the program loads the object, the simulator runs the library.
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
	$(GO) run ./internal/cmd/conformance

demo: build
	@bin/acltrace demo

# Builds Jaeger from its Go module, and serves the trace of the demo until it is stopped.
demo-jaeger: build
	@scripts/demo-jaeger.sh

jaeger:
	@scripts/jaeger.sh

# Builds an OpenTelemetry collector from its Go modules, for the tests of the export.
collector:
	@scripts/collector.sh

# setup.sh reports everything that is missing before the build starts.
test:
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build $(BREAK)
	@scripts/test.sh

# Runs, records and replays the CUDA examples on the NVIDIA driver of this machine, and reports why if there is none. Uses
# the existing files if there is no compiler.
test-gpu:
	@if command -v $(GO) >/dev/null && command -v $(CC) >/dev/null; then $(MAKE) --no-print-directory build || echo "the build failed: testing the existing files"; fi
	@scripts/test-gpu.sh

bench: build
	@scripts/bench.sh

lint:
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	@$(GO) run ./internal/cmd/prose

soak: build $(BREAK)
	@scripts/soak.sh

clean:
	rm -rf bin lib build internal/artifacts/files

# The simulator's own kernels: the library for ACLSIM_KERNELS, and the binary that a program loads for them.
lib/aclsim_kernels.so: sim/kernels/kernels.c sim/kernels/typed.h $(HEADERS)
	$(CC) $(KERNEL_FLAGS) -shared -Wl,-Bsymbolic -o $@ $< -lm

lib/aclsim_kernels.o: sim/kernels/names.c $(HEADERS)
	$(CC) $(KERNEL_FLAGS) -c -o $@ $<

# Last, because .SECONDEXPANSION affects all later rules. A program consists of all sources in its folder.
.SECONDEXPANSION:
$(PROGRAMS:%=bin/examples/%): $$(wildcard examples/$$(@F)/*.cpp) lib/$(acl_sim) $(HEADERS)
	@mkdir -p bin/examples
	$(CXX) -std=c++17 -O2 -g $(WARN) -ffp-contract=off -I$(acl_include) -o $@ $(filter %.cpp,$^) $(EXAMPLE_LIBS)
