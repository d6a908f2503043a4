/* SPDX-License-Identifier: GPL-2.0 */
/* A message on its way to everybody that it concerns (plan.c and send.c, and wait.c if it waits) */
#ifndef _KBUS_SEND_H
#define _KBUS_SEND_H

#include "kbus.h"

enum kbus_when_full {
	KBUS_FULL_MISS,			/* a listener misses the message */
	KBUS_FULL_FAIL,			/* nobody gets it */
	KBUS_FULL_WAIT,
	KBUS_FULL_ASIDE,		/* it is queued all the same */
};

/* A message on its way */
struct kbus_send {
	struct kbus_dev *dev;
	struct kbus_msg *msg;
	struct kbus_plan *plans;	/* of each KSock that gets a copy, by kbus_plan.next */
	struct kbus_plan **last_plan;	/* where the next one is linked */
	enum kbus_when_full when_full;
	struct kbus_ksock *sender;	/* NULL for KBUS itself */
	struct kbus_request *request;	/* made from the message, or NULL */
	struct kbus_request *answered;	/* that the message answers, or NULL */
	bool is_status;			/* it is KBUS that answers */
	struct kbus_msg *end;		/* ends a list of events that are set aside, or NULL */
	bool is_inherited;		/* the user of a recipient has paid for the message */
	bool sleeps;			/* the sender sleeps inside SEND if it has to wait, */
	bool is_sleeper;		/* and is counted in kbus_wait.sleepers */
	bool wants_time;		/* a recipient asks when it was queued */
	struct kbus_wakes *wakes;
};

void kbus_send_plan(struct kbus_send *s, struct kbus_name *match, struct kbus_binding *replier);
int kbus_send_reserve(struct kbus_send *s);
void kbus_send_commit(struct kbus_send *s);
void kbus_send_forget(struct kbus_send *s);
void kbus_send_set_id(struct kbus_dev *dev, struct kbus_msg *msg);

int kbus_wait_try(struct kbus_send *s, struct kbus_plan *plan);
bool kbus_wait_is_hopeless(const struct kbus_send *s, struct kbus_plan *plan);

#endif /* _KBUS_SEND_H */
