// SPDX-License-Identifier: GPL-2.0
/* Policies and redirection of services are in a file as their commands have them, and come and go at their time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tools/flotilla/tests/lib/settings.h"

static const struct bad bad[] = {
	{ LOCAL "migrate\n", ":2: cannot use a migrate line: its service is missing" },
	{ LOCAL "migrate 10.0.0.80:80\n", ":2: cannot use migrate 10.0.0.80:80: its policy is missing" },
	{ LOCAL "migrate 10.0.0.80 stay\n", ":2: cannot use migrate 10.0.0.80: its port is missing" },
	{ LOCAL "migrate 10.0.0.300:80 stay\n", ":2: cannot use migrate 10.0.0.300:80: address 10.0.0.300 is not an address" },
	{ LOCAL "migrate 0.0.0.0:80 stay\n", ":2: cannot use migrate 0.0.0.0:80: 0.0.0.0 is not the address of one host" },
	{ LOCAL "migrate 10.0.0.80:80 stay\nmigrate 10.0.0.80:80 hash\n",
	  ":3: cannot use migrate 10.0.0.80:80: that service has a policy already" },
	{ LOCAL "migrate 10.0.0.80:80 \"\"\n",
	  ":2: cannot use migrate 10.0.0.80:80: policy \"\" does not have 1 to 15 characters" },
	{ LOCAL "migrate 10.0.0.80:80 sixteen-letters.\n",
	  ":2: cannot use migrate 10.0.0.80:80: policy \"sixteen-letters.\" does not have 1 to 15 characters" },
	{ LOCAL "migrate 10.0.0.80:80 hash \"be1 be2\"\n",
	  ":2: cannot use migrate 10.0.0.80:80: argument \"be1 be2\" is empty or has a blank" },
	{ LOCAL "migrate 10.0.0.80:80 hash be1 \"\"\n",
	  ":2: cannot use migrate 10.0.0.80:80: argument \"\" is empty or has a blank" },
	{ LOCAL "migrate 10.0.0.80:80 hash admit=\n",
	  ":2: cannot use migrate 10.0.0.80:80: admit= is neither a node's name nor NAME=NUMBER" },
	{ LOCAL "migrate 10.0.0.80:80 hash admit=-1\n",
	  ":2: cannot use migrate 10.0.0.80:80: admit=-1 is neither a node's name nor NAME=NUMBER" },
	{ LOCAL "migrate 10.0.0.80:80 hash admit=1x\n",
	  ":2: cannot use migrate 10.0.0.80:80: admit=1x is neither a node's name nor NAME=NUMBER" },
	{ LOCAL "migrate 10.0.0.80:80 hash a=18446744073709551616\n",
	  ":2: cannot use migrate 10.0.0.80:80: a=18446744073709551616 is neither a node's name nor NAME=NUMBER" },
	{ LOCAL "migrate 10.0.0.80:80 hash =1\n",
	  ":2: cannot use migrate 10.0.0.80:80: =1 is neither a node's name nor NAME=NUMBER" },
	{ LOCAL "migrate 10.0.0.80:80 hash sixteen.letters.=1\n",
	  ":2: cannot use migrate 10.0.0.80:80: sixteen.letters.=1 is neither a node's name nor NAME=NUMBER" },
	{ LOCAL "migrate 10.0.0.80:80 hash abcdefghijklmnopqrstuvwxyz012345\n",
	  ":2: cannot use migrate 10.0.0.80:80: abcdefghijklmnopqrstuvwxyz012345 is too long for the name of a node" },
	{ LOCAL "migrate 10.0.0.80:80 hash a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1\n",
	  ":2: cannot use migrate 10.0.0.80:80: more than 8 options" },
	{ LOCAL "redirect\n", ":2: cannot use a redirect line: its service is missing" },
	{ LOCAL "redirect fd00::80\n", ":2: cannot use redirect fd00::80: its port is missing" },
	{ LOCAL "redirect 10.0.0.80:80 above\n", ":2: cannot use redirect 10.0.0.80:80: above needs a value" },
	{ LOCAL "redirect 10.0.0.80:80 above auto\n", ":2: cannot use redirect 10.0.0.80:80: above auto is not a number" },
	{ LOCAL "redirect 10.0.0.80:80 queue 101\n",
	  ":2: cannot use redirect 10.0.0.80:80: queue 101 is not between 0 and 100" },
	{ LOCAL "redirect 10.0.0.80:80 hysteresis off\n",
	  ":2: cannot use redirect 10.0.0.80:80: hysteresis off is not a number" },
	{ LOCAL "redirect 10.0.0.80:80 hint off\n", ":2: cannot use redirect 10.0.0.80:80: hint off is not a number" },
	{ LOCAL "redirect 10.0.0.80:80 above 4294967295\n",
	  ":2: cannot use redirect 10.0.0.80:80: above 4294967295 is not between 0 and 2147483647" },
	{ LOCAL "redirect 10.0.0.80:80 take 1\n", ":2: cannot use redirect 10.0.0.80:80: take 1 is not off or on" },
	{ LOCAL "redirect 10.0.0.80:80 above 1 above 1\n", ":2: cannot use redirect 10.0.0.80:80: above is given twice" },
	{ LOCAL "redirect 10.0.0.80:80 colour red\n",
	  ":2: cannot use redirect 10.0.0.80:80: colour is not an argument of this command; try \"help\" in its place" },
	{ LOCAL "redirect 10.0.0.80:80\nredirect 10.0.0.80:80\n",
	  ":3: cannot use redirect 10.0.0.80:80: that service has a rule already" },
	{ "{\"migrate\": {}}", ": migrate: migrate is not an array" },
	{ "{\"migrate\": [\"10.0.0.80:80\"]}", ": migrate[0]: this is not an object" },
	{ "{\"migrate\": [{\"service\": \"10.0.0.80:80\"}]}", ": migrate[0]: service and policy are strings" },
	{ "{\"migrate\": [{\"service\": \"10.0.0.80:80\", \"policy\": \"hash\", \"arguments\": \"be1\"}]}",
	  ": migrate[0]: arguments is not an array" },
	{ "{\"migrate\": [{\"service\": \"10.0.0.80:80\", \"policy\": \"hash\", \"arguments\": [1]}]}",
	  ": migrate[0]: arguments has something that is not a string" },
	{ "{\"migrate\": [{\"service\": \"10.0.0.80:80\", \"policy\": \"hash\", \"nodes\": [\"be1\"]}]}",
	  ": migrate[0]: nodes is not something that a policy of a service has" },
	{ "{\"migrate\": [{\"service\": \"10.0.0.80\", \"policy\": \"hash\"}]}",
	  ": migrate[0]: cannot use migrate 10.0.0.80: its port is missing" },
	{ "{\"redirect\": [{\"above\": 3}]}", ": redirect[0]: its name is missing (service)" },
	{ "{\"redirect\": [{\"service\": \"10.0.0.80:80\", \"take\": true}]}",
	  ": redirect[0]: take has a value of the wrong kind" },
	{ "{\"redirect\": [{\"service\": \"10.0.0.80:80\", \"queue\": 101}]}",
	  ": redirect[0]: cannot use redirect 10.0.0.80:80: queue 101 is not between 0 and 100" },
};

static void what_is_wrong_is_told_with_its_place(void **state)
{
	(void)state;
	must_refuse(bad, ARRAY_SIZE(bad));
}

#define RULES									\
	"migrate 10.0.0.80:80 hash self be1 be2 admit=0x20 admit_again=007\n"	\
	"migrate [fd00::80]:443 stay\n"						\
	"migrate 127.0.0.1:8080 \"my posts\" \"a\\\"b\" \"#c\" \"d\te\"\n"		\
	"redirect 10.0.0.80:80 above 500 queue 80 hysteresis 50 take off hint 3\n"	\
	"redirect [fd00::80]:443\n"						\
	"redirect 127.0.0.1:8080 above 0 hint 0\n"

/**
 * struct row - of the kernel's dumps
 * @args: of a policy; NULL: it is a row of redirection
 */
