// SPDX-License-Identifier: MIT
/*
 * run_dbus_broker PATH: a dbus-broker that listens at PATH, for as long as this runs.
 *
 * dbus-broker-launch needs systemd; but what it does for the broker is not much: it
 * hands it a socket, and tells it that everybody may do everything.
 */
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <linux/types.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <signal.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

/* A policy: whether to connect, and rules for owning names, sending and receiving */
#define RULES		"bta(btbs)a(btssssuutt)a(btssssuutt)"
/* Rules by user; by group, or ranges of users; SELinux; AppArmor; what kind of bus */
#define POLICY		"a(u(" RULES "))a(buu(" RULES "))a(ss)bs"
#define ANYBODY		UINT32_MAX
#define PRIORITY	UINT64_C(1)

static void check(int result, const char *what)
{
	if (result < 0)
		errx(1, "%s: %s", what, strerror(-result));
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		errx(2, "%s: too long", path);
	strcpy(address.sun_path, path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(fd, SOMAXCONN))
		err(1, "%s", path);
	return fd;
}

static void become_broker(int controller)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", controller);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || fcntl(controller, F_SETFD, 0))
		err(1, "the broker");
	execlp("dbus-broker", "dbus-broker", "--controller", number,
	       "--machine-id", "0123456789abcdef0123456789abcdef",
	       "--max-bytes", "536870912", "--max-fds", "4096", "--max-matches", "16384",
	       "--max-objects", "16384", NULL);
	err(1, "dbus-broker");
}

static sd_bus *control(int fd)
{
	sd_bus *bus;

	check(sd_bus_new(&bus), "sd_bus_new");
	check(sd_bus_set_fd(bus, fd, fd), "sd_bus_set_fd");
	check(sd_bus_start(bus), "the broker");
	return bus;
}

static void add_listener(sd_bus *bus, int fd)
{
	const __u64 none = 0, all = UINT64_MAX;	/* descriptors in a message */
	sd_bus_message *message;

	check(sd_bus_message_new_method_call(bus, &message, NULL, "/org/bus1/DBus/Broker",
					     "org.bus1.DBus.Broker", "AddListener"), "call");
	check(sd_bus_message_append(message, "oh", "/org/bus1/DBus/Listener/0", fd), "socket");
	check(sd_bus_message_append(message, "v", "(" POLICY ")",
				    1, ANYBODY, true, PRIORITY,
				    1, true, PRIORITY, true, "",
				    1, true, PRIORITY, "", "", "", "", 0, 0, none, all,
				    1, true, PRIORITY, "", "", "", "", 0, 0, none, all,
				    0, 0, false, "user"), "policy");
	check(sd_bus_call(bus, message, UINT64_MAX, NULL, NULL), "AddListener");
	sd_bus_message_unref(message);
}

int main(int argc, char **argv)
{
	int controller[2], status, pid, fd;

	if (argc != 2)
		errx(2, "usage: run_dbus_broker PATH");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, controller))
		err(1, "socketpair");
	fd = listen_at(argv[1]);
	pid = fork();
	if (!pid)
		become_broker(controller[1]);
	add_listener(control(controller[0]), fd);
	puts("ready");
	fflush(stdout);
	if (waitpid(pid, &status, 0) < 0)
		err(1, "wait");
	errx(1, "dbus-broker has ended");
}
