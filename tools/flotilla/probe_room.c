// SPDX-License-Identifier: GPL-2.0
/* Questions about our own rooms; one that is built later adds its line here. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <afpa.h>
#include <flotilla/handoff.h>
#include "cli.h"
#include "probe.h"

static enum verdict floor_answer(char *reason, size_t size)
{
	struct flt_local_info local;
	struct flt_client *c;
	char addr[64];
	int err;

	err = flt_client_open(&c);
	if (err == -ENOENT) {
		snprintf(reason, size, "flotilla.ko is not loaded: modprobe flotilla");
		return PROBE_NO;
	}
	if (err) {
		snprintf(reason, size, "no netlink socket: %s", strerror(-err));
		return PROBE_UNKNOWN;
	}
	err = flt_local_get(c, &local);
	if (err)
		snprintf(reason, size, "loaded, but: %s", flt_client_error(c));
	else if (local.name[0])
		snprintf(reason, size, "this node is %s at %s port %u", local.name,
			 address_text(&local.addr, addr, sizeof(addr)), address_port(&local.addr));
	else
		snprintf(reason, size, "loaded; this node has no name yet: flotilla local set");
	flt_client_close(c);
	return PROBE_YES;
}

/* "yes" is what an operator wants: nobody speaks for a node who has not proven to be it. */
static enum verdict trust_answer(char *reason, size_t size)
{
	struct flt_local_info local;
	struct flt_client *c;
	int err;

	err = flt_client_open(&c);
	if (err) {
		snprintf(reason, size, err == -ENOENT ? "flotilla.ko is not loaded" :
			 "no netlink socket");
		return err == -ENOENT ? PROBE_NO : PROBE_UNKNOWN;
	}
	err = flt_local_get(c, &local);
	flt_client_close(c);
	if (err) {
		snprintf(reason, size, "this node cannot be asked");
		return PROBE_UNKNOWN;
	}
	if (local.insecure) {
		snprintf(reason, size, "%s: flotilla local set insecure off", INSECURE_IS_ON);
		return PROBE_NO;
	}
	snprintf(reason, size, "connections are given and taken over authenticated links only");
	return PROBE_YES;
}

static enum verdict class_answer(char *reason, size_t size)
{
	char policy[64];
	int err;

	err = flt_dispatch_get("policy", policy, sizeof(policy));
	if (!err) {
		snprintf(reason, size, "policy %s", policy);
		return PROBE_YES;
	}
	if (err == -ENOENT)
		snprintf(reason, size, "flotilla.ko is not loaded, or /sys shows another network namespace");
	else
		snprintf(reason, size, "%s", strerror(-err));
	return err == -ENOENT ? PROBE_NO : PROBE_UNKNOWN;
}

static void feature_list(__u32 features, char *text, size_t size)
{
	static const struct {
		__u32 bit;
		const char *name;
	} names[] = {
		{ HOF_FEATURE_IPV6, " ipv6" },
		{ HOF_FEATURE_ENCAP, " encapsulation" },
		{ HOF_FEATURE_HALFCLOSED, " half-closed" },
		{ HOF_FEATURE_SENDQUEUE, " unacknowledged-data" },
	};
	size_t i, len = strlen(text);

	for (i = 0; i < ARRAY_SIZE(names) && len < size; i++)
		if (features & names[i].bit)
			len += snprintf(text + len, size - len, "%s", names[i].name);
}

static enum verdict handoff_answer(char *reason, size_t size)
{
	struct hof_info info = { 0 };
	enum verdict verdict = PROBE_UNKNOWN;
	int fd;

	fd = open(HOF_DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENXIO || errno == ENODEV)) {
		snprintf(reason, size, "no %s: handoff.ko is not loaded: modprobe handoff",
			 HOF_DEVICE);
		return PROBE_NO;
	}
	if (fd < 0) {
		snprintf(reason, size, "%s: %s", HOF_DEVICE, strerror(errno));
		return verdict;
	}
	if (ioctl(fd, HOF_IOC_INFO, &info) < 0) {
		snprintf(reason, size, "%s: %s", HOF_DEVICE, strerror(errno));
	} else if (info.version != HOF_VERSION) {
		snprintf(reason, size, "%s speaks version %u, this program %u", HOF_DEVICE,
			 info.version, HOF_VERSION);
		verdict = PROBE_NO;
	} else {
		snprintf(reason, size, "version %u:", info.version);
		feature_list(info.features, reason, size);
		verdict = PROBE_YES;
	}
	close(fd);
	return verdict;
}

static enum verdict afpa_answer(char *reason, size_t size)
{
	struct afpa_info info;
	int dev = afpa_open(), err;

	if (dev == -ENOENT || dev == -ENXIO || dev == -ENODEV) {
		snprintf(reason, size, "no %s: afpa.ko is not loaded: modprobe afpa", AFPA_DEVICE);
		return PROBE_NO;
	}
	err = dev < 0 ? dev : afpa_info(dev, &info);
	if (dev >= 0)
		close(dev);
	if (err) {
		snprintf(reason, size, "%s: %s", AFPA_DEVICE, strerror(-err));
		return PROBE_UNKNOWN;
	}
	snprintf(reason, size, "mode %s, %u sites, %llu objects", afpa_mode_name(info.mode), info.sites,
		 (unsigned long long)info.objects);
	return info.mode == AFPA_MODE_OFF ? PROBE_NO : PROBE_YES;
}

static enum verdict lardd_answer(char *reason, size_t size)
{
	struct sockaddr_un addr = { AF_UNIX, "/run/flotilla/lardd.sock" };
	int fd, err;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	err = fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) ? errno : 0;
	if (fd >= 0)
		close(fd);
	if (!err)
		snprintf(reason, size, "listens on %s", addr.sun_path);
	else if (err == ENOENT || err == ECONNREFUSED)
		snprintf(reason, size, "no dispatcher runs on this machine (only a front-end needs one)");
	else if (err == EAGAIN)
		snprintf(reason, size, "who listens on %s does not answer", addr.sun_path);
	else
		snprintf(reason, size, "%s: %s", addr.sun_path, strerror(err));
	return !err ? PROBE_YES : err == EACCES || err == EPERM ? PROBE_UNKNOWN : PROBE_NO;
}

const struct probe room_probes[] = {
	{ "flotilla", "node table, links, counters, events", floor_answer },
	{ "trust", "connections come from nodes that have proven who they are", trust_answer },
	{ "dispatch", "policy as sysfs attributes", class_answer },
	{ "handoff", "established connections move between nodes", handoff_answer },
	{ "afpa", "the kernel answers HTTP requests by itself", afpa_answer },
	{ "lardd", "the dispatcher daemon", lardd_answer },
	{ 0 }
};
