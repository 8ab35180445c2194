# Pennygate. GNU make.
#
#   make            build/pennygate          make test       everything that fits 40 minutes
#   make run        a demo, until Ctrl-C     make test-all   the long parts too
#   make install    DESTDIR=, prefix=        make size, bench, lint, fuzz, e2e, unit ...
#   make dist       build/pennygate-VERSION.tar.gz, of what is committed
#   make deb        a Debian package, in build/deb
#   make test-cross the tests on other machines; size-table: how large the program is on each
#   make V=1        shows the commands
#
# VARIANT chooses how objects are compiled (release, asan, tsan, clang, fuzz); each has its
# own directory under build/. CURL=linked links libcurl instead of loading it at first use.
# PAGES=0 leaves out what people see: chat page, widget, dashboard and metrics. That program is
# build/release-plain/pennygate; `make PAGES=0 install` and `make PAGES=0 run` are of it.
# SMALL=1 leaves out besides what a router has no use for: transcripts, check --through, and the
# table of stats for people (its JSON and CSV stay); it is build/release-small/pennygate.

VERSION     = 0.1
VARIANT    ?= release
CURL       ?= loaded
PAGES      ?= 1
SMALL      ?= 0
prefix     ?= /usr/local
sysconfdir ?= /etc
sbindir     = $(prefix)/sbin
mandir      = $(prefix)/share/man
docdir      = $(prefix)/share/doc/pennygate
STRIP      ?= -s
# WERROR= lets warnings pass, of a compiler that nobody has tried here.
WERROR     ?= -Werror

ifeq ($(SMALL),1)
override PAGES = 0
endif
ifeq ($(origin CC),default)
CC = gcc
endif
cc = $(or $(cc-$(VARIANT)),$(CC))
cc-clang = clang
cc-fuzz  = clang

# Seconds since 1970: a clock before this is not believed. The commit's date makes a build
# reproducible; never later than now, or the program would refuse the machine that built it.
# In a tarball of make dist the Makefile's own date is the commit's.
BUILD_TIME := $(shell t=$${SOURCE_DATE_EPOCH:-$$([ ! -e .git ] || git log -1 --format=%ct 2>/dev/null)}; \
	t=$${t:-$$(date -r Makefile +%s)}; n=$$(date +%s); echo $$((t < n ? t : n)))

comma = ,
WARN = -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wformat=2 -Wpointer-arith -Wcast-qual -Wundef -Wvla -Wwrite-strings $(WERROR)
try = $(shell $(cc) -Werror $(1) -x c -c /dev/null -o /dev/null 2>/dev/null && echo $(1))
may_cut := $(call try,-Wno-format-truncation)
# Who builds many packages decides this for all of them, by CFLAGS and LDFLAGS, and says HARDEN=.
HARDEN  := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong \
	$(call try,-fstack-clash-protection) $(call try,-ftrivial-auto-var-init=zero)
pie       := $(if $(HARDEN),-fPIE)
hard_link := $(if $(HARDEN),-pie -Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now)

# Without unwind tables: nothing unwinds at run time, and they would be a seventh of the file.
flags-release := $(or $(call try,-Oz),-Os) -fno-asynchronous-unwind-tables -fno-unwind-tables $(HARDEN)
# Flash holds it compressed: code in the order in which it is written repeats itself more often.
flags-release += $(if $(filter 1,$(SMALL)),-fno-schedule-insns2 -fno-move-loop-invariants -fno-if-conversion)
flags-clang   := -O2 $(HARDEN)
flags-asan    := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=undefined
flags-tsan    := -O1 -fno-omit-frame-pointer -fsanitize=thread
# For machines that have no runtime of the sanitizer: what it finds ends the program.
flags-trap    := -O1 -fsanitize=undefined -fsanitize-undefined-trap-on-error
flags-fuzz    := -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=undefined

defines = -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -DBUILD_TIME=$(BUILD_TIME) \
	-DPAGES=$(PAGES) -DSMALL=$(SMALL) -DPENNYGATE_VERSION='"$(VERSION)"' -DCONFIG_PATH='"$(sysconfdir)/pennygate/pennygate.conf"' \
	$(if $(filter linked,$(CURL)),-DCURL_LINKED)
compile = $(cc) -std=c11 $(defines) -I. -g $(flags-$(VARIANT)) -ffile-prefix-map='$(CURDIR)=.' \
	-ffunction-sections -fdata-sections $(WARN) $(CFLAGS)
