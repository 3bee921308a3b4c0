# SPDX-License-Identifier: GPL-2.0
# Programs, libraries and test programs, described by the user.mk of each room:
#
#   PROGRAMS  += NAME    NAME_SRCS NAME_DEPS NAME_PKGS NAME_LIBS      -> build/bin/NAME
#   TEST_PROGRAMS += NAME  the same, for tests to run, not installed  -> build/tests/NAME
#   LOCAL_PROGRAMS += NAME  tests and benchmarks find them by PATH, not installed -> build/bin/NAME
#   LIBRARIES += libNAME libNAME_SRCS ...                             -> build/lib/libNAME.{a,so}
#                libNAME_ABOUT    one line, for programs that link it -> build/lib/libNAME.pc
#   SCRIPTS   += PATH    a program that needs no building             -> build/bin/basename
#   MANPAGES  += PATH.8  COMPLETIONS += PATH                          for `make install`
#   MANLINKS  += NAME.8=PAGE.8  another name of a page                for `make install`
#   FUZZERS   += NAME  NAME_SRCS NAME_PKGS           for `make fuzz`  -> build/fuzz/NAME
#                NAME_CORPUS    a command that fills a directory with inputs to begin with
#                NAME_NEEDS     what has to be built for that
#                NAME_ARGS      options of libFuzzer
#
# SRCS are paths from the top; DEPS are libraries of ours (linked statically, with what they need
# themselves); PKGS are pkg-config names; LIBS are plain link flags. A C file under
# */tests/{host,guest}/ is a test program of its own and needs no entry, unless it has extra
# SRCS, DEPS, PKGS or LIBS, named after the file.

ifeq ($(origin CC),default)
CC      := gcc
endif
AR      := ar
CLANG   ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)

# What each program answers to --version, each library in its .pc file, and each module in modinfo.
VERSION := $(file <VERSION)

ROOMS := $(file <tools/build/rooms)
INCLUDES := -I. -I$(B)/gen $(foreach r,$(ROOMS),$(addprefix -I,$(wildcard $(r)/uapi $(r)/lib)))

CFLAGS  ?= -O2 -g
FLAGS   := -std=gnu11 -Wall -Wextra -D_GNU_SOURCE -fPIC -DFLT_VERSION='"$(VERSION)"' $(INCLUDES)

