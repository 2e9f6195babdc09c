# pg_ringctl: buffer access strategies made visible, controllable and tight
#
#   make && make install            with the pg_config on PATH, or
#   make PG_CONFIG=/path/pg_config  of any PostgreSQL from 17 on
#   make installcheck               tests the installed extension on a running server
#   make installcheck-private       all tests, on servers of their own

MODULE_big = pg_ringctl
OBJS = \
	$(WIN32RES) \
	pg_ringctl.o \
	src/common/arguments.o \
	src/common/heap_am.o \
	src/common/relations.o \
	src/common/results.o \
	src/policies/policies.o \
	src/policies/policy_text.o \
	src/readers/bitmapscan.o \
	src/readers/block_order.o \
	src/readers/executor.o \
	src/readers/index_fetch.o \
	src/readers/indexscan.o \
	src/readers/load.o \
	src/readers/nodes.o \
	src/readers/prewarm.o \
	src/readers/prewarm_all.o \
	src/readers/prewarm_blocks.o \
	src/readers/prewarm_fit.o \
	src/readers/prewarm_parts.o \
	src/readers/prewarm_workers.o \
	src/readers/reader.o \
	src/readers/scan_facts.o \
	src/readers/scan_query.o \
	src/readers/scan_reader.o \
	src/readers/scan_sharing.o \
	src/readers/scan_stream.o \
	src/readers/scan_workers.o \
	src/readers/seqscan.o \
	src/readers/tidrangescan.o \
	src/readers/toast.o \
	src/readers/utility.o \
	src/readers/write_ring.o \
	src/ring/asked.o \
	src/ring/lend.o \
	src/ring/plan.o \
	src/ring/plan_words.o \
	src/ring/quiet.o \
	src/ring/ring.o \
	src/ring/size.o \
	src/ring/strategy.o \
	src/ring/tend.o \
	src/ring/watch.o \
	src/sharing/members.o \
	src/sharing/sharing.o \
	src/sharing/sharing_cost.o \
	src/shmem/area.o \
	src/shmem/escape_log.o \
	src/shmem/kill_switch.o \
	src/shmem/live_rings.o \
	src/shmem/progress.o \
	src/shmem/stats.o \
	src/sql/sql_explain.o \
	src/sql/sql_policies.o \
	src/sql/sql_pool.o \
	src/sql/sql_progress.o \
	src/sql/sql_rings.o \
	src/sql/sql_stats.o

EXTENSION = pg_ringctl
DATA = pg_ringctl--1.0.sql
PGFILEDESC = "pg_ringctl - rings of shared buffers, visible and tight"

# What any running server passes; and what takes a small pool of its own, which
# makes small tables big, and TAP tests, which start servers.
PRIVATE_REGRESS = setup parameters clean dirty modify partitions parallel prewarm prewarm_all blocks stats explain pool scans policies limit readers index_scans
ifeq ($(filter installcheck-private,$(MAKECMDGOALS)),)
REGRESS = installed
REGRESS_OPTS ?=
else
REGRESS = $(PRIVATE_REGRESS)
REGRESS_OPTS = --temp-instance=tmp_check --temp-config=$(srcdir)/sql/regress.conf
TAP_TESTS = 1
endif
EXTRA_CLEAN = tmp_check

# initdb refuses root, and a server that runs has no role of that name.
ifeq ($(shell id -u),0)
NO_INSTALLCHECK := $(filter $(if $(PGUSER),,installcheck) installcheck-private,$(MAKECMDGOALS))
endif

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(wildcard $(PGXS)),)
$(error the development files of a server are needed: there are none where $(PG_CONFIG) --pgxs says. Install them, or name another PG_CONFIG)
endif
include $(PGXS)

ifneq ($(shell test "$(MAJORVERSION)" -ge 17 && echo yes),yes)
$(error pg_ringctl needs PostgreSQL 17 or later; $(PG_CONFIG) is of $(VERSION))
endif

# A server with JIT compiles every extension to bitcode, too, by the compiler that it was built with.
ifneq ($(filter-out clean distclean maintainer-clean uninstall installcheck installcheck-private skipped,$(or $(MAKECMDGOALS),all)),)
ifeq ($(with_llvm),yes)
ifeq ($(shell command -v $(CLANG)),)
$(error $(CLANG), by which this server compiles for its JIT, is missing. Install it, or do without: make with_llvm=no, and then make install with_llvm=no)
endif
endif
endif

override CPPFLAGS += -I$(srcdir)/src

ROOMS = $(sort $(patsubst %/,%,$(dir $(filter src/%,$(OBJS)))))

$(OBJS) $(OBJS:.o=.bc): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/*/*.h) | $(addprefix $(CURDIR)/,$(ROOMS))

# A build folder apart from the sources has none.
$(addprefix $(CURDIR)/,$(ROOMS)):
	$(MKDIR_P) $@

.PHONY: installcheck installcheck-private skipped
ifdef NO_INSTALLCHECK
installcheck installcheck-private:
	$(srcdir)/dev/unprivileged $@
else
installcheck-private: installcheck
installcheck: | $(if $(filter installcheck-private,$(MAKECMDGOALS)),,skipped)
endif

skipped:
	@echo '# skipped: $(PRIVATE_REGRESS): these need 16 MB of shared buffers, and nobody else in them'
	@echo '# skipped: $(notdir $(wildcard $(srcdir)/t/*.pl)): these start and stop servers'
	@echo '# All of these: make installcheck-private'
