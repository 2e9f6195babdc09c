# pg_ringctl: buffer access strategies made visible, controllable and tight
#
#   make && make install            with the pg_config on PATH, or
#   make PG_CONFIG=/path/pg_config  of any PostgreSQL from 17 on
#   make installcheck               starts its own throwaway server (not as root)

MODULE_big = pg_ringctl
OBJS = \
	$(WIN32RES) \
	pg_ringctl.o \
	src/args.o \
	src/blocks.o \
	src/crew.o \
	src/depth.o \
	src/enabled.o \
	src/escapes.o \
	src/explain.o \
	src/facts.o \
	src/fit.o \
	src/labels.o \
	src/limit.o \
	src/live.o \
	src/load.o \
	src/parts.o \
	src/policy.o \
	src/pool.o \
	src/prewarm.o \
	src/prewarm_all.o \
	src/registry.o \
	src/relations.o \
	src/reorder.o \
	src/report.o \
	src/ring.o \
	src/rings.o \
	src/scan.o \
	src/share.o \
	src/shared.o

EXTENSION = pg_ringctl
DATA = pg_ringctl--1.0.sql
PGFILEDESC = "pg_ringctl - rings of shared buffers, visible and tight"

# A small buffer pool of its own makes small tables big.
REGRESS = setup parameters clean dirty modify partitions parallel prewarm prewarm_all blocks stats explain pool scans policies limit
REGRESS_OPTS = --temp-instance=tmp_check --temp-config=$(srcdir)/sql/regress.conf
TAP_TESTS = 1
EXTRA_CLEAN = tmp_check

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(wildcard $(PGXS)),)
$(error the development files of a server are needed: there are none where $(PG_CONFIG) --pgxs says. Install them, or name another PG_CONFIG)
endif
include $(PGXS)

ifneq ($(shell test "$(MAJORVERSION)" -ge 17 && echo yes),yes)
$(error pg_ringctl needs PostgreSQL 17 or later; $(PG_CONFIG) is of $(VERSION))
endif

override CPPFLAGS += -I$(srcdir)/src

$(OBJS) $(OBJS:.o=.bc): $(wildcard $(srcdir)/src/*.h) | $(CURDIR)/src

# A build folder apart from the sources has none.
$(CURDIR)/src:
	$(MKDIR_P) $@