PROGRAMS :=
TEST_PROGRAMS :=
LOCAL_PROGRAMS :=
LIBRARIES :=
FUZZERS :=
SCRIPTS :=
MANPAGES :=
MANLINKS :=
COMPLETIONS :=
FRAGMENTS := $(wildcard */user.mk */*/user.mk)
include $(FRAGMENTS)

HOST_TESTS  := $(wildcard */tests/host/*.c tools/*/tests/host/*.c kmod/*/tests/host/*.c)
GUEST_TESTS := $(wildcard */tests/guest/*.c tools/*/tests/guest/*.c kmod/*/tests/guest/*.c)

stem = $(basename $(notdir $(1)))
objs = $(patsubst %.c,$(B)/obj/%.o,$(filter %.c,$(1)))
# A library's own needs follow it on the link line.
closure = $(1) $(foreach d,$($(1)_DEPS),$(call closure,$(d)))
archives = $(foreach d,$($(1)_DEPS),$(foreach l,$(call closure,$(d)),$(B)/lib/$(l).a))
packages = $(sort $(foreach l,$(call closure,$(1)),$($(l)_PKGS)))
plain = $(foreach l,$(call closure,$(1)),$($(l)_LIBS))
# Prints the flags, or one sentence and fails.
pkg-libs = $(if $(1),$$(pkg-config --libs $(1) 2>/dev/null || { \
	echo "cannot link $@: one of '$(1)' is not installed; run 'make deps'" >&2; echo -lmissing-package; }))

say = @$(if $(filter 1,$(V)),:,printf '  %-7s %s\n' '$(1)' '$(2)')

PACKAGE_FLAGS := $(shell for p in $(sort $(foreach n,$(PROGRAMS) $(TEST_PROGRAMS) $(LOCAL_PROGRAMS) $(LIBRARIES) \
	$(FUZZERS) $(call stem,$(HOST_TESTS) $(GUEST_TESTS)),$($(n)_PKGS))); do \
	pkg-config --cflags $$p 2>/dev/null; done)

# Rebuild all when the flags change.
FLAGS_NOW := $(CC) $(CFLAGS) $(FLAGS) $(PACKAGE_FLAGS)
ifneq ($(file <$(B)/obj/flags),$(FLAGS_NOW))
$(shell mkdir -p $(B)/obj)
$(file >$(B)/obj/flags,$(FLAGS_NOW))
endif

$(B)/obj/%.o: %.c $(B)/obj/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(FLAGS) $(PACKAGE_FLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

# Guest tests use the kernel's own test harness, from its source package.
$(B)/obj/%.o: FLAGS += $(if $(findstring /tests/guest/,$@),-isystem $(CACHE_HEADERS) -include tools/testing/kselftest.h)
$(call objs,$(GUEST_TESTS)): | $(CACHE_HEADERS)/kselftest_harness.h
$(CACHE_HEADERS)/kselftest_harness.h:
	$(Q)tools/build/kernel selftests >/dev/null

define library
$(B)/lib/$(1).a: $(call objs,$($(1)_SRCS))
	$$(call say,AR,$$@)
	@mkdir -p $$(@D); rm -f $$@
	$(Q)$(AR) rcs $$@ $$(filter %.o,$$^)

$(B)/lib/$(1).so: $(call objs,$($(1)_SRCS)) $(call archives,$(1))
	$$(call say,LD,$$@)
	@mkdir -p $$(@D)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,$(1).so.$(or $($(1)_VERSION),0) -Wl,-z,defs -o $$@ \
		$$(filter %.o %.a,$$^) $$(call pkg-libs,$(call packages,$(1))) $(call plain,$(1))
	@ln -sf $$(@F) $$@.$(or $($(1)_VERSION),0)

# `make install` says where it is.
$(B)/lib/$(1).pc: $(B)/obj/flags
	@mkdir -p $$(@D)
	$(Q)printf '%s\n' 'Name: $(1)' 'Description: $($(1)_ABOUT)' 'Version: $(VERSION)' \
		'Requires.private: $(call packages,$(1)) $($(1)_DEPS)' 'Cflags: -I$$$${includedir}' \
		'Libs: -L$$$${libdir} -l$(1:lib%=%)' 'Libs.private: $(call plain,$(1))' >$$@
endef
$(foreach l,$(LIBRARIES),$(eval $(call library,$(l))))

# $(1) output, $(2) name, $(3) objects, $(4) more link flags
define program
$(1): $(3) $(call archives,$(2))
	$$(call say,LD,$$@)
	@mkdir -p $$(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $($(2)_LDFLAGS) -o $$@ $$(filter %.o,$$^) \
		-Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
		$$(call pkg-libs,$(call packages,$(2))) $(call plain,$(2)) $(4)
endef
$(foreach p,$(PROGRAMS) $(LOCAL_PROGRAMS),$(eval $(call program,$(B)/bin/$(p),$(p),$(call objs,$($(p)_SRCS)))))
$(foreach p,$(TEST_PROGRAMS),$(eval $(call program,$(B)/tests/$(p),$(p),$(call objs,$($(p)_SRCS)))))
$(foreach t,$(HOST_TESTS),$(eval $(call program,$(B)/tests/$(call stem,$(t)),$(call \
	stem,$(t)),$(call objs,$(t) $($(call stem,$(t))_SRCS)),-lcmocka)))
$(foreach t,$(GUEST_TESTS),$(eval $(call program,$(B)/tests/$(call stem,$(t)),$(call \
	stem,$(t)),$(call objs,$(t) $($(call stem,$(t))_SRCS)))))

# What a room's tests load as a security module.
tests: $(patsubst %/tests/lib/deny.bpf.c,$(B)/gen/%_deny.bpf.o,$(wildcard */tests/lib/deny.bpf.c))

