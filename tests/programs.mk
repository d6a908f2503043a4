# SPDX-License-Identifier: MIT
# What the makefiles of C programs that run in the virtual machine have in common.

# Not in build/, which the virtual machine does not see.
BUILD := bin
CC32 ?= $(error make test-vm says which compilers)
# Changes with the processor, so that what was built for another one is built anew.
FOR := $(BUILD)/.for-$(shell $(CC) -dumpmachine)

$(FOR):
	rm -rf $(BUILD)
	mkdir -p $(BUILD)
	touch $@

clean:
	rm -rf $(BUILD)

.PHONY: all clean
