// SPDX-License-Identifier: GPL-2.0
/* A file of settings is read whole or not at all, and what differs becomes commands that the kernel takes in their order. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tools/flotilla/tests/lib/settings.h"

static const struct bad bad[] = {
	{ "", ": the line \"local name NAME address ADDRESS\" is missing" },
	{ "# nothing\n", ": the line \"local name NAME address ADDRESS\" is missing" },
	{ "node be1 address 10.0.0.2\n", ": the line \"local name NAME address ADDRESS\" is missing" },
	{ LOCAL "node be1 address 10.0.0.1", ":2: the last line has no end: is the file whole?" },
	{ LOCAL "nod be1\n",
	  ":2: a line begins with local, node, service, policy, links, sysctl, migrate, redirect or export, not with nod" },
	{ LOCAL LOCAL, ":2: cannot use this node's line: there is one already" },
	{ "local name fe\n", ":1: cannot use this node's line: its address is missing" },
	{ "local address 10.0.0.1\n", ":1: cannot use this node's line: its name is missing" },
	{ "local name fe name be address 10.0.0.1\n", ":1: cannot use this node's line: name is given twice" },
	{ "local name fe address 10.0.0.1 address 10.0.0.2\n",
	  ":1: cannot use this node's line: one address of a family, not two" },
	{ "local name fe address 10.0.0.1 insecure maybe\n",
	  ":1: cannot use this node's line: insecure maybe is not off or on" },
	{ "local name fe address 10.0.0.1 insecure on insecure off\n",
	  ":1: cannot use this node's line: insecure is given twice" },
	{ "local name fe address 10.0.0.1 colour red\n",
	  ":1: cannot use this node's line: colour is not something that this node has" },
	{ "local name .. address 10.0.0.1\n", ":1: cannot use this node's line: .. is not a name" },
	{ "local name fe address 224.0.0.1\n", ":1: cannot use this node's line: 224.0.0.1 is not the address of one host" },
	{ "local name fe address fe80::1\n",
	  ":1: cannot use this node's line: fe80::1 is a link-local address, which does not say on which interface" },
	{ LOCAL "\nnode\n", ":3: cannot use a node: its name is missing" },
	{ LOCAL "node be1\n", ":2: cannot use node be1: its address is missing" },
	{ LOCAL "node be1 address 10.0.0.300\n", ":2: cannot use node be1: address 10.0.0.300 is not an address" },
	{ LOCAL "node be1 address 0.0.0.0\n", ":2: cannot use node be1: 0.0.0.0 is not the address of one host" },
	{ LOCAL "node be1 address ::ffff:10.0.0.3\n",
	  ":2: cannot use node be1: ::ffff:10.0.0.3 is an IPv4 address: give it as such" },
	{ LOCAL "node b/1 address 10.0.0.2\n",
	  ":2: cannot use node b/1: name b/1 has a character other than letters, digits, '.', '_', '-'" },
	{ LOCAL "node be1 address 10.0.0.2 weight 65536\n",
	  ":2: cannot use node be1: weight 65536 is not between 0 and 65535" },
	{ LOCAL "node be1 address 10.0.0.2 weight 1 weight 1\n", ":2: cannot use node be1: weight is given twice" },
	{ LOCAL "node be1 address 10.0.0.2 weight\n", ":2: cannot use node be1: weight needs a value" },
	{ LOCAL "node be1 address 10.0.0.2 port 0\n", ":2: cannot use node be1: port 0 is not between 1 and 65535" },
	{ LOCAL "node be1 address 10.0.0.2 auth psk\n", ":2: cannot use node be1: auth psk needs a key" },
	{ LOCAL "node be1 address 10.0.0.2 key 7\n", ":2: cannot use node be1: a key goes only with auth psk" },
	{ LOCAL "node be1 address 10.0.0.2 forward-address ::\n", ":2: cannot use node be1: :: is not the address of one host" },
	{ LOCAL "node be1 address 10.0.0.2\nnode be1 address 10.0.0.3\n",
	  ":3: cannot use node be1: a node of that name is there already" },
	{ LOCAL "node be1 address 10.0.0.2\nnode be2 address 10.0.0.2 port 9\n",
	  ":3: cannot use node be2: node be1 has that address" },
	{ LOCAL "node fe address 10.0.0.2\n", ":2: cannot use node fe: that is the name of this node itself" },
	{ LOCAL "node be1 address 10.0.0.1\n", ":2: cannot use node be1: that is the address of this node itself" },
	{ "node be1 address 10.0.0.1\n" LOCAL, ":1: cannot use node be1: that is the address of this node itself" },
	{ LOCAL "service\n", ":2: cannot use a service: its address is missing" },
	{ LOCAL "service 10.0.0.80:80 10.0.0.80:80\n", ":2: cannot use service 10.0.0.80:80: it is there already" },
	{ LOCAL "service [fd00::1\n", ":2: cannot use service [fd00::1: service [fd00::1 is not [ADDRESS]:PORT" },
	{ LOCAL "service 127.0.0.1:80\n",
	  ":2: cannot use service 127.0.0.1:80: 127.0.0.1 is a loopback address, which serves this machine only" },
	{ LOCAL "policy\n", ":2: cannot use the policy line: nothing to set is given" },
	{ LOCAL "policy best\n", ":2: cannot use the policy line: policy best is not wrr, lb, lard, lard/r, lc or chbl" },
	{ LOCAL "policy t_low 1\n", ":2: cannot use the policy line: t_low 1 is not between 2 and 1000000" },
	{ LOCAL "policy t_low 9\npolicy t_low 9\n", ":3: cannot use the policy line: t_low is given twice" },
	{ LOCAL "policy lb colour 9\n", ":2: cannot use the policy line: there is no policy setting colour" },
	{ LOCAL "links heartbeat_ms 1\n", ":2: cannot use the links line: heartbeat_ms 1 is not between 50 and 60000" },
	{ LOCAL "sysctl forward_max many\n", ":2: cannot use the sysctl line: forward_max many is not a number" },
	{ LOCAL "export data device /dev/sdb\n", ":2: cannot use export data: its nodes are missing" },
	{ LOCAL "export data nodes be1\n", ":2: cannot use export data: its device is missing" },
	{ LOCAL "export data device \"/dev/sdb nodes be1\n", ":2: a quotation mark has no second one" },
	{ LOCAL "export data device \"\" nodes be1\n", ":2: cannot use export data: device is empty or too long" },
	{ LOCAL "export data device /dev/sdb nodes be1 shared\n", ":2: cannot use export data: shared goes only with write" },
	{ LOCAL "export data device /dev/sdb nodes be1 write write\n", ":2: cannot use export data: write is given twice" },
	{ LOCAL "export data device /dev/sdb nodes be1 uuid 7\n", ":2: cannot use export data: 7 is not a UUID" },
	{ LOCAL "export d device /dev/a nodes b\nexport d device /dev/b nodes b\n",
	  ":3: cannot use export d: an export of that name is there already" },
	{ "{\n\"local\": }\n", ":2: not JSON: unexpected token near '}'" },
	{ "{}", ": the line \"local name NAME address ADDRESS\" is missing" },
	{ "{\"locale\": {}}",
	  ": locale: members are local, nodes, services, policy, links, sysctl, migrate, redirect and exports" },
	{ "{\"local\": []}", ": local: this is not an object" },
	{ "{\"nodes\": {}}", ": nodes: nodes is not an array" },
	{ "{\"nodes\": [{\"name\": \"be1\", \"address\": \"10.0.0.2\"}, {\"address\": \"10.0.0.3\"}]}",
	  ": nodes[1]: its name is missing (name)" },
	{ "{\"nodes\": [{\"name\": \"be1\", \"address\": \"10.0.0.300\"}]}",
	  ": nodes[0]: cannot use node be1: address 10.0.0.300 is not an address" },
	{ "{\"nodes\": [{\"name\": \"be1 weight 3\", \"address\": \"10.0.0.3\"}]}",
	  ": nodes[0]: \"be1 weight 3\" is empty or has a blank" },
	{ "{\"nodes\": [{\"name\": \"be1\", \"weight\": 1.5}]}", ": nodes[0]: weight has a value of the wrong kind" },
	{ "{\"nodes\": [{\"name\": \"be1\", \"weight\": -1}]}", ": nodes[0]: cannot use node be1: weight -1 is not a number" },
	{ "{\"nodes\": [{\"name\": \"be1\", \"name\": \"be2\"}]}", ":1: not JSON: duplicate object key near '\"name\"'" },
	{ "{\"services\": [80]}", ": services[0]: a service is a string" },
	{ "{\"policy\": {\"t_low\": true}}", ": policy: t_low has a value of the wrong kind" },
	{ "{\"exports\": [{\"export\": \"d\", \"nodes\": [1]}]}", ": exports[0]: nodes has something that is not a string" },
};

static void what_is_wrong_is_told_with_its_place(void **state)
{
	(void)state;
	must_refuse(bad, ARRAY_SIZE(bad));
}

static void a_file_that_cannot_be_read_fails(void **state)
{
	struct config config;

	(void)state;
	assert_int_equal(read_file("/nonexistent/file", &config), CLI_FAILED);
	assert_string_equal(said, "flotilla: cannot read /nonexistent/file: No such file or directory\n");
	assert_int_equal(read_file("/dev/zero", &config), CLI_FAILED);
	assert_string_equal(said, "flotilla: cannot read /dev/zero: it is longer than 1048576 bytes\n");
}

#define WHOLE									\
	"local name fe address 10.0.0.1 address fd00::1 port 7000 insecure on\n"	\
	"node be1 address 10.0.0.2\n"						\
	"node be2 address fd00::3 port 9000 weight 0 role frontend admin drain forward udp"	\
	" forward-address fd01::3 auth psk key /etc/flotilla/key\n"		\
	"node 77 address 10.0.0.7 auth x509\n"					\
	REST
#define PLAIN	LOCAL "node be1 address 10.0.0.2 weight 3 forward udp forward-address fd01::3\n" REST
#define REST									\
	"service 10.0.0.80:80\n"						\
	"service [fd00::80]:443\n"						\
	"service fd00::81\n"							\
	"policy lb t_low 9 max_outstanding auto\n"				\
	"links heartbeat_ms 500\n"						\
	"sysctl forward_max 1000\n"						\
	"migrate 10.0.0.80:80 hash self be1\n"					\
	"redirect 10.0.0.80:80 above 500\n"					\
	"export data device /dev/sdb nodes be1,be2 write shared serve event deliver sync policy hdc"	\
	" host 9 home_shift 2 uuid 01234567-89ab-cdef-0123-456789abcdef\n"	\
	"export odd device \"/dev/a \\\"b\\\\\\n#\" nodes be1 mount \"#x y\"\n"

static void what_is_printed_is_read_as_it_was(void **state)
{
	struct config config, again;
	json_t *json;
	char *text;

	(void)state;
	must_read("# said first\n  " WHOLE "\n", &config);
	text = printed(&config);
	assert_string_equal(text, WHOLE);
	free(text);
	json = config_print_json(&config);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(json, "nodes"), 1), "port")), 9000);
	assert_true(json_is_string(json_object_get(json_array_get(json_object_get(json, "nodes"), 2), "name")));
	text = json_dumps(json, JSON_INDENT(2));
	must_read(text, &again);
	free(text);
	text = printed(&again);
	assert_string_equal(text, WHOLE);
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
	must_read("local port 7471 insecure off address 10.0.0.1 name fe\n"
		  "node be1 role backend weight 100 admin active forward direct auth none port 7471 address 10.0.0.2"
		  " forward-address 10.0.0.2\n", &config);
	text = printed(&config);
	assert_string_equal(text, LOCAL "node be1 address 10.0.0.2\n");
	free(text);
	config_free(&config);
}

#define POLICY "policy lard/r t_low 25 t_high 65 replication_seconds 20 max_outstanding 7\n"

static const struct difference differences[] = {
	{ PLAIN, PLAIN, false, "" },
	{ LOCAL, ONE, false, "+ node be1 address 10.0.0.2\n" },
	{ ONE, LOCAL, false, "- node be1 address 10.0.0.2\n" },
	{ ONE, LOCAL, true, "" },
	{ ONE, LOCAL "node be1 address 10.0.0.2 weight 50 admin drain\n", false,
	  "~ node be1 weight 100 -> 50, admin active -> drain\n" },
	{ LOCAL "node be1 address 10.0.0.2 weight 50\n", ONE, false, "~ node be1 weight 50 -> 100\n" },
	{ ONE, LOCAL "node be1 address 10.0.0.9\n", false,
	  "~ node be1 address 10.0.0.2 -> 10.0.0.9: it is removed and added again, its connections are reset\n" },
	{ ONE, LOCAL "node be1 address 10.0.0.2 port 9 weight 3\n", false,
	  "~ node be1 port 7471 -> 9, weight 100 -> 3: it is removed and added again, its connections are reset\n" },
	{ ONE, LOCAL "node be1 address 10.0.0.2 auth x509\n", false,
	  "~ node be1 auth none -> x509: its link is set up anew\n" },
	{ ONE, LOCAL "node be1 address 10.0.0.2 auth psk key 7\n", false,
	  "~ node be1 auth none -> psk, key none -> 7: its link is set up anew\n" },
	{ LOCAL "node be1 address 10.0.0.2 auth psk key 7\n", LOCAL "node be1 address 10.0.0.2 auth psk key 8\n", false,
	  "~ node be1 key 7 -> 8\n" },
	{ LOCAL "node be1 address 10.0.0.2 forward-address 10.1.0.2\n", ONE, false,
	  "~ node be1 forward-address 10.1.0.2 -> 10.0.0.2\n" },
	{ ONE, LOCAL "node be2 address 10.0.0.2\n", false, "- node be1 address 10.0.0.2\n+ node be2 address 10.0.0.2\n" },
	{ LOCAL, "local name be address 10.0.0.4 insecure on\n", false,
	  "~ local name fe -> be, address 10.0.0.1 -> 10.0.0.4, insecure off -> on\n" },
	{ LOCAL "service 10.0.0.80\n", LOCAL "service 10.0.0.80:80\n", false,
	  "+ service 10.0.0.80:80\n- service 10.0.0.80\n" },
	{ LOCAL "service 10.0.0.80\n", LOCAL, true, "" },
	{ LOCAL POLICY, LOCAL "policy lb t_high 70\n", false, "~ policy policy lard/r -> lb, t_high 65 -> 70\n" },
	{ LOCAL POLICY, LOCAL "policy max_outstanding auto\n", false, "~ policy max_outstanding 7 -> auto\n" },
	{ LOCAL "links heartbeat_ms 500\n", LOCAL "links heartbeat_ms 0900\n", false, "~ links heartbeat_ms 500 -> 900\n" },
	{ LOCAL, LOCAL "export d device /dev/a nodes be1\n", false, "+ export d device /dev/a nodes be1\n" },
	{ LOCAL "export d device /dev/a nodes be1\n", LOCAL "export d device /dev/a nodes be1 serve thread\n", false,
	  "~ export d serve mix -> thread\n" },
	{ LOCAL "export d device /dev/a nodes be1\n", LOCAL "export d device /dev/a nodes be1,be2 write\n", false,
	  "~ export d nodes be1 -> be1,be2, write off -> on: it is ended and offered again, who has it waits meanwhile\n" },
	{ LOCAL "export d device /dev/a nodes be1\n", LOCAL "export e device /dev/a nodes be1\n", false,
	  "- export d device /dev/a nodes be1\n+ export e device /dev/a nodes be1\n" },
};

static void differences_are_told_a_line_each(void **state)
{
	(void)state;
	must_differ(differences, ARRAY_SIZE(differences));
}

static const struct {
	const char *live, *wanted;
	bool keep;
	const char *sentence;
} impossible[] = {
	{ ONE, LOCAL "node be2 address 10.0.0.2\n", true,
	  ": cannot keep node be1: be2 has its name or address in the file" },
	{ LOCAL POLICY, LOCAL "\npolicy t_low 65\n", false, ":3: t_low 65 is not below t_high 65" },
	{ LOCAL POLICY, LOCAL "policy t_high 25\n", false, ":2: t_low 25 is not below t_high 25" },
	{ "local name fe address 10.0.0.1 address fd00::1\n", LOCAL, false,
	  ":1: this node has the address fd00::1, which cannot be taken away: name it, too, or load flotilla.ko anew" },
	{ LOCAL, LOCAL "sysctl hold_max 3\n", false, ":2: there is no sysctl hold_max: handoff.ko is not loaded" },
	{ LOCAL, LOCAL "node be1 address 10.0.0.2 auth psk key /nonexistent/key\n", false,
	  ":2: cannot use node be1: /nonexistent/key: No such file or directory" },
	{ ONE, LOCAL "node be1 address 10.0.0.2 auth psk key nobody.has.it\n", false,
	  ":2: cannot use node be1: no key of the name nobody.has.it is loaded" },
};

static void what_cannot_be_is_found_before_the_first_change(void **state)
{
	struct comparing c;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(impossible); i++) {
		int status = compare(&c, impossible[i].live, impossible[i].wanted, impossible[i].keep);

		if (!status || strncmp(sentence(), impossible[i].sentence, strlen(impossible[i].sentence)))
			fail_msg("%s: status %d: %s\nexpected %s", impossible[i].wanted, status, said,
				 impossible[i].sentence);
		assert_int_equal(c.changes.nr, 0);
		done(&c);
	}
}

/* It has no number yet that could differ from that of no key. */
static void a_key_that_has_to_be_loaded_is_a_difference(void **state)
{
	char path[] = "/tmp/flotilla_config.XXXXXX", wanted[256], text[256];
	struct comparing c;
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", 65), 65);
	close(fd);
	snprintf(wanted, sizeof(wanted), LOCAL "node be1 address 10.0.0.2 auth psk key %s\n", path);
	if (compare(&c, ONE, wanted, false))
		fail_msg("%s: %s", wanted, said);
	unlink(path);
	assert_int_equal(c.changes.nr, 1);
	snprintf(text, sizeof(text), "node set be1 auth psk key %s", path);
	assert_string_equal(c.changes.list[0].commands[0], text);
	done(&c);
}

