// SPDX-License-Identifier: GPL-2.0
/* A small HTTP service on an address of its own. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "page.h"
#include "takeover.h"
#include "worker.h"

#define REQUEST_MAX	4096
#define CLIENTS_MAX	32
#define OTHER_HOST	"ask for this page by an address, as localhost or by the name of this machine\n"

bool page_is(const struct request *r, const char *path)
{
	size_t len = strlen(path);

	return r->target.len >= len && !memcmp(r->target.at, path, len) &&
	       (r->target.len == len || r->target.at[len] == '?');
}

void page_answer(struct page_visitor *v, const struct request *r, const char *status,
		 const char *type, const char *fields, const char *body, size_t len)
{
	struct visitor *visitor = &v->visitor;
	FILE *out = open_memstream(&visitor->out, &visitor->out_len);

	if (!out)
		return;
	fprintf(out, "HTTP/1.1 %s\r\nContent-Type: %s\r\n%sConnection: close\r\n", status, type,
		fields);
	if (!v->stream)
		fprintf(out, "Content-Length: %zu\r\n", len);
	fputs("\r\n", out);
	if (body && !r->head)
		fwrite(body, 1, len, out);
	if (fclose(out)) {
		free(visitor->out);
		visitor->out = NULL;
	}
}

/* Without its port. */
static struct span host_alone(struct span host)
{
	const char *end = host.at + host.len, *at = end;

	while (at > host.at && at[-1] >= '0' && at[-1] <= '9')
		at--;
	if (at > host.at && at[-1] == ':' && !(*host.at != '[' && memchr(host.at, ':', at - 1 - host.at)))
		host.len = at - 1 - host.at;
	return host;
}

/*
 * A name that somebody else may lead here (DNS rebinding) would make this a page of his site, which his scripts may
 * read. A browser always says whom it asks; who says nothing is none.
 */
static bool asks_us(struct span host)
{
	char text[INET6_ADDRSTRLEN + 2], own[256] = "";
	struct in6_addr any;

	host = host_alone(host);
	if (!host.len || span_is(host, "localhost"))
		return true;
	if (!gethostname(own, sizeof(own) - 1) && span_is(host, own))
		return true;
	if (host.len >= sizeof(text))
		return false;
	memcpy(text, host.at, host.len);
	text[host.len] = '\0';
	if (*text != '[')
		return inet_pton(AF_INET, text, &any) == 1;
	if (text[host.len - 1] != ']')
		return false;
	text[host.len - 1] = '\0';
	return inet_pton(AF_INET6, text + 1, &any) == 1;
}

static void read_request(struct page_visitor *v)
{
	static struct request r;	/* worker 0 only; spans are used before it returns */
	struct visitor *visitor = &v->visitor;
	struct pages *pages = container_of(visitor->service, struct pages, service);
	char text[REQUEST_MAX];
	ssize_t n = recv(visitor->source.fd, text, sizeof(text), MSG_PEEK);
	int verdict = n > 0 ? request_parse(&r, text, n, NULL) : 0;

	if (n < 0 && errno == EAGAIN)
		return;
	visitor_heard(visitor);
	if (verdict > 0) {
		recv(visitor->source.fd, NULL, r.length, MSG_TRUNC);
		if (!pages->of_ours || asks_us(r.host))
			pages->answer(pages, v, &r);
		else
			page_answer(v, &r, "421 Misdirected Request", "text/plain", "", OTHER_HOST,
				    sizeof(OTHER_HOST) - 1);
	}
	if (n <= 0 || verdict < 0 || (!verdict && n == sizeof(text)) ||
	    (verdict > 0 && !visitor->out))
		visitor_close(visitor);
}

/* Who is told something has nothing to say himself: little of it is let pass, and once a turn. */
static void read_nothing(struct page_visitor *v)
{
	struct visitor *visitor = &v->visitor;
	char text[REQUEST_MAX];
	ssize_t n;

	do {
		n = recv(visitor->source.fd, text, sizeof(text), 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return;
	v->said += n > 0 ? n : 0;
	if (n > 0 && v->said <= REQUEST_MAX)
		loop_again(visitor->service->loop, &visitor->source);
	else
		visitor_close(visitor);
}

static void client_ready(struct source *s, uint32_t events)
{
	struct visitor *visitor = container_of(s, struct visitor, source);
	struct page_visitor *v = container_of(visitor, struct page_visitor, visitor);

	(void)events;
	if (v->stream)
		read_nothing(v);
	else if (!visitor->out)
		read_request(v);
	if (s->fd >= 0 && visitor->out && visitor_write(visitor) > 0 && !v->stream)
		visitor_close(visitor);
}

int pages_open(struct pages *pages, struct lardd *lardd, const union address *address, char *error,
	       size_t size)
{
	char text[ADDRESS_TEXT];
	int fd, on = 1, err = 0;

	pages->lardd = lardd;
	pages->service.max = pages->service.max ? pages->service.max : CLIENTS_MAX;
	pages->service.size = sizeof(struct page_visitor);
	pages->service.ready = client_ready;
	pages->address = *address;
	fd = takeover_take(lardd->takeover, address);
	if (fd < 0) {
		fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd >= 0)
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		err = fd < 0 || bind(fd, &address->any, address_len(address)) ? -errno : 0;
	}
	if (!err)
		err = service_open(&pages->service, lardd->worker[0], fd);
	if (!err)
		return 0;
	snprintf(error, size, "cannot listen on %s for the %s: %s",
		 address_text(address, text, sizeof(text)), pages->what, strerror(-err));
	if (fd >= 0)
		close(fd);
	return err;
}

int pages_socket(const struct pages *pages, union address *address)
{
	if (!pages)
		return -1;
	*address = pages->address;
	return pages->service.source.fd;
}

void pages_deafen(struct pages *pages)
{
	struct list *at, *next;

	if (!pages)
		return;
	service_deafen(&pages->service);
	/* Who is told what happens comes again, and finds the successor. */
	for (at = pages->service.visitors.next; at != &pages->service.visitors; at = next) {
		struct visitor *visitor = container_of(at, struct visitor, link);

		next = at->next;
		if (container_of(visitor, struct page_visitor, visitor)->stream)
			visitor_close(visitor);
	}
}

void pages_close(struct pages *pages)
{
	if (pages)
		service_close(&pages->service);
}