# A pointer in a table costs a bit and not 24 bytes, where linker and C library both know how: a
# program that needs it is run, unless it is for a machine of another kind.
packed = -Wl,-z,pack-relative-relocs
pack  := $(if $(filter release,$(VARIANT)),$(shell case $$(uname -m) in \
	($$($(cc) -dumpmachine | cut -d- -f1)*) ;; (*) exit ;; esac; f=$$(mktemp) && \
	echo 'int a, *p = &a; int main(void) { return *p; }' | $(cc) -pie $(packed) -x c - -o $$f \
	2>/dev/null && ($$f) 2>/dev/null && echo $(packed); rm -f $$f))
link = $(cc) -g $(flags-$(VARIANT)) $(hard_link) -Wl,--gc-sections,--as-needed \
	-Wl,-z,noexecstack $(pack) $(LDFLAGS)
libs = -lfcgi -llmdb -lbearssl -ljansson -lconfuse $(if $(filter linked,$(CURL)),-lcurl) \
	-ldl -lpthread $(LDLIBS)

say = $(if $(V),,@echo '  $@';)

dir     := build/$(VARIANT)$(if $(filter linked,$(CURL)),-linked)$(if $(filter 1,$(SMALL)),-small,$(if $(filter 0,$(PAGES)),-plain))
program  = $(if $(filter build/release,$(dir)),build/pennygate,$(dir)/pennygate)
# What a program without pages, or a small one, has no part of, by the names of files here and in
# tests/unit/test_*.
left    := $(if $(filter 0,$(PAGES)),asset cli_password dashboard% guard metrics% pages) \
	$(if $(filter 1,$(SMALL)),archive cli_through cli_transcripts recorder report_table selftest \
	through transcript)
