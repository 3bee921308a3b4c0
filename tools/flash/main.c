// SPDX-License-Identifier: GPL-2.0
/* flash: a web server that never waits for a disk. See README.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "config.h"
#include "https.h"
#include "master.h"
#include "message.h"

/* Settings of the command line, applied again at each reload: they win over the file. */
static struct setting {
	char *name;
	const char *value;
} *settings;
static int nr_settings;
static const char *config_path;
static bool show;

static void usage(FILE *out)
{
	fputs("Usage: flash [--config FILE] [--SETTING VALUE]...\n"
	      "       flash --check | --show | --help | --version\n\n"
	      "  --config FILE, -c   read settings from a file\n"
	      "  --check, -t         check the configuration and end\n"
	      "  --show              print the settings in effect and end\n\n"
	      "Settings, in the file as \"name value\", here as \"--name value\":\n", out);
	config_help(out);
}

static struct conf *load(void)
{
	struct conf *conf = config_new();
	int i, err = 0;

	if (!conf)
		return NULL;
	if (config_path)
		err = config_load(conf, config_path);
	for (i = 0; !err && i < nr_settings; i++)
		err = config_set(conf, settings[i].name, settings[i].value, "command line");
	/* Who may see the configuration need not be who may read the keys. */
	if (err || config_finish(conf) || (!show && https_load(conf))) {
		config_free(conf);
		return NULL;
	}
	return conf;
}

static int bad_usage(const char *arg)
{
	message("%s: see flash --help", arg);
	return 2;
}

static void remember(const char *name, size_t len, const char *value)
{
	char *copy = strndup(name, len), *p;

	settings = realloc(settings, (nr_settings + 1) * sizeof(*settings));
	if (!settings || !copy)
		exit(EXIT_FAILURE);
	for (p = copy; *p; p++)
		if (*p == '-')
			*p = '_';
	settings[nr_settings].name = copy;
	settings[nr_settings++].value = value;
}

static void forget_settings(void)
{
	while (nr_settings)
		free(settings[--nr_settings].name);
	free(settings);
}

int main(int argc, char **argv)
{
	bool check = false;
	struct conf *conf;
	int i, ret;

	for (i = 1; i < argc; i++) {
		const char *arg = argv[i], *value = strchr(arg, '=');

		if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
			usage(stdout);
			return 0;
		}
		if (!strcmp(arg, "--version") || !strcmp(arg, "-V")) {
			puts("flash " FLT_VERSION);
			return 0;
		}
		if (!strcmp(arg, "--check") || !strcmp(arg, "-t")) {
			check = true;
			continue;
		}
		if (!strcmp(arg, "--show")) {
			show = true;
			continue;
		}
		if (!value && i + 1 == argc)
			return bad_usage(arg);
		if (!strcmp(arg, "-c") || !strcmp(arg, "--config"))
			config_path = argv[++i];
		else if (!strncmp(arg, "--config=", 9))
			config_path = arg + 9;
		else if (strncmp(arg, "--", 2))
			return bad_usage(arg);
		else if (value)
			remember(arg + 2, value - arg - 2, value + 1);
		else
			remember(arg + 2, strlen(arg + 2), argv[++i]);
	}
	conf = load();
	if (!conf) {
		forget_settings();
		return EXIT_FAILURE;
	}
	if (check || show) {
		if (show)
			config_show(conf, stdout);
		ret = check && check_machine(conf) ? EXIT_FAILURE : EXIT_SUCCESS;
		if (fflush(stdout)) {
			message("standard output: %s", strerror(errno));
			ret = EXIT_FAILURE;
		}
		config_free(conf);
		forget_settings();
		return ret;
	}
	ret = master_run(conf, load, argv);
	forget_settings();
	return ret;
}
