// SPDX-License-Identifier: GPL-2.0
/*
 * kube:NAMESPACE/SERVICE, the EndpointSlices of a Service whose pods are on the nodes' own network: a node is called as
 * Kubernetes calls it, up to the first dot.
 */
#include <stdlib.h>
#include <string.h>
#include "http.h"

#define SECRETS	"/var/run/secrets/kubernetes.io/serviceaccount/"
/* A watch ends after that and begins again. */
#define WATCH_SECONDS	300

struct kube {
	struct http http;
	struct access access;
	char api[300], path[300], label[64], version[64];
};

static bool is_label(const char *text, size_t len)
{
	return len > 0 && len < 64 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") >= len;
}

static int take_names(struct kube *kube, struct cli *cli, const char *rest)
{
	const char *slash = strchr(rest, '/');

	if (!slash || !is_label(rest, slash - rest) || !is_label(slash + 1, strlen(slash + 1)))
		return cli_usage(cli, "kube:%s is not kube:NAMESPACE/SERVICE", rest);
	snprintf(kube->label, sizeof(kube->label), "%s", slash + 1);
	snprintf(kube->path, sizeof(kube->path),
		 "/apis/discovery.k8s.io/v1/namespaces/%.*s/endpointslices?labelSelector=kubernetes.io%%2Fservice-name%%3D%s",
		 (int)(slash - rest), rest, slash + 1);
	return CLI_OK;
}

static int kube_open(struct source *s, const char *rest)
{
	struct kube *kube = calloc(1, sizeof(*kube));
	const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
	int status;

	if (!kube)
		return cli_fail(s->cli, "out of memory");
	s->data = kube;
	kube->access = *s->access;
	kube->access.ca = kube->access.ca ? kube->access.ca : SECRETS "ca.crt";
	kube->access.token = kube->access.token ? kube->access.token : SECRETS "token";
	status = http_open(&kube->http, s->cli, &kube->access, "Bearer ");
	if (!status)
		status = take_names(kube, s->cli, rest);
	if (!status && !s->access->api && !host)
		status = cli_usage(s->cli, "this is no pod: KUBERNETES_SERVICE_HOST is not set (--api)");
	if (status)
		return status;
	if (s->access->api)
		snprintf(kube->api, sizeof(kube->api), "%s", s->access->api);
	else
		snprintf(kube->api, sizeof(kube->api), strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host,
			 port ? port : "443");
	return http_check_url(s->cli, kube->api);
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* The port of that name is the link's; others are the pods' own. */
static const char *port_of(const json_t *slice, char *text, size_t size)
{
	const json_t *port;
	size_t i;

	json_array_foreach(json_object_get(slice, "ports"), i, port) {
		const char *name = text_of(port, "name");

		if (!name || strcmp(name, "flotilla") || !json_is_integer(json_object_get(port, "port")))
			continue;
		snprintf(text, size, "%lld", (long long)json_integer_value(json_object_get(port, "port")));
		return text;
	}
	return NULL;
}

/* One that ends or does not answer keeps what it has. Left out, a condition means that all is well. */
static bool is_active(const json_t *endpoint)
{
	const json_t *conditions = json_object_get(endpoint, "conditions");

	return !json_is_false(json_object_get(conditions, "ready")) &&
	       !json_is_true(json_object_get(conditions, "terminating"));
}

/*
 * An endpoint may stand in two slices while Kubernetes moves it, or in one of each family; an old pod of a node and its new
 * one have the same address. The first is taken, and is active if one of them is.
 */
static bool is_known(struct config *answer, const char *name, const char *address, bool active)
{
	char text[64];
	size_t i;

	for (i = 0; i < answer->nr_nodes; i++) {
		struct flt_node_info *info = &answer->nodes[i].info;

		if (strcmp(info->name, name))
			continue;
		if (active)
			info->admin = FLT_ADMIN_ACTIVE;
		/* Two of one family are two nodes of one name: that is refused. */
		return info->addr.ss_family != (strchr(address, ':') ? AF_INET6 : AF_INET) ||
		       !strcmp(address_text(&info->addr, text, sizeof(text)), address);
	}
	return false;
}

static int take_endpoint(struct source *s, struct config *answer, const json_t *slice, const json_t *endpoint)
{
	const char *address = json_string_value(json_array_get(json_object_get(endpoint, "addresses"), 0));
	const char *node = text_of(endpoint, "nodeName"), *slice_name = text_of(json_object_get(slice, "metadata"), "name");
	char name[64], place[PLACE_SIZE], port[24];
	bool active = is_active(endpoint);

	snprintf(place, sizeof(place), ": %.50s: ", slice_name ? slice_name : "?");
	source_place(s, answer, place);
	if (!address || !node)
		return cli_usage(s->cli, "an endpoint has no %s", address ? "nodeName" : "address");
	first_label(node, name, sizeof(name));
	if (is_known(answer, name, address, active))
		return CLI_OK;
	return answer_node(s, answer, place, name, address, port_of(slice, port, sizeof(port)), NULL,
			   active ? "active" : "drain");
}

static int take_slices(struct source *s, struct config *answer, const json_t *items, const char *type)
{
	const json_t *slice, *endpoint;
	int status = CLI_OK;
	size_t i, j;

	json_array_foreach(items, i, slice) {
		const char *is = text_of(slice, "addressType");

		if (!is || strcmp(is, type))
			continue;
		json_array_foreach(json_object_get(slice, "endpoints"), j, endpoint)
			if (!status)
				status = take_endpoint(s, answer, slice, endpoint);
	}
	return status;
}

static int kube_read(struct source *s, struct config *answer)
{
	struct kube *kube = s->data;
	const char *version, *rest;
	json_t *all, *items;
	char url[600];
	int status;
	long code;

	*answer = (struct config){ .file = kube->label, .max_nodes = s->max };
	source_place(s, answer, ": ");
	snprintf(url, sizeof(url), "%s%s", kube->api, kube->path);
	kube->version[0] = '\0';
	all = http_ask(&kube->http, url, NULL, &code);
	if (!all)
		return code == 200 ? CLI_USAGE : CLI_FAILED;
	items = json_object_get(all, "items");
	version = text_of(json_object_get(all, "metadata"), "resourceVersion");
	rest = text_of(json_object_get(all, "metadata"), "continue");
	if (!json_is_array(items) || !version || strlen(version) >= sizeof(kube->version) ||
	    version[strspn(version, "0123456789")])
		status = cli_usage(s->cli, "this is not a list of EndpointSlices");
	else if (rest && *rest)
		status = cli_usage(s->cli, "its answer is not whole");
	else
		status = take_slices(s, answer, items, "IPv4");
	if (!status)
		status = take_slices(s, answer, items, "IPv6");
	if (!status)
		strcpy(kube->version, version);
	json_decref(all);
	return status;
}

static void kube_wait(struct source *s, int ms)
{
	struct kube *kube = s->data;
	char url[800];

	snprintf(url, sizeof(url), "%s%s&watch=true&resourceVersion=%s&timeoutSeconds=%d", kube->api, kube->path,
		 kube->version, WATCH_SECONDS);
	if (kube->version[0])
		http_watch(&kube->http, url, NULL);
	http_wait(&kube->http, ms);
}

static void kube_close(struct source *s)
{
	struct kube *kube = s->data;

	if (!kube)
		return;
	http_close(&kube->http);
	free(kube);
}

const struct source_kind source_kube = { "kube", kube_open, kube_read, kube_wait, kube_close };
