// SPDX-License-Identifier: GPL-2.0
/*
 * KBUS: parameters, init and exit.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "kbus.h"

/* A parameter that has a lowest and a highest value */
#define KBUS_UINT(variable, value, low, high)					\
unsigned int variable = value;							\
static int variable##_set(const char *val, const struct kernel_param *kp)	\
{										\
	return param_set_uint_minmax(val, kp, low, high);			\
}										\
static const struct kernel_param_ops variable##_ops = {				\
	.set = variable##_set,							\
	.get = param_get_uint,							\
}

/* No message may be so long that its length overflows 32 bits anywhere. */
#define KBUS_MESSAGE_SIZE_MAX	0x40000000U
#define KBUS_QUEUE_LENGTH_MAX	0x00100000U

KBUS_UINT(kbus_num_devices, 1, 1, KBUS_MAX_DEVICES);
module_param_cb(num_kbus_devices, &kbus_num_devices_ops, &kbus_num_devices, 0444);
MODULE_PARM_DESC(num_kbus_devices, "devices to make at load (1 to 256)");
KBUS_UINT(kbus_default_queue_length, 100, 1, KBUS_QUEUE_LENGTH_MAX);
module_param_cb(default_queue_length, &kbus_default_queue_length_ops, &kbus_default_queue_length,
		0644);
MODULE_PARM_DESC(default_queue_length, "messages that the queue of a new KSock takes");
KBUS_UINT(kbus_max_queue_length, 10000, 1, KBUS_QUEUE_LENGTH_MAX);
module_param_cb(max_queue_length, &kbus_max_queue_length_ops, &kbus_max_queue_length, 0644);
MODULE_PARM_DESC(max_queue_length, "messages that a KSock can make its queue take");
KBUS_UINT(kbus_default_message_size, 1 << 20, KBUS_MIN_MAX_MSG_SIZE, KBUS_MESSAGE_SIZE_MAX);
module_param_cb(default_message_size, &kbus_default_message_size_ops, &kbus_default_message_size,
		0644);
MODULE_PARM_DESC(default_message_size, "bytes of the longest message of a new device");
KBUS_UINT(kbus_max_message_size, 16 << 20, KBUS_MIN_MAX_MSG_SIZE, KBUS_MESSAGE_SIZE_MAX);
module_param_cb(max_message_size, &kbus_max_message_size_ops, &kbus_max_message_size, 0644);
MODULE_PARM_DESC(max_message_size, "bytes that the longest message of a device can be set to");
KBUS_UINT(kbus_max_ksock_bindings, 4096, 0, UINT_MAX);
module_param_cb(max_ksock_bindings, &kbus_max_ksock_bindings_ops, &kbus_max_ksock_bindings,
		0644);
MODULE_PARM_DESC(max_ksock_bindings, "bindings of a KSock");
KBUS_UINT(kbus_max_user_bindings, 65536, 0, INT_MAX);
module_param_cb(max_user_bindings, &kbus_max_user_bindings_ops, &kbus_max_user_bindings,
		0644);
MODULE_PARM_DESC(max_user_bindings, "bindings of a user");
KBUS_UINT(kbus_max_name_bindings, 16, 1, INT_MAX);
module_param_cb(max_name_bindings, &kbus_max_name_bindings_ops, &kbus_max_name_bindings,
		0644);
MODULE_PARM_DESC(max_name_bindings, "L bindings of a user to one name, without CAP_SYS_RESOURCE");
KBUS_UINT(kbus_max_user_ksocks, 1024, 0, INT_MAX);
module_param_cb(max_user_ksocks, &kbus_max_user_ksocks_ops, &kbus_max_user_ksocks, 0644);
MODULE_PARM_DESC(max_user_ksocks, "KSocks of a user");
KBUS_UINT(kbus_first_serial, 1, 1, UINT_MAX);
module_param_cb(first_serial, &kbus_first_serial_ops, &kbus_first_serial, 0644);
MODULE_PARM_DESC(first_serial, "serial number of the first message of a new device");
KBUS_UINT(kbus_first_ksock_id, 1, 1, UINT_MAX);
module_param_cb(first_ksock_id, &kbus_first_ksock_id_ops, &kbus_first_ksock_id, 0644);
MODULE_PARM_DESC(first_ksock_id, "id of the first KSock of a new device");

