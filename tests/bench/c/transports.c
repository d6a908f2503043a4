// SPDX-License-Identifier: MIT
/* All transports; with WITH_LIBRARIES also those that need more than the kernel. */
#include "bench.h"

const struct transport *const transports[] = {
	&by_kbus,
	&by_transfer,
	&by_transfer32,
	&by_seqpacket,
	&by_mmsg,
	&by_pipe,
	&by_mqueue,
	&by_sbus,
#ifdef WITH_LIBRARIES
	&by_dbus_daemon,
	&by_dbus_broker,
	&by_zmq,
	&by_nats,
	&by_mqtt,
#endif
	NULL
};