struct row {
	const char *address, *node, *policy, *args, *what;
	uint64_t value;
};

static const struct row *rows;
static size_t nr_rows;
static int policies_fail, redirects_fail;
static bool loaded;

int __wrap_flt_policy_each(struct flt_client *c, flt_policy_fn fn, void *arg);
int __wrap_flt_redirect_each(struct flt_client *c, flt_redirect_fn fn, void *arg);
int __wrap_access(const char *path, int mode);
int __real_access(const char *path, int mode);

int __wrap_flt_policy_each(struct flt_client *c, flt_policy_fn fn, void *arg)
{
	struct flt_policy_info info;
	struct cli cli = { 0 };
	size_t i;
	int err = policies_fail;

	(void)c;
	for (i = 0; i < nr_rows && !err; i++) {
		if (!rows[i].policy)
			continue;
		memset(&info, 0, sizeof(info));
		value_service(&cli, rows[i].address, &info.service);
		strcpy(info.name, rows[i].policy);
		strcpy(info.args, rows[i].args);
		strcpy(info.what, rows[i].what);
		err = fn(&info, arg);
	}
	return err;
}

int __wrap_flt_redirect_each(struct flt_client *c, flt_redirect_fn fn, void *arg)
{
	struct flt_redirect_info info;
	struct cli cli = { 0 };
	size_t i;
	int err = redirects_fail;

	(void)c;
	for (i = 0; i < nr_rows && !err; i++) {
		if (rows[i].policy)
			continue;
		memset(&info, 0, sizeof(info));
		value_service(&cli, rows[i].address, &info.service);
		strcpy(info.what, rows[i].what);
		info.value = rows[i].value;
		if (rows[i].node)
			strcpy(info.node, rows[i].node);
		err = fn(&info, arg);
	}
	return err;
}

