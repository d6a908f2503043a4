// SPDX-License-Identifier: MIT
/*
 * The only program of a machine that counts instructions: init.
 *
 * It loads /kbus.ko, runs /bench with the arguments of each line of /cases, and
 * powers off. What it says goes to the console, one line for each case; "done" is
 * the last one if all went well. If there is a /symbols, it tells the kernel's
 * symbols first.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_ARGUMENTS	16
#define BLANKS		"\n "

static void prepare(void)
{
	int fd;

	if (mount("dev", "/dev", "devtmpfs", 0, NULL))
		err(1, "/dev");
	fd = open("/kbus.ko", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		err(1, "/kbus.ko");
	close(fd);
}

static void show_symbols(void)
{
	char line[512];
	FILE *symbols;

	if (access("/symbols", F_OK))
		return;
	if (mkdir("/proc", 0755) || mount("proc", "/proc", "proc", 0, NULL))
		err(1, "/proc");
	symbols = fopen("/proc/kallsyms", "re");
	if (!symbols)
		err(1, "/proc/kallsyms");
	while (fgets(line, sizeof(line), symbols))
		fputs(line, stdout);
	fclose(symbols);
}

static void run(char *line)
{
	char *arguments[MOST_ARGUMENTS + 1] = { "/bench" };
	int count = 1, status, pid;
	char *word;

	for (word = strtok(line, BLANKS); word; word = strtok(NULL, BLANKS)) {
		if (count == MOST_ARGUMENTS)
			errx(1, "/cases has a line that is too long");
		arguments[count++] = word;
	}
	pid = fork();
	if (!pid) {
		execv(arguments[0], arguments);
		err(1, "%s", arguments[0]);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		errx(1, "/bench failed");
}

static void run_all(void)
{
	FILE *cases = fopen("/cases", "re");
	char line[256];

	if (!cases)
		err(1, "/cases");
	while (fgets(line, sizeof(line), cases))
		run(line);
	puts("done");
}

int main(void)
{
	int pid = fork();

	if (!pid) {
		prepare();
		show_symbols();
		run_all();
		return 0;
	}
	/* If init ended the kernel would panic, whatever the reason. */
	while (pid > 0 && waitpid(pid, NULL, 0) != pid)
		;
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}
