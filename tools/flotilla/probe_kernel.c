// SPDX-License-Identifier: GPL-2.0
/* Questions about the kernel under us: what its rooms rest on. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/genetlink.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "cli.h"
#include "machine.h"
#include "probe.h"

static enum verdict kernel_answer(char *reason, size_t size)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	if (sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	    (major > 6 || (major == 6 && minor >= 12))) {
		snprintf(reason, size, "Linux %s", u.release);
		return PROBE_YES;
	}
	snprintf(reason, size, "Linux %s is older than 6.12, the oldest that is supported",
		 u.release);
	return PROBE_NO;
}

/* What DKMS signs with, and the keys that the machine's firmware has been told to trust. */
#define DKMS_KEY "/var/lib/dkms/mok.pub"
#define ENROLLED_KEYS \
	"/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"

static size_t contents(const char *path, char *data, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t len = f ? fread(data, 1, size, f) : 0;

	if (f)
		fclose(f);
	return len;
}

static enum verdict signed_answer(char *reason, size_t size)
{
	static char key[8192], keys[65536];
	size_t key_len = contents(DKMS_KEY, key, sizeof(key));
	size_t len = contents(ENROLLED_KEYS, keys, sizeof(keys));

	if (key_len && memmem(keys, len, key, key_len)) {
		snprintf(reason, size, "only signed modules load here; DKMS's key is enrolled");
		return PROBE_YES;
	}
	if (key_len)
		snprintf(reason, size,
			 "only signed modules load here, and DKMS's key is not enrolled: mokutil --import %s, then boot and confirm it",
			 DKMS_KEY);
	else
		snprintf(reason, size,
			 "only signed modules load here, and DKMS has no key yet (%s): install flotilla-dkms, or sign with a key that is enrolled",
			 DKMS_KEY);
	return PROBE_UNKNOWN;
}

static enum verdict loading_answer(char *reason, size_t size)
{
	char text[128];

	if (access("/proc/modules", F_OK)) {
		snprintf(reason, size, "this kernel is built without loadable modules");
		return PROBE_NO;
	}
	if (first_line("/proc/sys/kernel/modules_disabled", text, sizeof(text)) && text[0] == '1') {
		snprintf(reason, size, "loading is off until the next boot (kernel.modules_disabled)");
		return PROBE_NO;
	}
	if ((first_line("/sys/module/module/parameters/sig_enforce", text, sizeof(text)) &&
	     text[0] == 'Y') ||
	    (first_line("/sys/kernel/security/lockdown", text, sizeof(text)) &&
	     !strstr(text, "[none]")))
		return signed_answer(reason, size);
	snprintf(reason, size, "unsigned modules may be loaded");
	return PROBE_YES;
}

static enum verdict admin_answer(char *reason, size_t size)
{
	unsigned long long effective = 0;
	char text[128];
	FILE *f;

	f = fopen("/proc/self/status", "re");
	while (f && fgets(text, sizeof(text), f))
		if (sscanf(text, "CapEff: %llx", &effective) == 1)
			break;
	if (f)
		fclose(f);
	if (effective & 1ULL << CAP_NET_ADMIN) {
		snprintf(reason, size, "this process may change the tables");
		return PROBE_YES;
	}
	snprintf(reason, size, "without CAP_NET_ADMIN nodes and connections are only read");
	return PROBE_NO;
}

static enum verdict netfilter_answer(char *reason, size_t size)
{
	if (access("/proc/sys/net/netfilter", F_OK)) {
		snprintf(reason, size, "no netfilter in this kernel: clients' packets cannot be forwarded");
		return PROBE_NO;
	}
	snprintf(reason, size, "forwarding runs before connection tracking%s",
		 access("/proc/sys/net/netfilter/nf_conntrack_max", F_OK) ? "" :
		 " (which is loaded)");
	return PROBE_YES;
}

static int family_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID &&
		    mnl_attr_validate(attr, MNL_TYPE_U16) >= 0)
			*(int *)arg = mnl_attr_get_u16(attr);
	return MNL_CB_OK;
}

