/* SPDX-License-Identifier: MIT */
/* The process that starts the others and watches over them. */
#ifndef _KBUS_FUZZ_SUPERVISE_H
#define _KBUS_FUZZ_SUPERVISE_H

#include "fuzz.h"

void supervise_start(unsigned int number, unsigned int threads, program_source next);
bool supervise(bool until_done);
void supervise_summary(FILE *file, bool fine);

#endif /* _KBUS_FUZZ_SUPERVISE_H */
