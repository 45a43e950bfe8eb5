# PGXS build of the server module vectorgpu.so, and of the worker executable through CMake if it is installed. Unit tests and
# benchmarks are built by CMake only.
#   make [PG_CONFIG=...] [CUDA=0|1] [CUDA_TARGETS=...] [FAULTS=1] [WERROR=1] [DEBUG_INFO=0] [PRECOMPILED=1] [SANITIZE=...]   make install   make installcheck   make dist
# CUDA: 1 builds the worker with the CUDA engine, 0 without. Default: 1 if nvcc is found, but 0 in test builds (FAULTS=1),
# since compiling the kernels takes minutes. CUDA_TARGETS: see gpu/README.md. SANITIZE: sanitizers of g++ for the module, such as
# address,undefined; WORKER_SANITIZE: for the worker, such as thread; default: those of the module. A server needs their libraries
# preloaded: scripts/test_parts/sanitizers.sh. PRECOMPILED=1 reads the server's headers once (src/pg/precompiled.hpp), which halves the
# time, but hides a file's missing #include.
EXTENSION = vectorgpu vectorgpu_pgvector
MODULE_big = vectorgpu
DATA = $(wildcard sql/install/vectorgpu--*.sql sql/install/vectorgpu_pgvector--*.sql)

# These folders belong to the worker: they have threads, and the GEMM filter needs OpenBLAS, which starts threads when it is loaded.
# A backend may have neither.
SOURCES := $(filter-out src/vector_settings/% src/worker/% src/engine/cpu/% src/engine/filter/% src/engine/copies/%, \
	$(wildcard src/*.cpp $(addprefix src/*/,*.cpp */*.cpp */*/*.cpp)))
OBJS = $(SOURCES:.cpp=.o)

REGRESS = $(shell sed -n 's/^test: //p' sql/schedule)
ISOLATION = $(shell sed -n 's/^test: //p' test/isolation/schedule)
ISOLATION_OPTS = --inputdir=$(CURDIR)/test/isolation
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl
# "override", since PGXS sets it to nothing.
override PROVE_FLAGS += -I $(CURDIR)/test/t/lib

PG_CONFIG ?= pg_config
override with_llvm = no
PG_CPPFLAGS = -I$(CURDIR)/src -isystem $(shell $(PG_CONFIG) --includedir-server)
SHLIB_LINK = -lstdc++ -lm

EXTRA_CLEAN = build/precompiled $(VECTOR_LIBRARY) $(VECTOR_SCRIPT) src/vector_settings/settings.d $(WORKER_BUILD) $(WORKER_BUILD).log $(OBJS:.o=.d) $(shell find src -name '*.d' -o -name '*.o' 2>/dev/null)

# Under pgvector's names: an extension `vector` of its own, for databases without pgvector. It has the scripts of vectorgpu, pgvector's access
# methods, and a library with pgvector's settings. `make install-vector` installs it beside vectorgpu, unless pgvector is there.
VECTOR_VERSION = 0.8.6
VECTOR_SCRIPT = build/vector--$(VECTOR_VERSION).sql
VECTOR_LIBRARY = vectorgpu_vector.so

# The worker is a separate program, built by CMake. Without CMake the module works alone.
CMAKE ?= cmake
WORKER_SANITIZE ?= $(SANITIZE)
WORKER_BUILD = build/worker$(if $(WORKER_SANITIZE),-sanitized)
WORKER = $(WORKER_BUILD)/bin/vectorgpu_worker
HAVE_CMAKE := $(shell command -v $(CMAKE) 2>/dev/null)
NVCC := $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA ?= $(if $(filter 1,$(FAULTS)),0,$(if $(NVCC),1,0))
ifneq ($(wildcard src/worker/main.cpp),)
WORKER_TARGETS = worker
endif

all: $(WORKER_TARGETS) $(VECTOR_LIBRARY) $(VECTOR_SCRIPT)

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

.PHONY: worker install-worker uninstall-worker not-root
# Fail at once, not after the first two kinds of tests.
installcheck: not-root
not-root:
	@[ "$$(id -u)" -ne 0 ] || { echo "make installcheck: run it as another user than root, which the servers of the TAP tests may not be"; exit 1; }
ifeq ($(HAVE_CMAKE),)
worker:
	@echo "no cmake found: the worker is not built, scans will be answered inside the server"
else
worker:
	@mkdir -p $(WORKER_BUILD)
	@$(CMAKE) -S . -B $(WORKER_BUILD) -DCMAKE_RUNTIME_OUTPUT_DIRECTORY=$(CURDIR)/$(WORKER_BUILD)/bin \
		-DVECTORGPU_TESTS=OFF -DVECTORGPU_BENCHMARKS=OFF -DVECTORGPU_WERROR=$(if $(filter 1,$(WERROR)),ON,OFF) \
		-DVECTORGPU_FAULTS=$(if $(filter 1,$(FAULTS)),ON,OFF) -DVECTORGPU_CUDA=$(if $(filter 1,$(CUDA)),ON,OFF) \
		$(if $(CUDA_TARGETS),-DVECTORGPU_CUDA_TARGETS="$(CUDA_TARGETS)") \
		$(if $(WORKER_SANITIZE),-DVECTORGPU_SANITIZE=$(WORKER_SANITIZE) -DCMAKE_BUILD_TYPE=RelWithDebInfo) >$(WORKER_BUILD).log 2>&1 \
		|| { cat $(WORKER_BUILD).log; exit 1; }
	@sed -n 's/^-- vectorgpu: //p' $(WORKER_BUILD).log
	+@$(CMAKE) --build $(WORKER_BUILD) --target vectorgpu_worker
endif

# Its own copy of the definitions' code, whatever vectorgpu.so exports.
$(VECTOR_LIBRARY): src/vector_settings/settings.o src/pg/define_setting.o src/pg/compat.o
	$(CXX) $(CXXFLAGS) -shared -Wl,-Bsymbolic $(if $(SANITIZE),-fsanitize=$(SANITIZE)) -o $@ $^

$(VECTOR_SCRIPT): $(sort $(wildcard sql/install/vectorgpu--*.sql)) sql/vector/access_methods.sql
	@mkdir -p $(@D)
	@{ printf '%s\n' '\echo Use "CREATE EXTENSION vector" to load this file. \quit'; \
		sed '/^\\echo /d' sql/install/vectorgpu--0.1.0.sql $(sort $(filter-out %/vectorgpu--0.1.0.sql,$(wildcard sql/install/vectorgpu--*.sql))) sql/vector/access_methods.sql; } >$@.new
	@mv -f $@.new $@

.PHONY: install-vector uninstall-vector
uninstall: uninstall-vector
uninstall-vector:
	@if grep -q vectorgpu '$(DESTDIR)$(datadir)/extension/vector.control' 2>/dev/null; then \
		rm -f '$(DESTDIR)$(datadir)/extension/vector.control' '$(DESTDIR)$(datadir)/extension/vector--$(VECTOR_VERSION).sql'; \
	fi
	@rm -f '$(DESTDIR)$(pkglibdir)/$(VECTOR_LIBRARY)'

install-vector: all
	@control='$(DESTDIR)$(datadir)/extension/vector.control'; \
	if [ -e "$$control" ] && ! grep -q vectorgpu "$$control"; then \
		echo "make install-vector: pgvector is installed there ($$control), whose extension has the same name; remove its package first" >&2; exit 1; \
	fi
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)' '$(DESTDIR)$(datadir)/extension'
	$(INSTALL_SHLIB) $(VECTOR_LIBRARY) '$(DESTDIR)$(pkglibdir)/$(VECTOR_LIBRARY)'
	$(INSTALL_DATA) sql/vector/vector.control $(VECTOR_SCRIPT) '$(DESTDIR)$(datadir)/extension/'

# Installed under a new name first: the old file may be running.
install: install-worker
install-worker: $(WORKER_TARGETS)
	@if [ -x $(WORKER) ]; then \
		$(MKDIR_P) '$(DESTDIR)$(pkglibdir)' && \
		$(INSTALL_PROGRAM) $(WORKER) '$(DESTDIR)$(pkglibdir)/vectorgpu_worker.new' && \
		mv -f '$(DESTDIR)$(pkglibdir)/vectorgpu_worker.new' '$(DESTDIR)$(pkglibdir)/vectorgpu_worker'; \
	else echo "no worker to install"; fi

uninstall: uninstall-worker
uninstall-worker:
	rm -f '$(DESTDIR)$(pkglibdir)/vectorgpu_worker'

# Archives of the commit, or without git of the files there: build/vectorgpu-VERSION.tar.gz, and .zip, which PGXN takes.
DIST = vectorgpu-$(shell sed -n "s/^default_version = '\(.*\)'/\1/p" vectorgpu.control)
NO_SOURCES = $(addprefix --exclude=./,build .git results tmp_check tmp_check_iso output_iso log regression.diffs regression.out) \
	--exclude='*.o' --exclude='*.d' --exclude='*.so' --exclude='*.bc' --exclude=__pycache__
.PHONY: dist
dist:
	@rm -rf build/$(DIST) build/$(DIST).tar.gz build/$(DIST).zip
	@mkdir -p build/$(DIST)
	@{ if [ -e .git ] && git rev-parse --verify -q HEAD >/dev/null 2>&1; then git archive --format=tar HEAD; else tar $(NO_SOURCES) -cf - .; fi; } | tar -C build/$(DIST) -xf -
	@cd build && tar --sort=name --owner=root:0 --group=root:0 -czf $(DIST).tar.gz $(DIST) && python3 -m zipfile -c $(DIST).zip $(DIST)
	@rm -rf build/$(DIST)
	@ls build/$(DIST).tar.gz build/$(DIST).zip

# Same bits everywhere: no contraction, no -march=native, no fast-math; vector code is chosen at run time, one file per ISA.
override CXXFLAGS += -std=c++20 -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -ffp-contract=off -fPIC -MMD -MP
ifeq ($(WERROR),1)
override CXXFLAGS += -Werror
endif
ifeq ($(DEBUG_INFO),0)
override CXXFLAGS += -g0
endif
ifeq ($(FAULTS),1)
override CXXFLAGS += -DVECTORGPU_FAULTS
endif
ifeq ($(ASSERTS),1)
override CXXFLAGS += -DVECTORGPU_ASSERTS
endif
# Flags of the server hide defects from the sanitizers: -D_FORTIFY_SOURCE in calls of the C library, -fwrapv overflows.
ifneq ($(SANITIZE),)
override CXXFLAGS += -fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined -fno-omit-frame-pointer -fno-wrapv
override CPPFLAGS += -U_FORTIFY_SOURCE
SHLIB_LINK += -fsanitize=$(SANITIZE)
endif

ifeq ($(PRECOMPILED),1)
PRECOMPILED_HEADER = build/precompiled/headers.hpp
SERVER_OBJS = $(filter-out src/engine/% src/wire/%,$(OBJS))
$(SERVER_OBJS): $(PRECOMPILED_HEADER).gch
$(SERVER_OBJS): override CXXFLAGS += -include $(PRECOMPILED_HEADER)
$(PRECOMPILED_HEADER).gch: src/pg/precompiled.hpp
	@mkdir -p $(@D)
	@printf '#include "pg/precompiled.hpp"\n' >$(PRECOMPILED_HEADER)
	$(CXX) $(CXXFLAGS) $(CPPFLAGS) -x c++-header -o $@ $(PRECOMPILED_HEADER)
-include $(PRECOMPILED_HEADER).d
endif

src/engine/distance/%_avx2.o: override CXXFLAGS += -mavx2 -mfma -mf16c
src/engine/distance/%_avx512.o: override CXXFLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c
# Loops over blocks of elements are vectorized at -O3 only.
src/engine/ivf/ivf_%.o: override CXXFLAGS += -O3
src/engine/ivf/%_avx2.o: override CXXFLAGS += -mavx2 -mfma -mf16c
src/engine/ivf/%_avx512.o: override CXXFLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c
src/engine/graph/%_avx2.o: override CXXFLAGS += -mavx2 -mfma -mf16c
src/engine/predicate/%_avx2.o: override CXXFLAGS += -mavx2 -mfma -mf16c
src/engine/predicate/%_avx512.o: override CXXFLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c

-include $(OBJS:.o=.d)
