// SPDX-License-Identifier: GPL-2.0
/* Do what a run must not survive; the parameter says what. test_guest.py loads this, in guests only. */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *fault = "";
module_param(fault, charp, 0);

static DEFINE_SPINLOCK(one);
static DEFINE_SPINLOCK(other);

static int * volatile object;

static void faults_use_after_free(void)
{
	object = kmalloc(sizeof(*object), GFP_KERNEL);
	kfree(object);
	*object = 1;
}

static void faults_leak(void)
{
	object = kmalloc(100, GFP_KERNEL);
	object = NULL;
}

static void faults_inversion(void)
{
	spin_lock(&one);
	spin_lock(&other);
	spin_unlock(&other);
	spin_unlock(&one);
	spin_lock(&other);
	spin_lock(&one);
	spin_unlock(&one);
	spin_unlock(&other);
}

static void faults_sleep(void)
{
	spin_lock(&one);
	msleep(1);
	spin_unlock(&one);
}

static int __init faults_init(void)
{
	if (!strcmp(fault, "warning"))
		WARN_ON(1);
	else if (!strcmp(fault, "oops"))
		*(volatile int *)8 = 1;
	else if (!strcmp(fault, "panic"))
		panic("planted");
	else if (!strcmp(fault, "use after free"))
		faults_use_after_free();
	else if (!strcmp(fault, "leak"))
		faults_leak();
	else if (!strcmp(fault, "lock inversion"))
		faults_inversion();
	else if (!strcmp(fault, "sleep under a spinlock"))
		faults_sleep();
	else
		return -EINVAL;
	return 0;
}

static void __exit faults_exit(void)
{
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Faults for the test harness");