int __wrap_access(const char *path, int mode)
{
	if (strcmp(path, "/sys/module/handoff"))
		return __real_access(path, mode);
	return loaded ? 0 : -1;
}

static void what_the_kernel_tells_is_a_line_of_each_service(void **state)
{
	static const struct row told[] = {
		{ "10.0.0.80:80", NULL, "hash", " self  be1 admit=3 ", "asked", 9 },
		{ "10.0.0.80:80", NULL, "hash", " self  be1 admit=3 ", "moved", 1 },
		{ "[fd00::80]:443", NULL, "stay", "", "asked", 0 },
		{ "10.0.0.80:80", NULL, NULL, NULL, "above", 500 },
		{ "10.0.0.80:80", NULL, NULL, NULL, "queue", UINT32_MAX },
		{ "10.0.0.80:80", NULL, NULL, NULL, "hysteresis", 1 },
		{ "10.0.0.80:80", NULL, NULL, NULL, "take", 0 },
		{ "10.0.0.80:80", NULL, NULL, NULL, "hint", 7 },
		{ "10.0.0.80:80", NULL, NULL, NULL, "told", 8 },
		{ "10.0.0.80:80", NULL, NULL, NULL, "load", 8 },
		{ "10.0.0.80:80", NULL, NULL, NULL, "sent", 12 },
		{ "10.0.0.80:80", "be1", NULL, NULL, "lighter", 2 },
		{ "10.0.0.80:81", NULL, NULL, NULL, "above", UINT32_MAX },
		{ "10.0.0.80:81", NULL, NULL, NULL, "queue", UINT32_MAX },
		{ "10.0.0.80:81", NULL, NULL, NULL, "hysteresis", 0 },
		{ "10.0.0.80:81", NULL, NULL, NULL, "take", 1 },
		{ "10.0.0.80:81", NULL, NULL, NULL, "hint", UINT32_MAX },
		/* Its rule went while the rows were read. */
		{ "10.0.0.80:82", "be1", NULL, NULL, "lighter", 2 },
	};
	struct comparing c = { 0 };
	struct cli cli = { 0 };
	char *text;

	(void)state;
	rows = told;
	nr_rows = ARRAY_SIZE(told);
	must_read(LOCAL, &c.live);
	assert_int_equal(config_live_rules(&cli, &c.live), CLI_OK);
	assert_false(c.live.no_handoff);
	text = printed(&c.live);
	assert_string_equal(text, LOCAL "migrate 10.0.0.80:80 hash self be1 admit=3\nmigrate [fd00::80]:443 stay\n"
			    "redirect 10.0.0.80:80 above 500 take off hint 7\nredirect 10.0.0.80:81 hysteresis 0\n");
	must_read(text, &c.wanted);
	free(text);
	assert_int_equal(compare_again(&c), CLI_OK);
	assert_int_equal(c.changes.nr, 0);
	done(&c);
	/* Who has rules has the module, whatever /sys shows. */
	rows = told + 3;
	nr_rows = ARRAY_SIZE(told) - 3;
	must_read(LOCAL, &c.live);
	assert_int_equal(config_live_rules(&cli, &c.live), CLI_OK);
	assert_false(c.live.no_handoff);
	config_free(&c.live);
}

static void where_no_module_has_rules_there_are_none(void **state)
{
	struct config config = { 0 };
	struct cli cli = { .quiet = true };

	(void)state;
	nr_rows = 0;
	assert_int_equal(config_live_rules(&cli, &config), CLI_OK);
	assert_true(config.no_handoff);
	loaded = true;
	assert_int_equal(config_live_rules(&cli, &config), CLI_OK);
	assert_false(config.no_handoff);
	/* A kernel of before there were any. */
	redirects_fail = -EOPNOTSUPP;
	assert_int_equal(config_live_rules(&cli, &config), CLI_OK);
	policies_fail = -EOPNOTSUPP;
	assert_int_equal(config_live_rules(&cli, &config), CLI_OK);
	loaded = false;
}