static int kbus_set_bytes(const char *val, const struct kernel_param *kp)
{
	int err = param_set_ulong(val, kp);

	if (!err)
		kbus_devs_settle();
	return err;
}

static const struct kernel_param_ops kbus_bytes_ops = {
	.set = kbus_set_bytes,
	.get = param_get_ulong,
};

unsigned long kbus_max_queue_bytes = 4 << 20;
module_param_cb(max_queue_bytes, &kbus_bytes_ops, &kbus_max_queue_bytes, 0644);
MODULE_PARM_DESC(max_queue_bytes, "bytes that are queued on a KSock");

unsigned long kbus_max_user_bytes;

/* Messages are in memory that is always mapped. */
static unsigned long kbus_default_user_bytes(void)
{
	return ((totalram_pages() - totalhigh_pages()) / 8) << PAGE_SHIFT;
}

static int kbus_set_user_bytes(const char *val, const struct kernel_param *kp)
{
	unsigned long bytes;
	int err = kstrtoul(val, 0, &bytes);

	if (err)
		return err;
	WRITE_ONCE(kbus_max_user_bytes, bytes ?: kbus_default_user_bytes());
	return 0;
}

static const struct kernel_param_ops kbus_user_bytes_ops = {
	.set = kbus_set_user_bytes,
	.get = param_get_ulong,
};
module_param_cb(max_user_bytes, &kbus_user_bytes_ops, &kbus_max_user_bytes, 0644);
MODULE_PARM_DESC(max_user_bytes, "bytes of a user (default: an eighth of low memory)");

unsigned short kbus_device_mode = 0660;

static int kbus_set_device_mode(const char *val, const struct kernel_param *kp)
{
	unsigned short mode;
	int err = kstrtou16(val, 8, &mode);

	if (err)
		return err;
	/* For devtmpfs 0 is no mode. */
	if (!mode || mode > 0777)
		return -EINVAL;
	kbus_device_mode = mode;
	return 0;
}

static int kbus_get_device_mode(char *buffer, const struct kernel_param *kp)
{
	return sprintf(buffer, "%04o\n", kbus_device_mode);
}

static const struct kernel_param_ops kbus_device_mode_ops = {
	.set = kbus_set_device_mode,
	.get = kbus_get_device_mode,
};
module_param_cb(device_mode, &kbus_device_mode_ops, NULL, 0444);
MODULE_PARM_DESC(device_mode, "mode of the device nodes, in octal");

unsigned int kbus_proc_gid;
module_param_named(proc_gid, kbus_proc_gid, uint, 0444);
MODULE_PARM_DESC(proc_gid, "group that may read /proc/kbus");

bool kbus_writers_configure;
module_param_named(writers_configure, kbus_writers_configure, bool, 0644);
MODULE_PARM_DESC(writers_configure,
		 "let all who may write set what concerns a whole device, as the original KBUS did");

static int __init kbus_init(void)
{
	int err;

	if (!kbus_max_user_bytes)
		kbus_max_user_bytes = kbus_default_user_bytes();

	err = kbus_msgs_init();
	if (err)
		return err;
	err = kbus_procfs_init();
	if (err)
		goto free_caches;
	err = kbus_devs_init();
	if (!err)
		return 0;
	kbus_procfs_exit();
free_caches:
	kbus_msgs_exit();
	return err;
}

static void __exit kbus_exit(void)
{
	kbus_procfs_exit();
	kbus_devs_exit();
	kbus_msgs_exit();
}

module_init(kbus_init);
module_exit(kbus_exit);
MODULE_DESCRIPTION("KBUS message bus");
MODULE_AUTHOR("The KBUS founders");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
