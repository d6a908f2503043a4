// SPDX-License-Identifier: MIT
/* The command line, and what is there before the workers begin and after they have ended. */
#include <err.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ops.h"
#include "supervise.h"

struct options options = { .seed = 1, .workers = 4, .seconds = 60, .repeat = 1, .steered = true };
struct shared *shared;

static const char usage[] =
	"usage: kbus-fuzz [OPTION...]           hammer KBUS with programs made from a seed\n"
	"       kbus-fuzz [OPTION...] --replay FILE...     run programs from files\n"
	"  --seed N        what all random numbers grow from (1)\n"
	"  --workers N     processes; a single one has one thread, and does the same each time (4)\n"
	"  --seconds S     how long (60)\n"
	"  --operations N  how many, at most\n"
	"  --results DIR   where to write what is about to run, what was reached, and what came of it\n"
	"  --unsteered     do without KCOV\n"
	"  --repeat N      replay so often (1)\n";

void *share(size_t size)
{
	void *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		err(2, "mmap");
	return area;
}

/* A line on stderr */
void say(const char *format, ...)
{
	char line[1400];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (line[len - 1] != '\n')
		strcpy(line + len, "\n");
	dprintf(2, "fuzz: %s", line);
}

static uint64_t to_number(const char *text, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end == text || *end || value < least || value > most)
		errx(2, "%s: not a number from %llu to %llu", text, (unsigned long long)least,
		     (unsigned long long)most);
	return value;
}

/* Return whether files are to be replayed, which are what is left of the arguments. */
static bool parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "workers", required_argument, NULL, 'w' },
		{ "seconds", required_argument, NULL, 't' },
		{ "operations", required_argument, NULL, 'o' },
		{ "results", required_argument, NULL, 'd' },
		{ "repeat", required_argument, NULL, 'n' },
		{ "unsteered", no_argument, NULL, 'u' },
		{ "replay", no_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	bool replay = false;
	int option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (option) {
		case 's':
			options.seed = to_number(optarg, 0, UINT64_MAX);
			break;
		case 'w':
			options.workers = to_number(optarg, 1, WORKERS_MAX);
			break;
		case 't':
			options.seconds = to_number(optarg, 1, 1000000);
			break;
		case 'o':
			options.operations = to_number(optarg, 1, UINT64_MAX);
			break;
		case 'd':
			options.results = optarg;
			break;
		case 'n':
			options.repeat = to_number(optarg, 1, 1000000);
			break;
		case 'u':
			options.steered = false;
			break;
		case 'r':
			replay = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (replay && optind == argc)
		errx(2, "--replay: which files?");
	if (!replay && optind < argc)
		errx(2, "%s: is it to be replayed?", argv[optind]);
	return replay;
}

static bool fuzzed_next(struct worker *worker)
{
	static struct program other;
	struct random *random = &worker->random;

	if (options.operations && shared->operations >= options.operations)
		return false;
	if (random_chance(random, 20) || !corpus_pick(&worker->program, random)) {
		program_generate(random, &worker->program);
	} else {
		corpus_pick(&other, random);
		program_mutate(random, &worker->program, &other);
	}
	return true;
}

int main(int argc, char **argv)
{
	bool replay = parse(argc, argv), fine;
	unsigned int i;

	shared = share(sizeof(*shared));
	corpus_init();
	for (i = optind; i < (unsigned int)argc; i++)
		options.workers = replay_read(argv[i]);
	limits_save();
	devices_prepare();
	if (!cover_init() || !options.steered) {
		say("no coverage: not steered");
		options.steered = false;
	}

	if (replay) {
		for (i = 0; i < WORKERS_MAX; i++) {
			if (replay_threads(i))
				supervise_start(i, replay_threads(i), replay_next);
		}
	} else {
		for (i = 0; i < options.workers; i++)
			supervise_start(i, options.workers > 1 ? THREADS : 1, fuzzed_next);
	}
	fine = supervise(replay);
	limits_restore();
	devices_restore();
	fine = check_nothing_left() && fine;
	log_end(fine);
	supervise_summary(stdout, fine);
	return fine ? 0 : 1;
}