objects := $(patsubst %.c,$(dir)/%.o,$(filter-out $(left:%=gateway/%.c) $(left:%=store/%.c),\
	$(sort $(wildcard platform/*.c store/*.c gateway/*.c))))
units   := $(patsubst %.c,$(dir)/%,$(filter-out $(left:%=tests/unit/test_%.c),\
	$(wildcard tests/unit/test_*.c)))
web     := $(patsubst gateway/web/%,build/web/%.h,$(wildcard gateway/web/*))
fuzzers := $(patsubst tests/fuzz/%.c,$(dir)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
benches := $(patsubst tests/bench/%.c,build/bench/%,$(wildcard tests/bench/*.c))
pure     = store/zone.c store/window.c store/storetime.c store/rule.c gateway/price.c gateway/sse.c \
	platform/address.c gateway/forwarded.c gateway/origin.c gateway/cookie.c platform/mac.c
hosts    = lighttpd apache nginx caddy uhttpd systemd
manuals  = $(wildcard gateway/*.8 gateway/*.5 gateway/*.7)

all: $(program)

$(program): $(dir)/gateway/main.o $(dir)/libpennygate.a
	$(say)$(link) -o $@ $^ $(libs)

# All but main.o, so that a test links just what it calls and can put a stand-in before it.
$(dir)/libpennygate.a: $(filter-out %/gateway/main.o,$(objects))
	@rm -f $@
	$(say)$(AR) rcs $@ $^

$(dir)/%.o: %.c
	@mkdir -p $(@D)
	$(say)$(compile) $(pie) -MMD -MP -c -o $@ $<

# The files of gateway/web as they are served: without indentation, empty lines, comments that have
# lines of their own, blanks inside of braces and around = => && < and the like, and the ends of
# lines behind ; { and comma. No text in them in which that would count has one of those.
build/web/%: gateway/web/%
	@mkdir -p $(@D)
	$(say)sed -e 's/^[ \t]*//' -e '/^$$/d' -e '/^\/\//d' \
		-e '/^\/\*.*\*\/$$/d' -e '/^\/\*/,/\*\/$$/d' -e '/^<!--.*-->$$/d' \
		-e 's/ \([=&|!<>][=&|>]*\) /\1/g' -e 's/{ /{/g' -e 's/ }/}/g' $< | \
		sed -e ':a' -e '/[;{,]$$/{' -e '$$!{' -e 'N' -e 's/\n//' -e 'ta' -e '}' -e '}' >$@

# And as a text of C, with a tag that changes with the content.
build/web/%.h: build/web/%
	$(say){ echo 'static const char $(subst .,_,$*)[] ='; \
		od -An -v -t o1 $< | sed -e 's/ /\\/g' -e 's/.*/"&"/'; \
		cksum <$< | sed 's/\([0-9]*\) \([0-9]*\)/;\nstatic const char $(subst .,_,$*)_tag[] = "\\"\1-\2\\"";/'; \
	} >$@

web: $(web)
$(dir)/gateway/asset.o: $(web)

# The time of the build is in these two alone, so that a commit does not compile all anew.
$(dir)/platform/clock.o $(dir)/tests/unit/test_clock.o: build/time
build/time: FORCE
	@mkdir -p $(@D)
	@echo $(BUILD_TIME) | cmp -s - $@ || echo $(BUILD_TIME) >$@
FORCE:

# At -Oz x86 copies by one instruction that takes longer to start than a row takes to be copied.
$(dir)/store/%.o: flags-release += $(call try,-mstringop-strategy=libcall)

# Texts that are too long for a buffer are cut on purpose in tests.
$(dir)/tests/%.o: WARN += $(may_cut)

$(dir)/tests/unit/%: $(dir)/tests/unit/%.o $(dir)/libpennygate.a
	$(say)$(link) -o $@ $^ $(libs) -lcmocka

$(dir)/tests/fuzz/%: $(dir)/tests/fuzz/%.o $(dir)/libpennygate.a
	$(say)$(link) -fsanitize=fuzzer -o $@ $^ $(libs)

build/practice-model: tests/model/practice_model.c
	@mkdir -p $(@D)
	$(say)$(compile) -fPIE -MMD -MP -MF build/practice-model.d -o $@ $< -pie -lmicrohttpd -ljansson -lpthread

build/clock-shim.so: tests/e2e/clock_shim.c
	@mkdir -p $(@D)
	$(say)$(CC) -D_GNU_SOURCE -O1 -Wall -Wextra -fPIC -shared -o $@ $< -ldl

build/libpure.so: $(pure) $(wildcard platform/*.h store/*.h gateway/*.h)
	@mkdir -p $(@D)
	$(say)$(compile) -fPIC -shared -o $@ $(pure) -lbearssl

build/bench/%: tests/bench/%.c $(dir)/libpennygate.a
	@mkdir -p $(@D)
	$(say)$(compile) -fPIE -MMD -MP -MF $@.d -o $@ $< $(dir)/libpennygate.a -pie $(libs) -lsqlite3 -lhiredis

# What the program is measured against pays for the same libraries at its start.
build/bench/hello: tests/bench/hello.c
	@mkdir -p $(@D)
	$(say)$(compile) -fPIE -o $@ $< -pie -Wl,-z,relro,-z,now,--no-as-needed $(filter-out -ldl -lpthread,$(libs))

units: $(units)
fuzzers: $(fuzzers)
benches: $(benches)

# make run and make test first install what is missing (they say what).
run:
	@tests/packages.sh build run
	@$(MAKE) --no-print-directory all build/practice-model
	@DEMO_PROGRAM=$(program) tests/demo/run.sh

test test-all plain unit property e2e servers sdk browser sanitize fuzz lint:
	@tests/packages.sh build run test
	@tests/run-all $@

test-cross:
	@tests/packages.sh build run test
	@tests/run-all cross

size-table:
	@tests/packages.sh build cross
	@tests/cross/sizes.sh

bench:
	@tests/packages.sh build run test bench
	@$(MAKE) --no-print-directory all benches build/practice-model
	@tests/bench/run

size: build/pennygate
	@tests/size.sh $<

install: all
	install -d $(DESTDIR)$(sbindir) $(foreach d,examples $(hosts),$(DESTDIR)$(docdir)/$(d))
	install $(STRIP) -m 755 $(program) $(DESTDIR)$(sbindir)/pennygate
	for p in $(manuals); do \
		install -D -m 644 $$p $(DESTDIR)$(mandir)/man$${p##*.}/$${p##*/} || exit 1; done
	install -m 644 README.md LICENSE $(DESTDIR)$(docdir)
	install -m 644 platform/examples/* $(DESTDIR)$(docdir)/examples
	for d in $(hosts); do install -m 644 platform/$$d/* $(DESTDIR)$(docdir)/$$d || exit 1; done

# The same bytes for the same commit: its date is that of all files, and gzip notes neither name
# nor time.
tarball = build/pennygate-$(VERSION).tar.gz
dist:
	@[ -e .git ] || { echo 'make dist needs the git repository' >&2; exit 1; }
	@mkdir -p build
	$(say)git archive --format=tar --prefix=pennygate-$(VERSION)/ HEAD | gzip -9n >$(tarball)
	@echo $(tarball)

# Of the commit's date, so that it is the same package wherever it is made.
deb:
	@tests/packages.sh build deb
	@platform/debian/build.sh $(VERSION) $(BUILD_TIME)

clean:
	rm -rf build

.PHONY: all web plain units fuzzers benches run test test-all servers sdk browser unit property e2e sanitize fuzz lint \
	test-cross size-table bench size dist deb install clean
.SECONDARY: $(units:=.o) $(fuzzers:=.o) $(web:.h=)
.DELETE_ON_ERROR:

-include $(objects:.o=.d) $(units:=.d) $(fuzzers:=.d) $(wildcard build/*.d build/bench/*.d)
