# SPDX-License-Identifier: GPL-2.0
# Flotilla: `make help` says what there is. Everything that is made lands in build/.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:

B      := build
KERNEL ?= stock
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
V      ?= 0
Q      := $(if $(filter 1,$(V)),,@)
export KDIR KERNEL FLOTILLA_CACHE V

# Where the kernel, its headers and its tools are kept (see tools/build/kernel).
CACHE := $(or $(FLOTILLA_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flotilla)
CACHE_HEADERS := $(CACHE)/selftests

.PHONY: all
all: modules programs tests

include tools/build/user-space.mk

# --- kernel side ---

.PHONY: modules modules-debug
modules: $(if $(filter kcsan newest,$(KERNEL)),$(KERNEL)-kernel)
	$(Q)+tools/build/modules $(KERNEL)

modules-debug:
	$(Q)+tools/build/modules debug

# --- guests and tests ---

.PHONY: guest shell guest-soak test check demo
guest: all
	$(Q)tools/vm/guest --kernel $(KERNEL) $(if $(CPUS),--cpus $(CPUS)) $(if $(MEM),--mem $(MEM)) -- bash -c '$(subst ','\'',$(CMD))'

shell: all
	$(Q)tools/vm/guest --kernel $(KERNEL) $(if $(CPUS),--cpus $(CPUS)) $(if $(MEM),--mem $(MEM)) --shell

guest-soak:
	$(Q)tools/vm/soak --kernel $(KERNEL) $(or $(N),100)

# KERNEL=debug or kcsan: guests of that one only.
test: all $(if $(filter kcsan,$(KERNEL)),kcsan-kernel,debug-kernel)
	$(Q)+tools/build/modules stock
	$(Q)+tools/build/modules $(if $(filter kcsan,$(KERNEL)),kcsan,debug)
	$(Q)+tools/testing/run $(if $(filter command%,$(origin KERNEL)),--kernel $(KERNEL)) $(if $(ROOM),--room $(ROOM)) $(if $(TESTS),--only '$(TESTS)') $(if $(ALL),--all)

# Starts from nothing: what is missing is installed before the rest of the file is read again.
demo:
	$(Q)tools/build/deps
	$(Q)+$(MAKE) all
	$(Q)tools/demo/run

check: all
	$(Q)+tools/build/check $(ROOM)

# --- the machine ---

.PHONY: html deps deps-node deps-test deps-bench deps-deb deps-html deps-nightly debug-kernel kcsan-kernel newest-kernel install install-programs install-dkms deb deb-test deb-kernels tlshd load unload clean figures help
html:
	$(Q)tools/build/html $(B)/html $(MANPAGES)

deps:
	$(Q)tools/build/deps

deps-node deps-test deps-bench deps-deb deps-html deps-nightly: deps-%:
	$(Q)tools/build/deps $*

debug-kernel:
	$(Q)+tools/build/debug-kernel

kcsan-kernel:
	$(Q)+tools/build/debug-kernel kcsan

newest-kernel:
	$(Q)tools/build/newest-kernel fetch

install install-programs: export PROGRAMS := $(PROGRAMS:%=$(B)/bin/%) $(addprefix $(B)/bin/,$(notdir $(SCRIPTS)))
# Before LIBRARIES becomes a list of files.
install install-programs: export HEADERS := $(wildcard $(foreach r,$(ROOMS),$(r)/uapi/flotilla/*.h $(LIBRARIES:lib%=$(r)/lib/%.h)))
install install-programs: export LIBRARIES := $(foreach l,$(LIBRARIES),$(B)/lib/$(l).a $(B)/lib/$(l).so)
install install-programs: export PACKAGES := $(linked:%=$(B)/lib/%.pc)
install install-programs: export MANPAGES := $(MANPAGES)
install install-programs: export MANLINKS := $(MANLINKS)
install install-programs: export COMPLETIONS := $(COMPLETIONS)
install install-programs: export UNITS := $(wildcard $(foreach r,$(ROOMS) kmod/afpa/door lard tools/*,$(r)/*.service $(r)/*.socket))
install install-programs: export CONFIGS := $(wildcard $(foreach r,$(ROOMS) kmod/afpa/door lard tools/*,$(r)/*.conf))
install install-programs: export EXAMPLES := $(wildcard $(foreach r,$(ROOMS) lard tools/*,$(r)/examples/*))
install install-programs: export SHARED := $(wildcard tools/*/monitoring/*.json tools/*/monitoring/*.yml)
# For the kernel that was built for, not for the one that guests boot.
install: export KDIR := $(or $(KDIR),$(firstword $(file <$(B)/kbuild/.kdir)))
install: modules
install install-programs: programs
	$(Q)tools/build/install '$(DESTDIR)' '$(PREFIX)' '$(LIBDIR)' $(if $(filter install,$@),modules)

install-dkms:
	$(Q)tools/build/dkms '$(DESTDIR)'

deb:
	$(Q)tools/build/deb

tlshd:
	$(Q)tools/build/tlshd

deb-test: deb
	$(Q)tools/build/deb 0.1.0 && tools/build/tests/deb/roots.sh

deb-kernels: deb
	$(Q)tools/build/deb 0.1.0 && tools/build/tests/deb/kernels.sh

load: modules
	$(Q)tools/build/load

unload:
	$(Q)tools/build/load --unload

figures:
	$(Q)bench/draw

clean:
	$(Q)rm -rf $(B)

help:
	@cat tools/build/help.txt