$(B)/gen/%_deny.bpf.o: %/tests/lib/deny.bpf.c
	$(call say,BPF,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -g -O2 -Wall -I/usr/include/$(shell $(CC) -dumpmachine) -c -o $@ $<

# --- fuzzers: clang's libFuzzer, with the address and undefined behaviour sanitizers ---

FUZZ ?= %
RUNS ?= 1000000
SEED ?= 1
SANITIZE := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined

$(B)/fuzz/obj/%.o: %.c $(B)/obj/flags
	$(call say,CLANG,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -g -O1 $(FLAGS) $(PACKAGE_FLAGS) -Wno-unused-parameter \
		$(subst =fuzzer,=fuzzer-no-link,$(SANITIZE)) -MMD -MP -c -o $@ $<

# A line of build/fuzz/runs for each run that ended well: what has been tried can be summed up.
define fuzzer
$(B)/fuzz/$(1): $(patsubst %.c,$(B)/fuzz/obj/%.o,$($(1)_SRCS))
	$$(call say,LD,$$@)
	$(Q)$(CLANG) $(SANITIZE) -o $$@ $$(filter %.o,$$^) $$(call pkg-libs,$($(1)_PKGS))

.PHONY: run-$(1)
run-$(1): $(B)/fuzz/$(1) $($(1)_NEEDS)
	$(Q)mkdir -p $(B)/fuzz/corpus/$(1)
	$(if $($(1)_CORPUS),$(Q)$($(1)_CORPUS) $(B)/fuzz/corpus/$(1) >/dev/null)
	$(Q)$(B)/fuzz/$(1) -runs=$(RUNS) -seed=$(SEED) -artifact_prefix=$(B)/fuzz/ -print_final_stats=1 \
		$($(1)_ARGS) $(B)/fuzz/corpus/$(1) && echo '$(1) seed $(SEED) runs $(RUNS)' >>$(B)/fuzz/runs
endef
$(foreach f,$(FUZZERS),$(eval $(call fuzzer,$(f))))

.PHONY: fuzz
fuzz: $(addprefix run-,$(filter $(FUZZ),$(FUZZERS)))
	$(if $^,,$(error no fuzzer $(FUZZ); there are $(FUZZERS)))

define script
$(B)/bin/$(notdir $(1)): $(1)
	@mkdir -p $$(@D)
	$(Q)install -m 755 $$< $$@
endef
$(foreach s,$(SCRIPTS),$(eval $(call script,$(s))))

.PHONY: programs libraries tests
linked := $(foreach l,$(LIBRARIES),$(if $($(l)_ABOUT),$(l)))
libraries: $(foreach l,$(LIBRARIES),$(B)/lib/$(l).a $(B)/lib/$(l).so) $(foreach l,$(linked),$(B)/lib/$(l).pc)
programs: libraries $(PROGRAMS:%=$(B)/bin/%) $(addprefix $(B)/bin/,$(notdir $(SCRIPTS)))
tests: $(TEST_PROGRAMS:%=$(B)/tests/%) $(LOCAL_PROGRAMS:%=$(B)/bin/%) \
	$(foreach t,$(HOST_TESTS) $(GUEST_TESTS),$(B)/tests/$(call stem,$(t)))

$(PROGRAMS:%=$(B)/bin/%) $(LOCAL_PROGRAMS:%=$(B)/bin/%) $(TEST_PROGRAMS:%=$(B)/tests/%) $(LIBRARIES:%=$(B)/lib/%.a): \
	$(FRAGMENTS)

-include $(shell find $(B)/obj $(B)/fuzz/obj -name '*.d' 2>/dev/null)