int probe_family(const char *name)
{
	_Alignas(struct nlmsghdr) char buffer[8192];
	struct mnl_socket *nl = mnl_socket_open(NETLINK_GENERIC);
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);
	struct genlmsghdr *genl;
	int id = -ENOENT;
	ssize_t len;

	if (!nl)
		return -errno;
	nlh->nlmsg_type = GENL_ID_CTRL;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = CTRL_CMD_GETFAMILY;
	genl->version = 1;
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, name);
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) > 0) {
		len = mnl_socket_recvfrom(nl, buffer, sizeof(buffer));
		if (len > 0 && mnl_cb_run(buffer, len, 0, 0, family_message, &id) < 0)
			id = -errno;
	}
	mnl_socket_close(nl);
	return id;
}

/* Whether a process of that name runs in this process namespace. */
static bool is_running(const char *name)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	while (proc && !found && (entry = readdir(proc))) {
		char path[300], comm[32];

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		found = first_line(path, comm, sizeof(comm)) && !strcmp(comm, name);
	}
	if (proc)
		closedir(proc);
	return found;
}

static enum verdict tlshd_answer(char *reason, size_t size)
{
	if (probe_family("handshake") < 0) {
		snprintf(reason, size, "this kernel has no TLS handshake upcall (CONFIG_NET_HANDSHAKE)");
		return PROBE_NO;
	}
	if (!is_running("tlshd")) {
		snprintf(reason, size, "tlshd %s: links with auth psk or x509 cannot come up; %s",
			 machine_has_program("tlshd") ? "does not run" : "is not installed",
			 machine_has_program("tlshd") ? "systemctl enable --now tlshd" :
			 "package ktls-utils, or, on Debian 12, make deps-node");
		return PROBE_NO;
	}
	snprintf(reason, size, "tlshd runs");
	return PROBE_YES;
}

static enum verdict bpf_answer(char *reason, size_t size)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4,
				.max_entries = 1 };
	long fd = syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));

	if (fd < 0 && errno == ENOSYS) {
		snprintf(reason, size, "no bpf(2) in this kernel");
		return PROBE_NO;
	}
	if (fd < 0) {
		snprintf(reason, size, "bpf(2): %s", strerror(errno));
		return errno == EPERM ? PROBE_UNKNOWN : PROBE_NO;
	}
	close(fd);
	if (access("/sys/kernel/btf/vmlinux", R_OK)) {
		snprintf(reason, size, "bpf(2) works, but without BTF programs cannot be relocated");
		return PROBE_NO;
	}
	snprintf(reason, size, "bpf(2) works, with BTF");
	return PROBE_YES;
}

static enum verdict fou_answer(char *reason, size_t size)
{
	if (probe_family("fou") >= 0) {
		snprintf(reason, size, "fou is loaded");
		return PROBE_YES;
	}
	snprintf(reason, size, "fou is not loaded: modprobe fou (only for nodes with forward udp)");
	return PROBE_NO;
}

static enum verdict tracing_answer(char *reason, size_t size)
{
	if (!access("/sys/kernel/tracing/events/flotilla", F_OK)) {
		snprintf(reason, size, "/sys/kernel/tracing/events/{flotilla,handoff}");
		return PROBE_YES;
	}
	if (access("/sys/kernel/tracing/events", F_OK)) {
		snprintf(reason, size, "tracefs is not mounted on /sys/kernel/tracing, or may not be read");
		return PROBE_UNKNOWN;
	}
	snprintf(reason, size, "no events of ours: flotilla.ko is not loaded");
	return PROBE_NO;
}

const struct probe kernel_probes[] = {
	{ "kernel", "a version that is supported", kernel_answer },
	{ "loading", "modules may be loaded", loading_answer },
	{ "net-admin", "this process may change things", admin_answer },
	{ "netfilter", "forwarding of clients' packets", netfilter_answer },
	{ "tlshd", "authenticated links", tlshd_answer },
	{ "bpf", "counting programs of bench/count", bpf_answer },
	{ "fou", "forwarding in UDP", fou_answer },
	{ "tracepoints", "an event at each decision", tracing_answer },
	{ 0 }
};
