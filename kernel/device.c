// SPDX-License-Identifier: GPL-2.0
/*
 * The devices /dev/kbusN. They stay until the module goes, which it can do only
 * when none of them is open.
 */
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/slab.h>

#include "kbus.h"

static DEFINE_MUTEX(kbus_devs_lock);
static struct kbus_dev *kbus_devs[KBUS_MAX_DEVICES];	/* without gaps */
static unsigned int kbus_nr_devs;
static dev_t kbus_devt;
static struct cdev kbus_cdev;

static char *kbus_devnode(KBUS_DEVNODE_CONST struct device *device, umode_t *mode)
{
	if (mode)
		*mode = kbus_device_mode & 0777;
	return NULL;
}

static struct class kbus_class = {
	.name = "kbus",
	.devnode = kbus_devnode,
};

static void kbus_dev_free(struct kbus_dev *dev)
{
	WARN_ON_ONCE(!xa_empty(&dev->ksocks));
	xa_destroy(&dev->ksocks);
	rhltable_destroy(&dev->requests);
	kbus_bindings_destroy(dev);
	kfree(dev);
}

static struct kbus_dev *kbus_dev_alloc(unsigned int index)
{
	struct kbus_dev *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return NULL;
	dev->index = index;
	spin_lock_init(&dev->lock);
	INIT_LIST_HEAD(&dev->waits);
	xa_init_flags(&dev->ksocks, XA_FLAGS_ALLOC1);
	dev->next_ksock_id = max(READ_ONCE(kbus_first_ksock_id), 1U);
	dev->last_serial = max(READ_ONCE(kbus_first_serial), 1U) - 1;
	dev->max_msg_size = min(READ_ONCE(kbus_default_message_size),
				READ_ONCE(kbus_max_message_size));
	if (kbus_bindings_init(dev))
		goto free;
	if (kbus_requests_init(dev))
		goto destroy_bindings;
	return dev;
destroy_bindings:
	kbus_bindings_destroy(dev);
free:
	kfree(dev);
	return NULL;
}

/* The device with this minor number, or NULL; it stays while the caller has it open. */
struct kbus_dev *kbus_dev_get(unsigned int index)
{
	struct kbus_dev *dev;

	mutex_lock(&kbus_devs_lock);
	dev = index < kbus_nr_devs ? kbus_devs[index] : NULL;
	mutex_unlock(&kbus_devs_lock);
	return dev;
}

/* Say something in the log, if VERBOSE is on. */
void kbus_verbose(struct kbus_dev *dev, const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	if (!READ_ONCE(dev->verbose))
		return;
	va_start(args, fmt);
	vaf.va = &args;
	pr_info_ratelimited("kbus%u: %pV", dev->index, &vaf);
	va_end(args);
}

static int kbus_dev_add(void)
{
	struct device *node;
	struct kbus_dev *dev;

	lockdep_assert_held(&kbus_devs_lock);
	if (kbus_nr_devs == KBUS_MAX_DEVICES)
		return -ENOSPC;
	dev = kbus_dev_alloc(kbus_nr_devs);
	if (!dev)
		return -ENOMEM;
	node = device_create(&kbus_class, NULL, kbus_devt + dev->index, NULL, "kbus%u",
			     dev->index);
	if (IS_ERR(node)) {
		kbus_dev_free(dev);
		return PTR_ERR(node);
	}
	/* Whoever has seen the node already waits in kbus_dev_get(). */
	kbus_devs[kbus_nr_devs++] = dev;
	return 0;
}

/* Make one more device. Return 0, -ENOSPC if there can be no more, or another errno. */
int kbus_dev_new(unsigned int *index)
{
	int err;

	mutex_lock(&kbus_devs_lock);
	err = kbus_dev_add();
	if (!err)
		*index = kbus_nr_devs - 1;
	mutex_unlock(&kbus_devs_lock);
	return err;
}

static void kbus_dev_settle(struct kbus_dev *dev)
{
	struct kbus_wakes wakes = KBUS_WAKES();
	struct kbus_ksock *ks;
	unsigned long id;

	spin_lock(&dev->lock);
	xa_for_each(&dev->ksocks, id, ks) {
		spin_lock(&ks->q.lock);
		kbus_queue_unlock(&ks->q, &wakes);
		kbus_send_report_lost(ks, &wakes);
	}
	spin_unlock(&dev->lock);
	kbus_wakes_flush(&wakes);
}

/* A limit of all queues has changed, perhaps before there is a device: settle them. */
void kbus_devs_settle(void)
{
	unsigned int i;

	mutex_lock(&kbus_devs_lock);
	for (i = 0; i < kbus_nr_devs; i++)
		kbus_dev_settle(kbus_devs[i]);
	mutex_unlock(&kbus_devs_lock);
}

static void kbus_devs_free(void)
{
	lockdep_assert_held(&kbus_devs_lock);
	while (kbus_nr_devs) {
		struct kbus_dev *dev = kbus_devs[--kbus_nr_devs];

		device_destroy(&kbus_class, kbus_devt + dev->index);
		kbus_dev_free(dev);
	}
}

/* This is the last step of init: once it has succeeded, devices may be open. */
int kbus_devs_init(void)
{
	unsigned int i;
	int err;

	err = alloc_chrdev_region(&kbus_devt, 0, KBUS_MAX_DEVICES, "kbus");
	if (err)
		return err;
	err = class_register(&kbus_class);
	if (err)
		goto unregister_region;
	cdev_init(&kbus_cdev, &kbus_fops);
	kbus_cdev.owner = THIS_MODULE;
	err = cdev_add(&kbus_cdev, kbus_devt, KBUS_MAX_DEVICES);
	if (err)
		goto unregister_class;

	/* Nobody opens the first device before it is sure that there is a last one. */
	mutex_lock(&kbus_devs_lock);
	for (i = 0; i < kbus_num_devices && !err; i++)
		err = kbus_dev_add();
	if (err)
		kbus_devs_free();
	mutex_unlock(&kbus_devs_lock);
	if (!err)
		return 0;

	cdev_del(&kbus_cdev);
unregister_class:
	class_unregister(&kbus_class);
unregister_region:
	unregister_chrdev_region(kbus_devt, KBUS_MAX_DEVICES);
	return err;
}

void kbus_devs_exit(void)
{
	cdev_del(&kbus_cdev);
	mutex_lock(&kbus_devs_lock);
	kbus_devs_free();
	mutex_unlock(&kbus_devs_lock);
	class_unregister(&kbus_class);
	unregister_chrdev_region(kbus_devt, KBUS_MAX_DEVICES);
}
