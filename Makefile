# SPDX-License-Identifier: MIT
# `make help` tells what there is to make.

KERNEL ?=
LINT_KERNELS ?= 6.1 6.12
MODULE_ARGS ?=
TIME ?= 60
SEED ?= 1
WORKERS ?= 4
KILLS ?= 200
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
DESTDIR ?=
# As it was typed: make would take $HOME for $(H) and OME.
override export CMD := $(value CMD)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
# What was typed here is not for the kernel's makefiles.
MAKEOVERRIDES =
# Debian's headers lack the vmlinux that BTF is made with, and kbuild says so each time.
no_btf := CONFIG_DEBUG_INFO_BTF_MODULES=
# The kernels that are built here have KUnit, and tell the fuzzer what it has reached.
watched = $(if $(filter um debug kcsan,$(KERNEL)),CONFIG_KBUS_KUNIT_TEST=y KCOV_INSTRUMENT=y)

PACKAGES := busybox-static e2fsprogs file gcc gcc-i686-linux-gnu iproute2 kmod libc6-dev libc6-dev-i386-cross make \
	perl python3 python3-venv qemu-system-x86 spin tmux tshark udev
LINT_PACKAGES := shellcheck sparse
# For the data pipeline: Spark runs on Java, and its report is looked at in a browser.
JAVA := openjdk-17-jre-headless
PIPELINE_PACKAGES := $(JAVA) chromium poppler-utils
# Their completions are tested.
SHELL_PACKAGES := bash-completion fish zsh
# What KBUS is compared with.
BENCH_PACKAGES := dbus-broker dbus-daemon libmosquitto-dev libnats-dev libsystemd-dev libzmq3-dev mosquitto nats-server

