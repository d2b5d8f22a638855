# All commands of a contributor. Each target does its own set-up.
.DELETE_ON_ERROR:
.PHONY: setup build cross cross-tools release demo demo-jaeger servers viewers generate test test-gpu test-torch test-parquet bench lint soak mutants clean

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
# Without the folder of the build in its output. The same for all C in Go, so that Go compiles it once.
MAP     := -ffile-prefix-map=$(CURDIR)=.
export CGO_CFLAGS := -O2 -g $(MAP)
CFLAGS  := -std=c11 -O2 -g $(WARN) $(MAP)
ARCH    := $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# The hash and the date of the commit.
COMMIT  := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format='%H %cd' 2>/dev/null || echo unknown unknown)

# The shim links no library. Its constructor copies a path (session/session.c), and its destructor stores a word (session/process.c).
SHIM_FLAGS := -fPIC -fvisibility=hidden -ffreestanding -fno-stack-protector -fno-builtin -nostdlib -shared -Iprobe/shim -Wl,-z,nodelete -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,defs
# Atomic operations must be instructions, because calls would need a library.
SHIM_FLAGS_arm64 := -mno-outline-atomics
# Each runtime has a shim: the common sources and its own.
SHIM_C := $(wildcard $(patsubst %,probe/shim/%/*.c,base session record task payload bind))
# The parts of a release run with C libraries that are older than the one on the build machine.
# They are linked to the symbol versions in internal/glibc.
GLIBC    := libdl.so.2 libpthread.so.0 libm.so.6
PLAYER_C := $(wildcard replay/player/*.c)

HEADERS := $(shell find api sim probe/shim replay/player -name '*.h' -not -path 'sim/conformance/*' 2>/dev/null) api/runtimes.mk
# Of all examples. The folder of an example may have headers of its own.
EXAMPLE_HEADERS := $(HEADERS) $(wildcard examples/common/*.h examples/kernels/*.h)
SIM_GO  := $(shell find api sim -name '*.go' -not -name '*_test.go' 2>/dev/null) $(wildcard sim/opapi/compute/*.[ch]) sim/kernels/half.h

PROGRAMS := vector_add matmul_pipeline histogram
PROBLEMS := $(basename $(notdir $(wildcard examples/problems/*.c)))
KERNELS  := $(basename $(notdir $(wildcard examples/kernels/*.c)))
BREAK    := $(addprefix lib/break/,$(call each,engine))
CUDA     := bin/examples/cuda/driver bin/examples/cuda/kernels.so
EXAMPLES := $(CUDA) $(addprefix bin/examples/,hello tiny_decoder serving $(PROGRAMS) $(PROBLEMS) $(KERNELS:%=%.o) $(KERNELS:%=%.so))

# What acltrace embeds: parts as they are, and files for an archive. See internal/artifacts.
PARTS    := $(call each,shim) libacltrace-audit.so libacltrace-decoy.so acltrace-player
SIMS     := $(call each,sim) $(call each,engine) $(call each,libraries)
SIMLINKS := $(patsubst ./%,%,$(foreach r,$(RUNTIMES),$(addprefix $(dir $($r_sim)),$($r_sim_links)))) $(foreach l,$(call each,libraries),$($l_links))
DEMO     := tiny_decoder decoder_kernels.o decoder_kernels.so
LIBS     := $(addprefix lib/,$(SIMS) $(PARTS) toolkit/version.info cupti-count.so)

setup:
	@scripts/setup.sh

build: setup bin/acltrace $(LIBS) $(EXAMPLES) lib/aclsim_kernels.so lib/aclsim_kernels.o

# A Go panic has line numbers without debug information.
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags embedded \
	-ldflags "-s -w -buildid= -X main.version=$(VERSION) -X main.commit=$(word 1,$(COMMIT)) -X main.date=$(word 2,$(COMMIT))"

# Builds $@ for the architecture $1 with stripped parts from the folder $2, examples from the folder $3, and the program $4 to strip them.
# Debug information is half of the file, and of the bytes that each recording writes before its program starts.
define acltrace
	@mkdir -p $(@D) && rm -rf internal/artifacts/files/$1 && mkdir -p internal/artifacts/files/$1
	$(foreach f,$(PARTS),$4 --strip-debug -o internal/artifacts/files/$1/$f $2/$f$(newline))
	CGO_ENABLED=0 $(GO) run -trimpath ./internal/cmd/embed -strip $4 internal/artifacts/files/$1/files.zip \
		$(foreach f,$(SIMS) $(SIMLINKS),lib/$f=$2/$f) $$(cd $2 && find toolkit ! -type d | sort | sed 's|.*|lib/&=$2/&|') $(foreach f,$(DEMO),bin/examples/$f=$3/$f)
	GOARCH=$1 $(BUILD) -o $@ ./cmd/acltrace
endef

bin/acltrace: $(LIBS) $(DEMO:%=bin/examples/%) FORCE
	$(call acltrace,$(ARCH),lib,bin/examples,$(STRIP))
FORCE:

# bin/acltrace-arm64 is the one file to copy to an aarch64 machine.
cross: bin/acltrace-arm64

bin/acltrace-arm64: $(addprefix lib/arm64/,$(PARTS) $(SIMS) toolkit/version.info) $(DEMO:%=bin/examples/arm64/%) FORCE
	$(call acltrace,arm64,lib/arm64,bin/examples/arm64,$(CROSS:gcc=strip))

cross-tools:
	@scripts/setup.sh cross

# VERSION names the files. See docs/dev/release.md.
release: setup bin/acltrace bin/acltrace-arm64
	@scripts/release.sh $(VERSION)

# C parts are in a folder for each architecture: the one of this machine in lib, and arm64 in lib/arm64.
STRIP ?= strip
CROSS ?= aarch64-linux-gnu-gcc
lib_arch     := $(ARCH)
lib_cc        = $(CC)
lib_examples := bin/examples
lib/arm64_arch     := arm64
lib/arm64_cc        = $(CROSS)
lib/arm64_examples := bin/examples/arm64
lib/arm64_tools    := cross-tools
SIM_FLAGS    := -fPIC -shared
# Flags to link with old symbol versions from the folder $1, and prerequisites.
old       = -L$1/glibc -Wl,--push-state,--as-needed $(GLIBC:%=-l:%) -Wl,--pop-state
old_main  = internal/glibc/start.c -Wl,--wrap=__libc_start_main
old_files = $(GLIBC:%=$1/glibc/%) internal/glibc/start.c
KERNEL_FLAGS := $(CFLAGS) -ffp-contract=off -fPIC -Isim/libascendcl/include
ENGINE     = CGO_ENABLED=1 GOARCH=$($1_arch) CC="$($1_cc)" CGO_LDFLAGS="$(call old,$(CURDIR)/$1)" \
	$(GO) build -buildmode=c-shared -trimpath -buildvcs=false -ldflags=-buildid=

# The parts of all runtimes in the folder $1.
define parts
$1/glibc/%: $(wildcard internal/glibc/*) | $($1_tools)
	@mkdir -p $$(@D)
	$($1_cc) -shared -nostdlib -fPIC -w -fno-builtin -Wl,-soname,$$* -Wl,--version-script=internal/glibc/$($1_arch).map -o $$@ internal/glibc/$$(firstword $$(subst ., ,$$*)).c

$1/libacltrace-audit.so: probe/shim/audit/audit.c $(HEADERS) | $($1_tools)
	@mkdir -p $$(@D)
	$($1_cc) $(CFLAGS) $(SHIM_FLAGS) $(SHIM_FLAGS_$($1_arch)) -o $$@ $$<

$1/libacltrace-decoy.so: probe/shim/decoy/decoy.c | $($1_tools)
	@mkdir -p $$(@D)
	$($1_cc) -shared -nostdlib -fPIC $(CFLAGS) -o $$@ $$<

$1/acltrace-player: $(PLAYER_C) $(HEADERS) $(call old_files,$1)
	@mkdir -p $$(@D)
	$($1_cc) $(CFLAGS) -o $$@ $(PLAYER_C) $(old_main) $(call old,$1)

# What programs take for a toolkit, without its libraries.
$1/toolkit/version.info: $(shell find sim/toolkit/root internal/cmd/toolkit -type f) sim/opapi/operators.tsv api/acl/acl_gen.go $(HEADERS)
	CGO_ENABLED=0 $(GO) run -trimpath ./internal/cmd/toolkit $$(@D)

# A kernel is compiled twice: the program loads the object, the simulator runs the library.
$($1_examples)/%.o: examples/kernels/%.c $(EXAMPLE_HEADERS) | $($1_tools)
	@mkdir -p $$(@D)
	$($1_cc) $(KERNEL_FLAGS) -c -o $$@ $$<

$($1_examples)/%.so: examples/kernels/%.c $(EXAMPLE_HEADERS) | $($1_tools)
	@mkdir -p $$(@D)
	$($1_cc) $(KERNEL_FLAGS) -shared -Wl,-Bsymbolic -o $$@ $$< -lm

$($1_examples)/tiny_decoder: $(wildcard examples/tiny_decoder/*.[ch]) $1/$(acl_sim) $(EXAMPLE_HEADERS) $(call old_files,$1)
	@mkdir -p $$(@D)
	$($1_cc) $(CFLAGS) -ffp-contract=off -I$(acl_include) -o $$@ $$(filter examples/%.c,$$^) $(old_main) -L$1 $$(EXAMPLE_LIBS) -lm
endef

# The parts of the runtime $2 in the folder $1. A simulator in Go is two libraries: the exports in C, and the engine that they load.
define runtime
$1/$($2_shim): $(SHIM_C) $($2_shim_c) $(HEADERS) | $($1_tools)
	@mkdir -p $$(@D)
	$($1_cc) $(CFLAGS) $(SHIM_FLAGS) $(SHIM_FLAGS_$($1_arch)) -I$($2_include) $($2_shim_flags) -o $$@ $(SHIM_C) $($2_shim_c)

$1/$($2_sim): $($2_sim_c) $(HEADERS) $(call old_files,$1)
	@mkdir -p $$(@D)
	$($1_cc) $(CFLAGS) $(SIM_FLAGS) -I$($2_include) $($2_sim_flags) -Wl,-soname,$$(@F) -o $$@ $($2_sim_c) $(call old,$1)
	$$(foreach n,$($2_sim_links),ln -sf $$(@F) $$(@D)/$$n$$(newline))

ifneq ($($2_engine),)
$1/$($2_engine): $(SIM_GO) $(wildcard $($2_engine_go)/*.[ch]) $(HEADERS) $(call old_files,$1)
	@mkdir -p $$(@D)
	$(ENGINE) -o $$@ $($2_engine_go)
	@rm -f $$(@:.so=.h)
endif
endef

# The library $3 of a toolkit, beside the simulator of the runtime $2, in the folder $1.
define beside
$1/$3: $($3_c) $(addprefix $1/,$($3_needs)) $(HEADERS) $(call old_files,$1) | $($1_tools)
	@mkdir -p $$(@D)
	$($1_cc) $(CFLAGS) $(SIM_FLAGS) -fvisibility=hidden -I$($2_include) $($3_flags) -Wl,-soname,$3 -o $$@ $($3_c) -L$1 -Wl,--no-as-needed $($3_needs:%=-l:%) -Wl,--as-needed $(call old,$1)
	$$(foreach n,$($3_links),ln -sf $$(@F) $$(@D)/$$n$$(newline))
endef
$(foreach d,lib lib/arm64,$(eval $(call parts,$d))$(foreach r,$(RUNTIMES),$(eval $(call runtime,$d,$r))$(foreach l,$($r_libraries),$(eval $(call beside,$d,$r,$l)))))

# For the conformance suite only: ACLSIM_BREAK names the rule that this simulator breaks.
define broken
lib/break/$($1_engine): $(SIM_GO) $(wildcard $($1_engine_go)/*.[ch]) $(HEADERS) $($1_sim_c)
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS) $(SIM_FLAGS) -I$($1_include) $($1_sim_flags) -Wl,-soname,$($1_sim) -o $$(@D)/$($1_sim) $($1_sim_c) -ldl -lpthread
	CGO_ENABLED=1 $(GO) build -tags aclsim_break -buildmode=c-shared -trimpath -o $$@ $($1_engine_go)
	@rm -f $$(@:.so=.h)
endef
$(foreach r,$(RUNTIMES),$(if $($r_engine),$(eval $(call broken,$r))))

# Counts calls for scripts/test-gpu.sh.
lib/cupti-count.so: scripts/cupti_count.c
	@mkdir -p lib
	$(CC) -std=gnu11 -O2 -g $(WARN) -fPIC -shared -o $@ $< -ldl

# The examples find the simulator beside them. LD_LIBRARY_PATH selects another library.
EXAMPLE_LIBS := -lascendcl -Wl,-rpath,'$$ORIGIN/../../lib'

bin/examples/hello: examples/hello.c lib/$(acl_sim) $(EXAMPLE_HEADERS)
	@mkdir -p bin/examples
	$(CC) $(CFLAGS) -I$(acl_include) -o $@ $< -Llib $(EXAMPLE_LIBS)

# Programs with a problem, which docs/howto solves.
bin/examples/many_ranks: lib/libhccl.so
bin/examples/many_ranks: EXAMPLE_LIBS += -lhccl

# A stand-in for a serving engine: it calls operators too.
bin/examples/serving: EXAMPLE_LIBS += -lnnopbase -lopapi -lhccl
bin/examples/serving: $(wildcard examples/serving/*.cpp examples/serving/*.h) lib/$(acl_sim) lib/libopapi.so lib/libhccl.so $(EXAMPLE_HEADERS)
	$(CXX) -std=c++17 -O2 -g $(WARN) -I$(acl_include) -Isim/toolkit/root/include -o $@ $(filter %.cpp,$^) -Llib $(EXAMPLE_LIBS)

bin/examples/memory_grows: CFLAGS += -fno-omit-frame-pointer

$(PROBLEMS:%=bin/examples/%): bin/examples/%: examples/problems/%.c examples/problems/problem.h lib/$(acl_sim) $(EXAMPLE_HEADERS)
	@mkdir -p bin/examples
	$(CC) $(CFLAGS) -I$(acl_include) -o $@ $< -Llib $(EXAMPLE_LIBS)

# These find the machine's driver, or the fake one through LD_LIBRARY_PATH. Old drivers lack functions that some cases call.
bin/examples/cuda/kernels.so: examples/cuda/kernels.c sim/cuda/include/fakecuda.h
	@mkdir -p bin/examples/cuda
	$(CC) -std=c11 -O2 -g $(WARN) -ffp-contract=off -fPIC -shared -Isim/cuda/include -o $@ $<

bin/examples/cuda/%: examples/cuda/%.c examples/cuda/kernels.h $(cuda_include)/cuda.h lib/$(cuda_sim)
	@mkdir -p bin/examples/cuda
	$(CC) -std=gnu11 -O2 -g $(WARN) -I$(cuda_include) -o $@ $< -Llib/fakecuda -lcuda -ldl -Wl,-z,lazy

generate:
	@scripts/setup.sh generate
	$(GO) run ./internal/cmd/apigen
	$(GO) generate ./probe/...
	$(GO) run ./internal/cmd/conformance
	$(GO) run ./internal/cmd/docgen

demo: build
	@bin/acltrace demo

# Builds Jaeger from its Go module, and serves the trace of the demo until it is stopped.
demo-jaeger: build
	@scripts/demo-jaeger.sh

# Builds Jaeger, an OpenTelemetry collector and Prometheus's query engine from their Go modules, for tests.
servers:
	@scripts/servers.sh

# Fetches programs that read exported traces, for tests.
viewers:
	@scripts/viewers.sh

# setup.sh reports everything that is missing before the build starts.
test:
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory -j$(shell nproc) build $(BREAK) servers viewers
	@scripts/test.sh

# Runs, records and replays the CUDA examples on the NVIDIA driver of this machine, and reports why if there is none. Uses
# the existing files if there is no compiler.
test-gpu:
	@if command -v $(GO) >/dev/null && command -v $(CC) >/dev/null; then $(MAKE) --no-print-directory build || echo "the build failed: testing the existing files"; fi
	@scripts/test-gpu.sh

# Records PyTorch programs on the simulator. Fetches several gigabytes of wheels the first time, and reports why if it can't.
test-torch: build
	@scripts/torch.sh

# Reads exported tables with pyarrow, pandas, polars, DuckDB, Spark and ClickHouse. Fetches 2 GB of wheels the first time, and reports why if it can't.
test-parquet:
	@scripts/parquet.sh

bench: build
	@scripts/bench.sh

lint:
	$(GO) vet ./...
	$(GO) vet -C format/yardsticks ./...
	$(GO) tool staticcheck ./...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	@$(GO) run ./internal/cmd/prose
	@$(GO) run ./internal/cmd/prose -texts
	@$(GO) run ./internal/cmd/lines

soak: build $(BREAK)
	@scripts/soak.sh

# Changes the code in 200 places, and reports the changes that no test notices. MUTANTS has flags, such as "-seed 2 -n 20". It compiles
# as scripts/test.sh does.
mutants: build
	ACLTRACE_LIB=$(CURDIR)/lib GOFLAGS=-trimpath CGO_ENABLED=0 $(GO) run ./internal/cmd/mutants $(MUTANTS)

clean:
	rm -rf bin lib build internal/artifacts/files

# The simulator's own kernels: the library for ACLSIM_KERNELS, and the binary that a program loads for them.
lib/aclsim_kernels.so: sim/kernels/kernels.c sim/kernels/typed.h $(HEADERS)
	$(CC) $(KERNEL_FLAGS) -shared -Wl,-Bsymbolic -o $@ $< -lm

lib/aclsim_kernels.o: sim/kernels/names.c $(HEADERS)
	$(CC) $(KERNEL_FLAGS) -c -o $@ $<

# Last, because .SECONDEXPANSION affects all later rules. A program consists of all sources in its folder.
.SECONDEXPANSION:
$(PROGRAMS:%=bin/examples/%): $$(wildcard examples/$$(@F)/*.cpp) lib/$(acl_sim) $(EXAMPLE_HEADERS)
	@mkdir -p bin/examples
	$(CXX) -std=c++17 -O2 -g $(WARN) -ffp-contract=off -I$(acl_include) -o $@ $(filter %.cpp,$^) -Llib $(EXAMPLE_LIBS)