/* An automatic limit that happens to be the wanted one: written, and no difference. */
static void the_limit_that_shows_is_made_the_one_that_is_set(void **state)
{
	struct comparing c = { 0 };

	(void)state;
	must_read(LOCAL POLICY, &c.live);
	must_read(LOCAL "policy max_outstanding 7\n", &c.wanted);
	c.live.auto_limit = true;
	assert_int_equal(compare_again(&c), CLI_OK);
	assert_int_equal(c.changes.nr, 1);
	assert_int_equal(c.changes.list[0].sign, 0);
	assert_string_equal(c.changes.list[0].commands[0], "policy set max_outstanding 7");
	done(&c);
}

/**
 * struct model - the kernel's rules: names and addresses are one node's each
 */
struct model {
	char name[16][8], address[16][16];	/* [0] is this node */
	unsigned int nr;
};

static void model_refuse(const struct model *m, unsigned int but, const char *name, const char *address, const char *line)
{
	unsigned int i;

	for (i = 0; i < m->nr; i++)
		if (i != but && (!strcmp(m->name[i], name) || !strcmp(m->address[i], address)))
			fail_msg("the kernel would refuse: %s", line);
}

static void model_run(struct model *m, const char *line)
{
	char name[8], address[16];
	unsigned int i;

	if (sscanf(line, "local set name %7s address %15s", name, address) == 2) {
		model_refuse(m, 0, name, address, line);
		strcpy(m->name[0], name);
		strcpy(m->address[0], address);
	} else if (sscanf(line, "node add %7s address %15s", name, address) == 2) {
		model_refuse(m, 16, name, address, line);
		strcpy(m->name[m->nr], name);
		strcpy(m->address[m->nr++], address);
	} else if (sscanf(line, "node del %7s", name) == 1) {
		for (i = 1; i < m->nr && strcmp(m->name[i], name); i++)
			;
		if (i == m->nr)
			fail_msg("the kernel has no such node: %s", line);
		m->nr--;
		memmove(m->name[i], m->name[m->nr], sizeof(m->name[i]));
		memmove(m->address[i], m->address[m->nr], sizeof(m->address[i]));
	}
}

