// SPDX-License-Identifier: GPL-2.0
/* What the kernel says of this machine's network; see machine.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if_arp.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "cli.h"
#include "machine.h"

/* The most that the kernel puts into one message of a dump. */
#define DUMP_SIZE	32768

bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a->ss_family == AF_INET6 && !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
}

bool is_any_address(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr == INADDR_ANY;
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static const void *bytes_of(const struct sockaddr_storage *ss, size_t *size)
{
	if (ss->ss_family == AF_INET) {
		*size = sizeof(struct in_addr);
		return &((const struct sockaddr_in *)ss)->sin_addr;
	}
	*size = sizeof(struct in6_addr);
	return &((const struct sockaddr_in6 *)ss)->sin6_addr;
}

static void address_from(struct sockaddr_storage *ss, int family, const void *bytes)
{
	memset(ss, 0, sizeof(*ss));
	ss->ss_family = family;
	if (family == AF_INET)
		memcpy(&((struct sockaddr_in *)ss)->sin_addr, bytes, sizeof(struct in_addr));
	else
		memcpy(&((struct sockaddr_in6 *)ss)->sin6_addr, bytes, sizeof(struct in6_addr));
}

/* One request and its answer; 0 or a negative errno. */
static int ask(int bus, struct nlmsghdr *request, mnl_cb_t fn, void *arg)
{
	char *buffer = malloc(DUMP_SIZE);
	struct mnl_socket *nl = mnl_socket_open2(bus, SOCK_CLOEXEC);
	int got = buffer && nl && !mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) ? MNL_CB_OK : MNL_CB_ERROR;
	int err;
	ssize_t n;

	request->nlmsg_seq = time(NULL);
	if (got == MNL_CB_OK && mnl_socket_sendto(nl, request, request->nlmsg_len) < 0)
		got = MNL_CB_ERROR;
	while (got == MNL_CB_OK) {
		n = mnl_socket_recvfrom(nl, buffer, DUMP_SIZE);
		got = n < 0 ? MNL_CB_ERROR :
		      mnl_cb_run(buffer, n, request->nlmsg_seq, mnl_socket_get_portid(nl), fn, arg);
		if (got == MNL_CB_OK && !(request->nlmsg_flags & NLM_F_DUMP))
			break;
	}
	err = got == MNL_CB_ERROR ? -errno : 0;
	if (nl)
		mnl_socket_close(nl);
	free(buffer);
	return err;
}

static int eat_route(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
	struct route *route = arg;
	const struct nlattr *attr;

	route->type = rtm->rtm_type;
	mnl_attr_for_each(attr, nlh, sizeof(*rtm)) {
		size_t size = mnl_attr_get_payload_len(attr);

		if (mnl_attr_get_type(attr) == RTA_OIF && size == sizeof(uint32_t))
			if_indextoname(mnl_attr_get_u32(attr), route->device);
		if (mnl_attr_get_type(attr) == RTA_GATEWAY &&
		    size == (rtm->rtm_family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr)))
			address_from(&route->gateway, rtm->rtm_family, mnl_attr_get_payload(attr));
	}
	return MNL_CB_OK;
}

int machine_route(const struct sockaddr_storage *to, struct route *route)
{
	char buffer[256] __attribute__((aligned(8)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);
	struct rtmsg *rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rtm));
	const void *bytes;
	size_t size;

	*route = (struct route){ 0 };
	bytes = bytes_of(to, &size);
	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	rtm->rtm_family = to->ss_family;
	rtm->rtm_dst_len = size * 8;
	mnl_attr_put(nlh, RTA_DST, size, bytes);
	return ask(NETLINK_ROUTE, nlh, eat_route, route);
}

static int eat_default(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
	struct route *route = arg;

	/* Of several the kernel lists the preferred one first. */
	if (!rtm->rtm_dst_len && rtm->rtm_table == RT_TABLE_MAIN && rtm->rtm_type == RTN_UNICAST && !route->type)
		eat_route(nlh, route);
	return MNL_CB_OK;
}

int machine_default_route(int family, struct route *route)
{
	char buffer[256] __attribute__((aligned(8)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);
	struct rtmsg *rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rtm));
	int err;

	*route = (struct route){ 0 };
	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	rtm->rtm_family = family;
	err = ask(NETLINK_ROUTE, nlh, eat_default, route);
	return err ? err : route->type ? 0 : -ENETUNREACH;
}

struct listeners {
	machine_listener_fn fn;
	void *arg;
};

static void tell_listener(const struct listeners *l, int family, const void *bytes, in_port_t port)
{
	struct sockaddr_storage at;

	address_from(&at, family, bytes);
	((struct sockaddr_in *)&at)->sin_port = port;	/* where IPv6 has it, too */
	l->fn(&at, l->arg);
}

