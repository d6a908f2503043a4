// SPDX-License-Identifier: MIT
/* All transports; WITH_BROKERS those that need libraries, and mostly a daemon. */
#include "bench.h"

extern const struct transport by_kbus, by_transfer, by_transfer32, by_seqpacket, by_mmsg,
	by_pipe, by_mqueue;

const struct transport *const transports[] = {
	&by_kbus,
	&by_transfer,
	&by_transfer32,
	&by_seqpacket,
	&by_mmsg,
	&by_pipe,
	&by_mqueue,
	NULL
};