static void model_load(struct model *m, const struct config *config)
{
	size_t i;

	strcpy(m->name[0], config->local.name);
	address_text(&config->local.addr4, m->address[0], 16);
	for (i = 0; i < config->nr_nodes; i++) {
		memcpy(m->name[i + 1], config->nodes[i].info.name, 8);
		address_text(&config->nodes[i].info.addr, m->address[i + 1], 16);
	}
	m->nr = config->nr_nodes + 1;
}

/* As apply does it. */
static void model_apply(struct model *m, const struct changes *changes)
{
	unsigned int phase, i, j;

	for (phase = 0; phase < NR_PHASES; phase++)
		for (i = 0; i < changes->nr; i++) {
			const struct change *c = &changes->list[i];

			if (phase == PHASE_EARLY && c->early)
				model_run(m, c->early);
			for (j = 0; j < 2 && c->phase == phase; j++)
				if (c->commands[j])
					model_run(m, c->commands[j]);
		}
}

static bool model_has(const struct model *m, const struct model *other)
{
	unsigned int i, j;

	for (i = 0; i < other->nr; i++) {
		for (j = 0; j < m->nr; j++)
			if (!strcmp(m->name[j], other->name[i]) && !strcmp(m->address[j], other->address[i]))
				break;
		if (j == m->nr)
			return false;
	}
	return m->nr == other->nr;
}