static bool takes_ipv4(const struct nlmsghdr *nlh)
{
	const struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, sizeof(struct inet_diag_msg))
		if (mnl_attr_get_type(attr) == INET_DIAG_SKV6ONLY && mnl_attr_get_payload_len(attr) == 1)
			return !mnl_attr_get_u8(attr);
	return false;
}

static int eat_listener(const struct nlmsghdr *nlh, void *arg)
{
	const struct inet_diag_msg *msg = mnl_nlmsg_get_payload(nlh);
	const struct listeners *l = arg;
	struct in6_addr address;

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*msg) ||
	    (msg->idiag_family != AF_INET && msg->idiag_family != AF_INET6))
		return MNL_CB_OK;
	tell_listener(l, msg->idiag_family, msg->id.idiag_src, msg->id.idiag_sport);
	if (msg->idiag_family == AF_INET)
		return MNL_CB_OK;
	memcpy(&address, msg->id.idiag_src, sizeof(address));
	if (IN6_IS_ADDR_V4MAPPED(&address) || (IN6_IS_ADDR_UNSPECIFIED(&address) && takes_ipv4(nlh)))
		tell_listener(l, AF_INET, &address.s6_addr[12], msg->id.idiag_sport);
	return MNL_CB_OK;
}

int machine_listeners(int family, machine_listener_fn fn, void *arg)
{
	char buffer[256] __attribute__((aligned(8)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);
	struct inet_diag_req_v2 *req = mnl_nlmsg_put_extra_header(nlh, sizeof(*req));
	struct listeners l = { fn, arg };

	nlh->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	req->sdiag_family = family;
	req->sdiag_protocol = IPPROTO_TCP;
	req->idiag_states = 1 << TCP_LISTEN;
	return ask(NETLINK_SOCK_DIAG, nlh, eat_listener, &l);
}

bool machine_has(const struct sockaddr_storage *address, char device[IF_NAMESIZE], bool *up)
{
	struct ifaddrs *all, *i;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (i = all; i && !found; i = i->ifa_next) {
		struct sockaddr_storage here = { 0 };

		if (!i->ifa_addr || i->ifa_addr->sa_family != address->ss_family)
			continue;
		memcpy(&here, i->ifa_addr, address->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
		       sizeof(struct sockaddr_in6));
		found = same_address(&here, address);
		if (found) {
			snprintf(device, IF_NAMESIZE, "%s", i->ifa_name);
			/* The part before a colon is an interface, the rest an old-fashioned label. */
			device[strcspn(device, ":")] = '\0';
			*up = i->ifa_flags & IFF_UP;
		}
	}
	freeifaddrs(all);
	return found;
}

bool machine_speaks_arp(const char *device)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq hardware = { 0 }, flags = { 0 };
	bool speaks;

	snprintf(hardware.ifr_name, sizeof(hardware.ifr_name), "%s", device);
	snprintf(flags.ifr_name, sizeof(flags.ifr_name), "%s", device);
	speaks = fd >= 0 && !ioctl(fd, SIOCGIFHWADDR, &hardware) && hardware.ifr_hwaddr.sa_family == ARPHRD_ETHER &&
		 !ioctl(fd, SIOCGIFFLAGS, &flags) && !(flags.ifr_flags & (IFF_LOOPBACK | IFF_NOARP));
	if (fd >= 0)
		close(fd);
	return speaks;
}

unsigned int machine_mtu(const char *device)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq asked = { 0 };
	unsigned int mtu = 0;

	snprintf(asked.ifr_name, sizeof(asked.ifr_name), "%s", device);
	if (fd >= 0 && !ioctl(fd, SIOCGIFMTU, &asked))
		mtu = asked.ifr_mtu;
	if (fd >= 0)
		close(fd);
	return mtu;
}

bool first_line(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(text, size, f);

	if (f)
		fclose(f);
	if (ok)
		text[strcspn(text, "\n")] = '\0';
	return ok;
}

bool machine_has_program(const char *name)
{
	static const char * const places[] = { "/usr/local/sbin", "/usr/sbin", "/usr/bin" };
	char path[256];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s/%s", places[i], name);
		if (!access(path, X_OK))
			return true;
	}
	return false;
}

bool machine_sysctl(const char *path, long *value)
{
	char full[256], text[32], *end;

	snprintf(full, sizeof(full), "/proc/sys/%s", path);
	if (!first_line(full, text, sizeof(text)))
		return false;
	*value = strtol(text, &end, 10);
	return end != text;
}

long machine_ipv4_conf(const char *device, const char *name)
{
	char path[128];
	long all = 0, one = 0;

	snprintf(path, sizeof(path), "net/ipv4/conf/all/%s", name);
	machine_sysctl(path, &all);
	snprintf(path, sizeof(path), "net/ipv4/conf/%s/%s", device, name);
	machine_sysctl(path, &one);
	return all > one ? all : one;
}