static json_t *member(const json_t *all, const char *list, size_t at, const char *key)
{
	return json_object_get(json_array_get(json_object_get(all, list), at), key);
}

static void what_is_printed_is_read_as_it_was(void **state)
{
	struct config config, again;
	json_t *json;
	char *text;

	(void)state;
	must_read(LOCAL RULES, &config);
	text = printed(&config);
	assert_string_equal(text, LOCAL RULES);
	free(text);
	json = config_print_json(&config);
	assert_string_equal(json_string_value(member(json, "migrate", 0, "service")), "10.0.0.80:80");
	assert_string_equal(json_string_value(member(json, "migrate", 0, "policy")), "hash");
	assert_int_equal(json_array_size(member(json, "migrate", 0, "arguments")), 5);
	assert_int_equal(json_integer_value(member(json, "redirect", 0, "above")), 500);
	assert_string_equal(json_string_value(member(json, "redirect", 0, "take")), "off");
	assert_null(member(json, "redirect", 1, "hint"));
	text = json_dumps(json, JSON_INDENT(2));
	must_read(text, &again);
	free(text);
	text = printed(&again);
	assert_string_equal(text, LOCAL RULES);
	free(text);
	json_decref(json);
	config_free(&again);
	config_free(&config);
}

static void defaults_may_be_said_or_left_out(void **state)
{
	struct config config;
	char *text;

	(void)state;
	must_read(LOCAL "redirect 10.0.0.80:80 hint auto take on hysteresis 1 queue off above off\n", &config);
	text = printed(&config);
	assert_string_equal(text, LOCAL "redirect 10.0.0.80:80\n");
	free(text);
	config_free(&config);
}

static const struct difference differences[] = {
	{ LOCAL RULES, LOCAL RULES, false, "" },
	{ LOCAL, LOCAL "redirect 10.0.0.80:80 above 5\nmigrate 10.0.0.80:80 hash be1 self\n", false,
	  "+ migrate 10.0.0.80:80 hash be1 self\n+ redirect 10.0.0.80:80 above 5\n" },
	{ LOCAL "migrate 10.0.0.80:80 hash be1 self\n", LOCAL "migrate 10.0.0.80:80 hash self be1\n", false,
	  "~ migrate 10.0.0.80:80 hash be1 self -> hash self be1\n" },
	{ LOCAL "migrate 10.0.0.80:80 hash\n", LOCAL "migrate 10.0.0.80:80 size below=9\n", true,
	  "~ migrate 10.0.0.80:80 hash -> size below=9\n" },
	{ LOCAL "redirect 10.0.0.80:80 above 5 take off hint 9\n", LOCAL "redirect 10.0.0.80:80 above 5 queue 50\n", false,
	  "~ redirect 10.0.0.80:80 queue off -> 50, take off -> on, hint 9 -> auto\n" },
	/* A policy names nodes: it comes after them and goes before them. */
	{ ONE "migrate 10.0.0.80:80 hash be1\nredirect 10.0.0.80:80\nservice 10.0.0.80:80\n",
	  LOCAL "migrate 10.0.0.81:80 hash be2\nnode be2 address 10.0.0.3\n", false,
	  "+ node be2 address 10.0.0.3\n+ migrate 10.0.0.81:80 hash be2\n- migrate 10.0.0.80:80 hash be1\n"
	  "- redirect 10.0.0.80:80\n- service 10.0.0.80:80\n- node be1 address 10.0.0.2\n" },
	{ LOCAL "migrate 10.0.0.80:80 hash\nredirect 10.0.0.80:80\n", LOCAL, true, "" },
	{ LOCAL "migrate [fd00::80]:80 hash\nmigrate 10.0.0.80:80 hash\n", LOCAL "migrate 10.0.0.80:81 hash\n", false,
	  "+ migrate 10.0.0.80:81 hash\n- migrate [fd00::80]:80 hash\n- migrate 10.0.0.80:80 hash\n" },
};

static void differences_are_told_a_line_each(void **state)
{
	(void)state;
	must_differ(differences, ARRAY_SIZE(differences));
}