# The tests that need the module loaded run in the virtual machine.
VM_TESTS := $(wildcard tests/kernel tests/*/test_*_vm.py)
# On a debug kernel: all that is about the module, and what such a kernel is needed for. It is no place to measure times or
# memory, nor to see whether the fuzzer can repeat itself, or the tests name all rules.
DEBUG_TESTS := $(filter-out tests/docs/% tests/bench/% tests/sbus/%,$(VM_TESTS)) \
	$(if $(filter kcsan,$(KERNEL)),,$(wildcard tests/debug)) --ignore-glob=*/test_cli_*.py \
	--ignore-glob=*/test_rules.py \
	--deselect=fuzz/test_fuzz_vm.py::test_one_worker_does_the_same_each_time \
	--deselect=kernel/test_promises.py::test_a_ksock_that_is_in_an_epoll_200000_times \
	--deselect=kernel/test_promises.py::test_what_is_charged_is_taken
TESTS := $(VM_TESTS)
# Of the others all tests are long.
DAILY_TESTS := $(filter-out tests/bench/%,$(VM_TESTS)) tests/debug
# Where there are programs in C for the tests to run.
PROGRAMS := $(patsubst %/Makefile,%,$(wildcard tests/*/Makefile tests/*/c/Makefile docs/examples/Makefile))
# By what the tests divide the rounds that they make, and the like.
divisor := 1
memory := 2G
# In how many machines side by side the tests run.
parts := 1
# How many messages make bench-pipeline takes, one after the other.
MESSAGES := 2000000 8000000 32000000

venv = venv=$$(tests/setup/venv.sh $(PYTHON)); python=$$venv/bin/python
kernels = $(PYTHON) -m tests.vm.kernels
# Which compilers, where the kernel is not for the processor of this machine.
for_processor = processor=$$($(kernels) --environment '$(KERNEL)'); eval "$$processor"
vm = "$$python" -m tests.vm --kernel '$(KERNEL)' --module kernel/kbus.ko --module-args '$(MODULE_ARGS)'
pip = PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore $(PYTHON) -m pip --quiet
results := build/test
bench_results := build/bench
demo := build/demo
bench_vm = $(vm) --timeout 1200
# Seconds for the tests in the virtual machine.
limit := 3000

.PHONY: help module demo test check test-host test-vm test-debug test-long debug-kernel fuzz fuzz-captures bench bench-budget \
	bench-pipeline kill-pipeline matrix lint lint-kernel lint-programs docs completions vm install uninstall clean packages

help:
	@cat <<'END'
	make module     build kernel/kbus.ko
	make demo       see the bus at work, in a virtual machine
	make check      lint, and the tests of what has changed since main, in minutes
	make test       run the tests, those of the module in User Mode Linux and in QEMU
	make test-vm    run only those that need a virtual machine, on KERNEL
	make test-long  run what takes hours, or measures time: all kernels, fuzzing, latency
	make test-debug run the tests of the module on a debug kernel in QEMU; built from source once
	make matrix     the same on each kernel of KERNELS, and the table of it in the docs
	make kill-pipeline  kill the data pipeline KILLS=200 times, and look at its tables
	make fuzz       fuzz the module for TIME=60 seconds, SEED=1, on a debug kernel
	make fuzz-captures  damage captures for as long, and read them
	make bench      measure KBUS beside sockets, pipes and brokers, and write docs/bench
	make bench-budget   let messages take as many instructions as they do now
	make bench-pipeline  measure the data pipeline with MESSAGES='2000000 8000000 32000000', and write docs/pipeline
	make vm         a shell in the virtual machine, the module loaded
	make vm CMD=..  run a command there
	make lint       hold everything against the checks
	make docs       build the documentation, build/docs/index.html
	make completions  make completions of the commands for bash, zsh and fish, build/completions
	make install    install module, header, udev rule, Python package and completions (DESTDIR=, PREFIX=)
	make uninstall  take them away again
	make clean      remove what was built
	Variables:
	KERNEL=         um, 6.12, 6.1-rt, arm64, armhf, a release, debug, kcsan, the build directory of a kernel; else Debian's
	                stock kernel
	MODULE_ARGS=    parameters of the module in the virtual machine, NAME=VALUE ...
	KILLS=          of make kill-pipeline: how often
	TIME=, SEED=, WORKERS=   of make fuzz and fuzz-captures: seconds, what random numbers grow from, processes
	LINT_KERNELS=   the kernels that make lint builds for: $(LINT_KERNELS)
	END

packages:
	@tests/setup/packages.sh $(PACKAGES)

module: packages
	@build=$$($(kernels) '$(KERNEL)')
	$(for_processor)
	echo "Building kernel/kbus.ko with $$build"
	$(MAKE) -s -j$$(nproc) -C "$$build" M='$(CURDIR)' $(no_btf) $(watched) modules

vm: module
	@$(venv)
	$(vm) $${CMD:+-c "$$CMD"}

demo: module
	@tests/setup/packages.sh $(JAVA)
	$(venv)
	rm -rf $(demo)
	mkdir -p $(demo)
	$(vm) --results $(demo) --timeout 300 -c 'exec python3 -m tests.demo.demo'
	printf '\nWhat was recorded goes through the data pipeline\n'
	# Java's best takes longer than so little data.
	PYTHONPATH=python "$$python" -m kbus.pipeline run --quiet --master 'local[2]' --tables $(demo)/tables \
		--conf spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 \
		--output $(demo)/report.html $(demo)/*.pcapng

# When a worker dies the tests end there: to replace it, xdist may wait for ever.
workers := --numprocesses 2 --max-worker-restart 0

# What runs at once: tests that are too long for each change, or measure time, are for `make test-long`.
marks := not long

# User Mode Linux uses one processor, and not always: three of it keep two busy.
um = KERNEL=um parts=3 divisor=6 marks='($(marks)) and not qemu'

# Everything is run, whatever has failed before.
test: packages
	@rm -rf $(results)
	mkdir -p $(results)
	status=0
	begin() { printf '\n%(%T)T %s\n' -1 "$$*"; }
	begin 'Checks of the sources'
	$(MAKE) -s lint || status=1
	begin 'Tests on this machine'
	$(MAKE) -s test-host marks='$(marks)' || status=1
	begin 'Tests of the module, on User Mode Linux'
	$(MAKE) -s test-vm $(um) TESTS='$(DAILY_TESTS)' results=$(results)/um options='$(slub_debug)' || status=1
	begin 'Tests of the module, on what User Mode Linux lacks'
	$(MAKE) -s test-vm KERNEL= divisor=2 results=$(results)/qemu marks='($(marks)) and (qemu or smp)' || status=1
	$(venv)
	"$$python" -m tests.setup.summary $(results)/{host,stand-in,um/{1..3},qemu/1} || status=1
	exit $$status

check: lint
	@$(venv)
	eval "$$("$$python" -m tests.setup.changed)"
	status=0
	if [[ $$host ]]; then
		$(MAKE) -s module KERNEL=um
		KERNEL=um PYTHONPATH=python "$$python" -m pytest $(workers) --dist loadgroup -m '$(marks)' $$host || status=1
	fi
	if [[ $$guest ]]; then
		$(MAKE) -s test-vm $(um) TESTS="$$guest" results=build/check || status=1
	fi
	exit $$status

# The harness boots guests of host_kernel.
host_kernel := um
HOST_TESTS := tests $(patsubst %,--ignore=%,$(VM_TESTS) tests/debug)
test-host: packages
	@tests/setup/packages.sh $(PIPELINE_PACKAGES) $(SHELL_PACKAGES)
	$(MAKE) -s module KERNEL='$(host_kernel)'
	$(venv)
	mkdir -p $(results)/{host,stand-in}
	status=0
	KERNEL='$(host_kernel)' PYTHONPATH=python "$$python" -m pytest $(workers) --dist loadgroup -m '$(marks)' \
		--junitxml $(results)/host/tests.xml $(HOST_TESTS) || status=1
	echo 'Tests of the bus, on its stand-in'
	KBUS_STAND_IN=1 PYTHONPATH=python "$$python" -m pytest $(workers) -m '$(marks)' \
		--junitxml $(results)/stand-in/tests.xml tests/kernel || status=1
	exit $$status

test-vm: module
	@$(venv)
	rm -rf $(results)/[1-9]*
	mkdir -p $(results)
	$(for_processor)
	for directory in $(PROGRAMS); do $(MAKE) -s -C $$directory; done
	# Compiled here once, and not slowly in the guest, which may not write them anyway.
	PYTHONPATH=python PYTHONDONTWRITEBYTECODE= "$$python" -m pytest --collect-only $(TESTS) >/dev/null || true
	run() {
		mkdir -p $(results)/$$1
		# An emulated processor has no secrets to keep, and takes a tenth longer if the kernel protects them.
		$(vm) --memory $(memory) --option mitigations=off $(options) --timeout $(limit) --results $(results)/$$1 \
			-c 'KBUS_TEST_DIVISOR=$(divisor) exec python3 -m pytest -v -p tests.vm.part --part '$$1'/$(parts) \
				-m "$(marks)" --junitxml "$$RESULTS/tests.xml" $(TESTS)'
	}
	others=() status=0
	for part in $$(seq 2 $(parts)); do
		run $$part &>$(results)/$$part.log &
		others+=($$!)
	done
	run 1 || status=1
	for part in $$(seq 2 $(parts)); do
		wait $${others[$$part - 2]} || status=1
		cat $(results)/$$part.log
	done
	exit $$status

debug-kernel:
	@$(kernels) '$(or $(KERNEL),debug)'

# In which slab caches faults may be injected, by how their names begin: in all but those of kmemleak.
comma := ,
beginnings = $(shell echo {0..9} {A..Z} {a..j} kb ke ki kmal kmem_ ks {l..z})
slub_debug = --option "slub_debug=A$(subst $() ,,$(beginnings:%=$(comma)%*))"
test-debug: results := build/test-debug
test-debug: parts := 2
test-debug: marks :=
# kmemleak looks at all memory, four times.
test-debug:
	@$(MAKE) -s test-vm KERNEL='$(or $(KERNEL),debug)' MODULE_ARGS='$(MODULE_ARGS)' TESTS='$(DEBUG_TESTS)' marks='$(marks)' \
		divisor=6 memory=1G parts='$(parts)' results='$(results)' limit='$(limit)' options='$(slub_debug)'

# Hours: what `make test` leaves out, and each kernel.
test-long: limit := 7200
test-long: results := build/test-long
test-long:
	@status=0
	$(MAKE) -s test-host host_kernel= marks=long results=$(results)/host || status=1
	$(MAKE) -s test-host host_kernel= marks= HOST_TESTS=tests/vm results=$(results)/guests || status=1
	$(MAKE) -s matrix || status=1
	for kernel in debug kcsan; do $(MAKE) -s fuzz KERNEL=$$kernel TIME=3600 || status=1; done
	$(MAKE) -s fuzz-captures TIME=3600 || status=1
	$(MAKE) -s kill-pipeline || status=1
	exit $$status

matrix:
	@$(venv)
	"$$python" -m tests.vm.matrix $(KERNELS)

# Two machines to measure in, as most goals are for one processor, and one to count instructions.
bench: module
	@tests/setup/packages.sh $(BENCH_PACKAGES)
	$(venv)
	$(MAKE) -s -C tests/bench/c all brokers
	rm -rf $(bench_results)
	status=0
	for cpus in 1 2; do
		$(bench_vm) --cpus $$cpus --results $(bench_results)/$$cpus -c 'exec python3 -m tests.bench.run' || status=1
	done
	$(bench_vm) --cpus 1 -c 'exec python3 -m tests.bench.parts' >docs/bench/parts.inc || status=1
	$(bench_vm) --cpus 1 --count --results $(bench_results)/counted \
		-c 'exec python3 -m tests.bench.run --counted' || status=1
	"$$python" -m tests.bench.icount --kernel '$(KERNEL)' --json $(bench_results)/instructions.json || status=1
	"$$python" -m tests.bench.profile --kernel '$(KERNEL)' --json $(bench_results)/profiles.json || status=1
	"$$python" -m tests.bench.report $(bench_results)/1/bench.json $(bench_results)/2/bench.json \
		$(bench_results)/counted/bench.json $(bench_results)/instructions.json $(bench_results)/profiles.json
	exit $$status

bench-budget: module
	@$(venv)
	$(MAKE) -s -C tests/bench/c
	"$$python" -m tests.bench.icount --kernel '$(KERNEL)' --update

bench-pipeline:
	@tests/setup/packages.sh $(PIPELINE_PACKAGES)
	$(venv)
	mkdir -p build/bench
	PYTHONPATH=python "$$python" -m tests.pipeline.bench.run build/bench/pipeline.json $(MESSAGES)
	"$$python" -m tests.pipeline.bench.report build/bench/pipeline.json

kill-pipeline:
	@tests/setup/packages.sh $(PIPELINE_PACKAGES)
	$(venv)
	PYTHONPATH=python KBUS_TEST_KILLS='$(KILLS)' "$$python" -m pytest -o faulthandler_timeout=0 \
		tests/pipeline/test_killed.py

# Half of the time for programs of each size. What is left of a failure is in build/fuzz/64 and 32.
fuzz: KERNEL := $(or $(KERNEL),debug)
fuzz: module
	@$(venv)
	$(for_processor)
	$(MAKE) -s -C tests/fuzz
	rm -rf build/fuzz
	mkdir -p build/fuzz/64 build/fuzz/32
	status=0
	# The console shows notices and worse; what KBUS tells of each call would be most of what the machine does.
	$(vm) --results build/fuzz --timeout $$(($(TIME) + 900)) -c 'dmesg --console-level notice
		echo N >/sys/module/printk/parameters/ignore_loglevel
		for bits in 64 32; do
			tests/fuzz/bin/kbus-fuzz$$bits --seed $(SEED) --workers $(WORKERS) --seconds $$(($(TIME) / 2)) \
				--results "$$RESULTS/$$bits" || exit
		done' || status=$$?
	bits=64
	if [[ -e build/fuzz/32/worker00-0.ops ]]; then bits=32; fi
	if ((status)); then
		echo "Seed $(SEED) has found something. For a smaller case of what ran last:"
		echo "$$python -m tests.fuzz.minimise --kernel $(KERNEL) --bits $$bits --output case.ops build/fuzz/$$bits/*.ops"
	fi
	exit $$status

# The file at which a check fails is left in build/fuzz-captures.
fuzz-captures:
	@tests/setup/packages.sh $(PIPELINE_PACKAGES)
	$(venv)
	mkdir -p build/fuzz-captures
	cd build/fuzz-captures
	PYTHONPATH='$(CURDIR)/python:$(CURDIR)' "$$python" -m tests.capture.fuzz --seconds $(TIME) --seed $(SEED)

lint:
	@tests/setup/packages.sh $(PACKAGES) $(LINT_PACKAGES)
	$(venv)
	$(MAKE) -s -j2 --output-sync lint-kernel lint-programs docs

lint-kernel:
	@$(PYTHON) -m tests.lint.circles
	+tests/lint/kernel.sh $(LINT_KERNELS)

lint-programs:
	@$(venv)
	echo 'Checking Python and shell'
	"$$python" -m tests.lint.folders
	"$$venv/bin/ruff" check --quiet --no-cache --config python/pyproject.toml python tests docs
	"$$venv/bin/ruff" format --quiet --no-cache --check --config python/pyproject.toml python tests docs
	MYPYPATH=python "$$venv/bin/mypy" --no-error-summary --cache-dir build/mypy \
		--config-file python/pyproject.toml -p kbus -p tests
	shellcheck .ci/run tests/*/*.sh tests/vm/guest-bin/* tests/vm/bin/*

docs:
	@tests/setup/packages.sh $(PACKAGES)
	$(venv)
	echo 'Building the documentation and the manual pages'
	PYTHONPATH=python "$$venv/bin/sphinx-build" -q -E -W -n -d build/doctrees docs build/docs
	PYTHONPATH=python "$$venv/bin/sphinx-build" -q -W -n -b man -d build/doctrees docs build/man

# The environment is a small one of its own: who installs needs nothing else of what tests need.
completions:
	@venv=$$(tests/setup/venv.sh $(PYTHON) tests/setup/completions.txt)
	rm -rf build/completions
	PYTHONPATH=python "$$venv/bin/python" -m tests.setup.completions build/completions

install: module completions
	@tests/setup/packages.sh python3-pip
	release=$$($(kernels) --release '$(KERNEL)')
	install -D -m 0644 kernel/kbus.ko "$(DESTDIR)/lib/modules/$$release/extra/kbus.ko"
	install -D -m 0644 kernel/include/uapi/linux/kbus.h '$(DESTDIR)$(PREFIX)/include/linux/kbus.h'
	install -D -m 0644 kernel/90-kbus.rules '$(DESTDIR)/etc/udev/rules.d/90-kbus.rules'
	install -D -m 0644 -t '$(DESTDIR)/etc/systemd/system' systemd/kbus-sbusd.service systemd/kbus-sbusd.socket
	for file in $$(cd build/completions && find . -type f); do
		install -D -m 0644 "build/completions/$$file" '$(DESTDIR)$(PREFIX)'/share/"$$file"
	done
	$(pip) install --root '$(DESTDIR)/' --no-deps --no-warn-script-location ./python
	rm -r python/build python/kbus.egg-info
	if [[ -z '$(DESTDIR)' ]]; then
		depmod "$$release"
		getent group kbus >/dev/null || groupadd --system kbus
	fi

uninstall:
	@if [[ -n '$(DESTDIR)' ]]; then echo 'remove the directory DESTDIR as a whole' >&2; exit 1; fi
	release=$$($(kernels) --release '$(KERNEL)')
	rm -f "/lib/modules/$$release/extra/kbus.ko" '$(PREFIX)/include/linux/kbus.h' /etc/udev/rules.d/90-kbus.rules \
		/etc/systemd/system/kbus-sbusd.service /etc/systemd/system/kbus-sbusd.socket
	for command in kbus kbus-pipeline kbus-sbus kbus-sbusd kbus-testbus; do
		rm -f '$(PREFIX)'/share/{bash-completion/completions/"$$command",zsh/site-functions/_"$$command"} \
			'$(PREFIX)/share/fish/vendor_completions.d/'"$$command.fish"
	done
	depmod "$$release"
	$(pip) uninstall --yes kbus

clean:
	@rm -rf build Module.symvers modules.order .module-common.o .*.cmd python/build python/kbus.egg-info
	find kernel \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \
		-o -name modules.order \) -delete
	find python tests docs -name __pycache__ -exec rm -rf {} +
	for directory in $(PROGRAMS); do $(MAKE) -s -C $$directory clean; done
