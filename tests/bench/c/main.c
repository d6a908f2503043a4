// SPDX-License-Identifier: MIT
/* The command line: what is measured, and by which transport. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* How much may be under way to a listener, whatever the transport */
#define MOST_MESSAGES	256
#define MOST_BYTES	(8U << 20)
#define LEAST_MESSAGES	8

#define MOST_SECONDS	600

struct setup setup = { .size = 64, .listeners = 1 };

static const struct {
	const char *name;
	void (*run)(const struct options *options);
} cases[] = {
	{ "stream", case_stream },
	{ "round-trip", case_round_trip },
	{ "flood", case_flood },
	{ "busy", case_busy },
	{ "solo", case_solo },
	{ "bindings", case_bindings },
};

static const struct option long_options[] = {
	{ "size", required_argument, NULL, 's' },
	{ "listeners", required_argument, NULL, 'l' },
	{ "senders", required_argument, NULL, 'n' },
	{ "others", required_argument, NULL, 'o' },
	{ "others-cpu", required_argument, NULL, 'O' },
	{ "cpu", required_argument, NULL, 'c' },
	{ "rounds", required_argument, NULL, 'r' },
	{ "seconds", required_argument, NULL, 't' },
	{ "address", required_argument, NULL, 'a' },
	{ "undisturbed", no_argument, NULL, 'u' },
	{ "first", no_argument, NULL, 'f' },
	{ "subscriptions", required_argument, NULL, 'S' },
	{ "stuck", no_argument, NULL, 'k' },
	{ 0 },
};

static unsigned int take_number(const char *option, const char *text, unsigned int low,
				unsigned int high)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (!*text || *end || value < low || value > high)
		errx(2, "%s is %s, and should be a number from %u to %u", option, text, low, high);
	return value;
}

static double take_seconds(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (!*text || *end || !(value > 0 && value <= MOST_SECONDS))
		errx(2, "seconds is %s, and should be a number up to %d", text, MOST_SECONDS);
	return value;
}

static void take_option(int which, const char *option, struct options *options)
{
	switch (which) {
	case 's':
		setup.size = take_number(option, optarg, 1, 16 << 20);
		break;
	case 'l':
		setup.listeners = take_number(option, optarg, 1, MAX_LISTENERS);
		break;
	case 'n':
		options->senders = take_number(option, optarg, 1, MAX_SENDERS);
		break;
	case 'o':
		options->others = take_number(option, optarg, 0, 1000000);
		break;
	case 'O':
		options->others_cpu = take_number(option, optarg, 0, 1023);
		break;
	case 'c':
		options->cpu = take_number(option, optarg, 0, 1023);
		break;
	case 'r':
		options->rounds = take_number(option, optarg, 1, 1000000);
		break;
	case 't':
		options->seconds = take_seconds(optarg);
		break;
	case 'f':
		options->first = true;
		break;
	case 'S':
		setup.subscriptions = take_number(option, optarg, 0, 1000000);
		break;
	case 'k':
		setup.stuck = true;
		break;
	case 'u':
		run_undisturbed();
		break;
	case 'a':
		setup.address = optarg;
		break;
	default:
		exit(2);
	}
}

static const struct transport *find_transport(const char *name)
{
	unsigned int i;

	for (i = 0; transports[i]; i++) {
		if (!strcmp(transports[i]->name, name))
			return transports[i];
	}
	errx(2, "there is no transport %s", name);
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 1, .senders = 1, .rounds = 1000 };
	int which, index = 0;
	size_t i;

	while ((which = getopt_long(argc, argv, "", long_options, &index)) != -1)
		take_option(which, long_options[index].name, &options);
	if (argc - optind != 2)
		errx(2, "usage: %s CASE TRANSPORT [--OPTION VALUE]...", argv[0]);
	setup.depth = MOST_BYTES / setup.size;
	if (setup.depth > MOST_MESSAGES)
		setup.depth = MOST_MESSAGES;
	if (setup.depth < LEAST_MESSAGES)
		setup.depth = LEAST_MESSAGES;
	options.transport = find_transport(argv[optind + 1]);
	pin(options.cpu);
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (!strcmp(cases[i].name, argv[optind])) {
			cases[i].run(&options);
			return 0;
		}
	}
	errx(2, "there is no case %s", argv[optind]);
}