static void a_rule_is_made_and_changed_by_one_command(void **state)
{
	struct comparing c;

	(void)state;
	if (compare(&c, LOCAL "migrate 10.0.0.80:80 hash\nredirect 10.0.0.80:80 above 5 hint 9\nmigrate 10.0.0.81:80 stay\n"
		    "redirect 10.0.0.81:80 queue 1\n",
		    LOCAL "migrate 10.0.0.80:80 posts \"#a\" be1\nredirect 10.0.0.80:80 take off\n"
		    "redirect [fd00::80]:80 above 3 hint 4\n", false))
		fail_msg("%s", said);
	assert_int_equal(c.changes.nr, 5);
	assert_string_equal(c.changes.list[0].commands[0], "migrate policy off 10.0.0.81:80");
	assert_string_equal(c.changes.list[1].commands[0], "redirect off 10.0.0.81:80");
	assert_string_equal(c.changes.list[2].commands[0], "migrate policy set 10.0.0.80:80 posts \"#a\" be1");
	assert_string_equal(c.changes.list[3].commands[0], "redirect set 10.0.0.80:80 above off take off hint auto");
	assert_string_equal(c.changes.list[4].commands[0], "redirect set [fd00::80]:80 above 3 hint 4");
	done(&c);
}

/* @nr lines of services from 10.0.@net.0:@from on. */
static char *many(const char *line, unsigned int net, unsigned int from, unsigned int nr)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	fputs(LOCAL, f);
	for (; nr; nr--)
		fprintf(f, "%s 10.0.%u.1:%u%s\n", line, net, from++, strcmp(line, "migrate") ? "" : " stay");
	fclose(f);
	return text;
}

static const struct {
	const char *line;
	unsigned int max;
	const char *sentence;
} rooms[] = {
	{ "migrate", 256, ":258: cannot use migrate 10.0.1.1:257: there are more than 256 of them" },
	{ "redirect", 64, ":66: cannot use redirect 10.0.1.1:65: there are more than 64 of them" },
};

/* The kernel has room for so many, those that are to go among them. */
static void rules_that_go_make_room_for_those_that_come(void **state)
{
	struct comparing c;
	struct config config;
	char *live, *wanted;
	size_t i, j;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rooms); i++) {
		wanted = many(rooms[i].line, 1, 1, rooms[i].max + 1);
		assert_int_equal(read_text(wanted, &config), CLI_USAGE);
		assert_string_equal(sentence(), rooms[i].sentence);
		config_free(&config);
		free(wanted);
		/* One stays, and one more than there is room for comes. */
		live = many(rooms[i].line, 1, 1, rooms[i].max);
		wanted = many(rooms[i].line, 1, rooms[i].max, 2);
		assert_int_equal(compare(&c, live, wanted, false), CLI_OK);
		assert_int_equal(c.changes.nr, rooms[i].max);
		for (j = 0; j < c.changes.nr; j++)
			assert_int_equal(c.changes.list[j].phase, c.changes.list[j].sign == '-' ? PHASE_EARLY : PHASE_RULE);
		done(&c);
		free(wanted);
		wanted = many(rooms[i].line, 1, rooms[i].max, 1);
		assert_int_equal(compare(&c, live, wanted, false), CLI_OK);
		assert_int_equal(c.changes.nr, rooms[i].max - 1);
		for (j = 0; j < c.changes.nr; j++)
			assert_int_equal(c.changes.list[j].phase, PHASE_REMOVE);
		done(&c);
		free(wanted);
		free(live);
	}
}

static void without_handoff_rules_are_refused_and_their_lack_is_not(void **state)
{
	static const char *const wanted[] = { LOCAL "migrate 10.0.0.80:80 stay\n", LOCAL "redirect 10.0.0.80:80\n" };
	struct comparing c = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wanted); i++) {
		must_read(LOCAL, &c.live);
		must_read(wanted[i], &c.wanted);
		c.live.no_handoff = true;
		assert_int_equal(compare_again(&c), CLI_FAILED);
		assert_string_equal(sentence(), ":2: handoff.ko is not loaded: modprobe handoff");
		assert_int_equal(c.changes.nr, 0);
		done(&c);
	}
	must_read(LOCAL, &c.live);
	must_read(ONE, &c.wanted);
	c.live.no_handoff = true;
	assert_int_equal(compare_again(&c), CLI_OK);
	assert_int_equal(c.changes.nr, 1);
	done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_wrong_is_told_with_its_place),
		cmocka_unit_test(what_is_printed_is_read_as_it_was),
		cmocka_unit_test(what_the_kernel_tells_is_a_line_of_each_service),
		cmocka_unit_test(where_no_module_has_rules_there_are_none),
		cmocka_unit_test(defaults_may_be_said_or_left_out),
		cmocka_unit_test(differences_are_told_a_line_each),
		cmocka_unit_test(a_rule_is_made_and_changed_by_one_command),
		cmocka_unit_test(rules_that_go_make_room_for_those_that_come),
		cmocka_unit_test(without_handoff_rules_are_refused_and_their_lack_is_not),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