/* Names and addresses of a few, so that they meet. */
static void random_text(char *text, unsigned int *seed)
{
	int name[6] = { 0, 1, 2, 3, 4, 5 }, address[6] = { 1, 2, 3, 4, 5, 6 }, i, n;

	for (i = 5; i > 0; i--) {
		int a = rand_r(seed) % (i + 1), b = rand_r(seed) % (i + 1), t;

		t = name[i], name[i] = name[a], name[a] = t;
		t = address[i], address[i] = address[b], address[b] = t;
	}
	n = sprintf(text, "local name n%d address 10.0.0.%d\n", name[0], address[0]);
	for (i = 1; i < 1 + rand_r(seed) % 6; i++)
		n += sprintf(text + n, "node n%d address 10.0.0.%d\n", name[i], address[i]);
}

static void any_table_becomes_any_other(void **state)
{
	unsigned int seed = 20, round, i;
	char from[512], to[512];

	(void)state;
	for (round = 0; round < 2000; round++) {
		struct model is = { 0 }, should = { 0 };
		struct comparing c;

		random_text(from, &seed);
		random_text(to, &seed);
		if (compare(&c, from, to, false))
			fail_msg("%s to %s: %s", from, to, said);
		model_load(&is, &c.live);
		model_load(&should, &c.wanted);
		model_apply(&is, &c.changes);
		if (!model_has(&is, &should))
			fail_msg("round %u: from %s to %s: not there", round, from, to);
		/* What has to go is gone last, unless it is in the way. */
		for (i = 0; i < c.changes.nr; i++)
			if (c.changes.list[i].sign == '-')
				assert_true(c.changes.list[i].phase == PHASE_REMOVE || c.changes.list[i].phase == PHASE_EARLY);
		done(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_wrong_is_told_with_its_place),
		cmocka_unit_test(a_file_that_cannot_be_read_fails),
		cmocka_unit_test(what_is_printed_is_read_as_it_was),
		cmocka_unit_test(defaults_may_be_said_or_left_out),
		cmocka_unit_test(differences_are_told_a_line_each),
		cmocka_unit_test(what_cannot_be_is_found_before_the_first_change),
		cmocka_unit_test(a_key_that_has_to_be_loaded_is_a_difference),
		cmocka_unit_test(the_limit_that_shows_is_made_the_one_that_is_set),
		cmocka_unit_test(any_table_becomes_any_other),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
