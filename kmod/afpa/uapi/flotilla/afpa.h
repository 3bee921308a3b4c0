/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * /dev/afpa: the kernel answers HTTP requests whose answers it has been given.
 *
 * A web server listens on 0.0.0.0:80 as ever.  Its administrator lets the kernel answer there,
 * and a program puts what the kernel may answer with:
 *
 *	struct afpa_site site = { .family = AF_INET, .port = htons(80) };
 *	struct afpa_site_args add = { .size = sizeof(add), .site = site };
 *	ioctl(dev, AFPA_IOC_SITE_ADD, &add);
 *
 *	struct afpa_put put = {
 *		.size = sizeof(put), .site = site,
 *		.host = (__u64)"www.example.org", .host_len = 15,
 *		.path = (__u64)"/logo.svg", .path_len = 9,
 *		.type = (__u64)"image/svg+xml", .type_len = 13,
 *		.body = (__u64)logo, .body_len = logo_size };
 *	ioctl(dev, AFPA_IOC_PUT, &put);
 *
 * From then on a GET or HEAD of that host and path is answered where its last packet arrives.  All
 * other requests go to the server: the bytes, the addresses and the options of the connection are
 * those that it would have seen without the kernel's help.
 *
 * - An object is copied when it is put; the caller's memory is not used afterwards.  A second PUT
 *   of the same host and path replaces the object as a whole: a request gets the old one or the
 *   new one, and after the call returned only the new one.
 * - Once a program has read from a connection or written to it, the kernel does not answer on that
 *   connection any more: what the program has still to answer must come first.
 * - The kernel answers on connections that the server has accepted; what arrived before is
 *   answered in the server's accept(2), which returns a connection without bytes to read.
 * - A request is answered if it came as a whole within AFPA_REQUEST_MAX bytes; as long as it may
 *   become such a request its first bytes wake nobody.
 * - A listener that opens later on the address of a site is found within some seconds, or by
 *   another AFPA_IOC_SITE_ADD of the same site.
 *
 * A descriptor that AFPA_IOC_NODE has given the name of another node speaks to that node's cache:
 * the calls about objects are then carried out there, over the link between the nodes.
 *
 * Requests that were answered are read as records from a file that AFPA_IOC_LOG has made the
 * access log.
 *
 * Sites and objects belong to the network namespace that the device was opened in, and go with
 * it, with AFPA_IOC_SITE_DEL, or with the module.  Closing the device changes nothing but the log.
 * All calls but AFPA_IOC_INFO, _QUERY, _NEXT, _NEXT_SITE, _PROTOCOL, _EXPLAIN and, to ask, _POLICY
 * and _REMOTE take CAP_NET_ADMIN in the user namespace that owns that network namespace (EPERM).
 * The module can be unloaded at any time but while an answer is being sent (EBUSY);
 * AFPA_IOC_SITE_DEL ends those.
 *
 * Each structure begins with its size; a larger one with bytes that are not zero where this kernel
 * knows of none is refused with E2BIG, a smaller one with EINVAL.  Unknown flags: EOPNOTSUPP.
 */
#ifndef _UAPI_FLOTILLA_AFPA_H
#define _UAPI_FLOTILLA_AFPA_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define AFPA_DEVICE	"/dev/afpa"
#define AFPA_VERSION	1

/* Longest request, from the method to the empty line, in bytes. */
#define AFPA_REQUEST_MAX	8192
/* Longest host, path, content type and other headers of an object, in bytes. */
#define AFPA_HOST_MAX		255
#define AFPA_PATH_MAX		2048
#define AFPA_TYPE_MAX		127
#define AFPA_HEADERS_MAX	2048
/* All tags of an object, with the spaces between them, in bytes. */
#define AFPA_TAGS_MAX		1024
/* Of a request in the access log, the rest is cut off, in bytes. */
#define AFPA_LOG_REQUEST	2048
/* Room for records that nobody has read yet, in bytes. */
#define AFPA_LOG_LEAST		(1U << 16)
#define AFPA_LOG_MOST		(1U << 26)

/**
 * struct afpa_site - where requests come in
 * @family: AF_INET or AF_INET6
 * @port:   TCP port in network order, not 0
 * @addr:   the address that listeners are bound to, as bind(2) was given it: the first four bytes
 *	    for AF_INET, the rest zero; all zero for the wildcard address
 *
 * Listeners with SO_BINDTODEVICE, those of a VRF among them, are of no site: two of them may have
 * the same address, and different pages.
 */
struct afpa_site {
	__u16 family;
	__be16 port;
	__u8 addr[16];
};

/**
 * struct afpa_site_args - argument of AFPA_IOC_SITE_ADD, _SITE_DEL and _FLUSH
 * @size:      sizeof(struct afpa_site_args)
 * @flags:     0; AFPA_IOC_FLUSH: AFPA_ALL_SITES, then @site is ignored
 * @site:      which one
 * @listeners: out: SITE_ADD: listeners of the address that are answered for now
 * @refused:   out: SITE_ADD: those that cannot be
 * @error:     out: SITE_ADD: errno of the last of these; EOPNOTSUPP: it is MPTCP, has kTLS, or
 *	       somebody's callbacks; EBUSY: its program keeps it locked (tried again later)
 * @objects:   out: SITE_DEL, FLUSH: objects that were dropped
 *
 * SITE_ADD of a site that is there looks for new listeners.  No listener yet is not an error.  Of
 * very many it takes the first ones, and the others within some seconds.
 * Errors: EINVAL (family, port, address), ENOMEM, ENOSPC (too many sites).
 *
 * SITE_DEL drops the site's objects, leaves its connections to the server, and resets those in the
 * midst of an answer; it waits for no client.  FLUSH drops the objects only.  Errors: ENOENT.
 */
struct afpa_site_args {
	__u32 size;
	__u32 flags;
	struct afpa_site site;
	__u32 listeners;
	__u32 refused;
	__u32 error;
	__u64 objects;
};

#define AFPA_ALL_SITES	(1U << 0)

#define AFPA_PROTOCOL_NAME	16

/**
 * struct afpa_listen - argument of AFPA_IOC_LISTEN and _PROTOCOL
 * @size:      sizeof(struct afpa_listen)
 * @flags:     0
 * @site:      which one
 * @listeners: out: LISTEN: as in struct afpa_site_args
 * @refused:   the same
 * @error:     the same
 * @protocol:  LISTEN: in; PROTOCOL: out: its name with a zero byte: "http", "memcached"
 *
 * LISTEN is AFPA_IOC_SITE_ADD for a protocol, and SITE_ADD is LISTEN for HTTP (of a site that is
 * there: for what it has). A protocol that is not loaded is for a caller with CAP_NET_ADMIN on the
 * machine asked of modprobe as afpa-protocol-NAME. Its module stays as long as a site or
 * connections of it are there: rmmod says EBUSY. PROTOCOL tells that of a site, as AFPA_IOC_INFO
 * does to anybody who may open the device.
 *
 * With "memcached" an object's path is a slash and the key, its host is "*", its type the client's
 * flags as a decimal number or nothing, and it has no headers.
 *
 * Errors: as SITE_ADD; EPROTONOSUPPORT (no such protocol), EINVAL (nor could there be), EEXIST (the
 * site has another one); PROTOCOL: ENOENT (no such site).
 */
struct afpa_listen {
	__u32 size;
	__u32 flags;
	struct afpa_site site;
	__u32 listeners;
	__u32 refused;
	__u32 error;
	char protocol[AFPA_PROTOCOL_NAME];
};

/* AFPA_IOC_PUT: only where there is an object: one that was deleted does not come back (ENOENT). */
#define AFPA_PUT_UPDATE	(1U << 0)
/*
 * AFPA_IOC_PUT: what the program has from the server and can have again. When the machine is short
 * of memory such objects go first, and others only when there are no more of them.
 */
#define AFPA_PUT_AUTOMATIC	(1U << 1)
/*
 * AFPA_IOC_PUT: @age counts. The answer was that old already when the program had it, and each
 * answer with the object has a field Age (RFC 9111) that is right when it is sent. HTTP only.
 */
#define AFPA_PUT_AGED		(1U << 2)

/*
 * AFPA_IOC_PUT: @body is a descriptor, open for reading, of a regular file, all of which is the
 * body: it is not copied. While there is such an object, or an answer with it is under way, nobody
 * opens the file for writing or truncates it (ETXTBSY), so that it takes the right to write to it;
 * and its file system cannot be unmounted (EBUSY). To replace its name (rename(2)), or to unlink
 * it, does not change the object. A client that is still being sent an object that has gone is
 * reset after stall_ms. Of ext4, XFS, Btrfs, F2FS, EROFS, SquashFS and tmpfs only, and no memfd.
 * Not with "memcached".
 */
#define AFPA_PUT_FILE		(1U << 3)

/* The largest age, in seconds; what is older says so, too. */
#define AFPA_AGE_MAX		(1U << 31)

/**
 * struct afpa_put - argument of AFPA_IOC_PUT
 * @size:        sizeof(struct afpa_put)
 * @flags:       AFPA_PUT_*
 * @site:        for requests that come in here
 * @host_len:    bytes of @host
 * @path_len:    bytes of @path
 * @type_len:    bytes of @type; 0: no Content-Type
 * @headers_len: bytes of @headers
 * @ttl_ms:      lifetime in milliseconds, 0: unlimited
 * @host:        address of the host, as in Host but without a port; case does not matter; "*": any,
 *		 also none, when there is no object of the very host
 * @path:        address of the path with its query, from the slash on; compared byte by byte
 * @type:        address of the content type
 * @headers:     address of further header lines, each ended by CR LF; not Content-Length,
 *		 Connection, Date or Transfer-Encoding; with AFPA_PUT_AGED not Age
 * @body:        address of the body; AFPA_PUT_FILE: a descriptor
 * @body_len:    bytes of @body; 0 is a body, too; AFPA_PUT_FILE: 0
 * @version:     out: grows with each PUT in the namespace
 * @since:       0, or a number of AFPA_IOC_TICKET, or @version of an earlier PUT: only if it was
 *		 neither put nor deleted, and nothing banned or flushed, since then (ESTALE)
 * @tags:        address of words with spaces between them, for AFPA_IOC_BAN
 * @tags_len:    bytes of @tags
 * @age:         AFPA_PUT_AGED: seconds, at most AFPA_AGE_MAX; else 0
 *
 * Who puts what a server has answered takes a ticket before it asks: an answer that was under way
 * when the page was changed or banned does not come into the cache.
 * With AFPA_PUT_UPDATE ESTALE comes before ENOENT: so who has put an object learns of one that is
 * gone whether it was said to go, or has expired, or made room.
 *
 * The answer is 200 OK.  Errors: EINVAL (lengths, characters), ENOENT (no such site;
 * AFPA_PUT_UPDATE: or no such object, or it has expired), EFBIG (larger than max_object), ENOSPC
 * (does not fit into the budget, with everything else thrown out; or as much as the budget is
 * being put, or has been replaced or thrown out while slow clients are being sent it), EFAULT,
 * ENOMEM.  AFPA_PUT_FILE: EBADF (not open for reading), EINVAL (not a regular file, O_DIRECT, or a
 * file with holes in a tmpfs), EOPNOTSUPP (another file system), ETXTBSY (somebody has it open for
 * writing), EACCES, EPERM, EROFS (a read-only mount of a file system that others can write to).
 * After an error the object that was there stays, unless it is EFAULT because this structure cannot
 * be written to.
 */
struct afpa_put {
	__u32 size;
	__u32 flags;
	struct afpa_site site;
	__u16 host_len;
	__u16 path_len;
	__u16 type_len;
	__u16 headers_len;
	__u32 ttl_ms;
	__u64 host;
	__u64 path;
	__u64 type;
	__u64 headers;
	__u64 body;
	__u64 body_len;
	__u64 version;
	__u64 since;
	__u64 tags;
	__u32 tags_len;
	__u32 age;
};

/**
 * struct afpa_ticket - argument of AFPA_IOC_TICKET
 * @size:   sizeof(struct afpa_ticket)
 * @flags:  0
 * @ticket: out: a moment, for @since of struct afpa_put; not 0
 *
 * One may be used for several objects that were asked for after it. Errors: ENOMEM.
 */
struct afpa_ticket {
	__u32 size;
	__u32 flags;
	__u64 ticket;
};

/**
 * struct afpa_key - argument of AFPA_IOC_DEL, _QUERY, _TTL and _NEXT
 * @size:      sizeof(struct afpa_key)
 * @flags:     QUERY, TTL, NEXT: out: AFPA_PUT_AUTOMATIC, _AGED, _FILE, if it was put so; in: these
 *	       are ignored
 * @site:      as in struct afpa_put; NEXT: out
 * @host_len:  bytes of @host; NEXT: in: room at @host, out: bytes there
 * @path_len:  the same for @path
 * @host:      address of the host; "*" is that object, not any one
 * @path:      address of the path
 * @cursor:    NEXT: 0 for the first object, else as the call before left it
 * @version:   out: of the object
 * @body_len:  out: bytes of its body
 * @charged:   out: bytes that count against the budget
 * @hits:      out: requests that were answered with it
 * @age_ms:    out: since it was put
 * @left_ms:   out: until it expires; 0: never.  TTL: in: the new lifetime, from now on
 * @age:       out: AFPA_PUT_AGED: what Age says now, in seconds; else 0; in: ignored
 *
 * DEL: when it has returned, no request is answered with the object.  QUERY changes nothing, TTL
 * the lifetime and nothing else.
 * NEXT lists the objects of the namespace, in the order in which they were put.  Errors: ENOENT (no
 * such site or object, it has expired, or NEXT: there are no more), ENOSPC (NEXT: no room for host
 * or path; both lengths say what is needed), EINVAL, EFAULT.
 */
struct afpa_key {
	__u32 size;
	__u32 flags;
	struct afpa_site site;
	__u16 host_len;
	__u16 path_len;
	__u64 host;
	__u64 path;
	__u64 cursor;
	__u64 version;
	__u64 body_len;
	__u64 charged;
	__u64 hits;
	__u64 age_ms;
	__u32 left_ms;
	__u32 age;
};

/**
 * enum afpa_last - what was last said of an object
 * @AFPA_LAST_NONE:    nothing since it was put; or of one that is not there: it was never put, or
 *		       so long ago that the kernel has forgotten
 * @AFPA_LAST_DELETED: AFPA_IOC_DEL
 * @AFPA_LAST_BANNED:  AFPA_IOC_BAN
 * @AFPA_LAST_FLUSHED: AFPA_IOC_FLUSH
 * @AFPA_LAST_EXPIRED: its lifetime was over
 * @AFPA_LAST_EVICTED: it was not used of late, and the budget, or the memory of the group of
 *		       whoever put another one, was spent
 * @AFPA_LAST_SHRUNK:  the same, and the machine was short of memory
 * @AFPA_LAST_REFUSED: AFPA_IOC_PUT failed
 */
enum afpa_last {
	AFPA_LAST_NONE,
	AFPA_LAST_DELETED,
	AFPA_LAST_BANNED,
	AFPA_LAST_FLUSHED,
	AFPA_LAST_EXPIRED,
	AFPA_LAST_EVICTED,
	AFPA_LAST_SHRUNK,
	AFPA_LAST_REFUSED,
};

/* AFPA_IOC_EXPLAIN: there is an object. */
#define AFPA_EXPLAIN_THERE	(1U << 0)
/* It is a file (AFPA_PUT_FILE), and not all of its first 64 KB are in memory. */
#define AFPA_EXPLAIN_ON_DISK	(1U << 1)

/**
 * struct afpa_explain - argument of AFPA_IOC_EXPLAIN
 * @size:     sizeof(struct afpa_explain)
 * @flags:    0
 * @site:     as in struct afpa_key
 * @host_len: bytes of @host
 * @path_len: bytes of @path
 * @host:     address of the host; "*" is that object, not any one
 * @path:     address of the path
 * @state:    out: AFPA_EXPLAIN_*
 * @last:     out: enum afpa_last
 * @error:    out: AFPA_LAST_REFUSED: errno of the put: ESTALE (its ticket), EFBIG, ENOSPC; else 0
 * @pad:      0
 * @last_ms:  out: how long ago that was
 * @version:  out: of the object that is there, or else of the one that has gone, or 0
 * @hits:     out: the same
 *
 * Why is there an object, or none? The kernel remembers the last word on each of some thousand
 * keys; a put that succeeds makes it forget, and so does what is said of others. An update without
 * an object to replace (ENOENT) is not remembered, nor is EFAULT. Nothing is changed by asking.
 * Errors: ENOENT (no such site), EINVAL (@pad, lengths, characters), EFAULT, ENOMEM.
 */
struct afpa_explain {
	__u32 size;
	__u32 flags;
	struct afpa_site site;
	__u16 host_len;
	__u16 path_len;
	__u64 host;
	__u64 path;
	__u32 state;
	__u32 last;
	__u32 error;
	__u32 pad;
	__u64 last_ms;
	__u64 version;
	__u64 hits;
};

/* AFPA_IOC_BAN: objects with the tag, not those whose path begins so. */
#define AFPA_BAN_TAG	(1U << 1)

/**
 * struct afpa_ban - argument of AFPA_IOC_BAN
 * @size:     sizeof(struct afpa_ban)
 * @flags:    AFPA_ALL_SITES: @site is ignored; AFPA_BAN_TAG
 * @site:     which objects' site
 * @host_len: bytes of @host, 0: of whatever host, also "*"
 * @text_len: bytes of @text
 * @host:     address of the host, of which objects; "*" is those that were put so
 * @text:     address of what their paths begin with, from the slash on, compared byte by byte; or
 *	      of a tag
 * @objects:  out: objects that were dropped
 *
 * When it has returned, no request is answered with an object that was there when it was called.
 * Nothing is kept of it. Errors: ENOENT (no such site), EINVAL, EFAULT (@objects: it was done).
 */
struct afpa_ban {
	__u32 size;
	__u32 flags;
	struct afpa_site site;
	__u16 host_len;
	__u16 text_len;
	__u64 host;
	__u64 text;
	__u64 objects;
};

/**
 * struct afpa_next_site - argument of AFPA_IOC_NEXT_SITE
 * @size:      sizeof(struct afpa_next_site)
 * @index:     in: 0 for the first one, then 1, and so on
 * @site:      out: the site
 * @listeners: out: listeners that are answered for
 * @conns:     out: connections that the kernel may still answer on
 *
 * Errors: ENOENT (there are no more).
 */
struct afpa_next_site {
	__u32 size;
	__u32 index;
	struct afpa_site site;
	__u32 listeners;
	__u64 conns;
};

/**
 * enum afpa_mode - who answers
 * @AFPA_MODE_OFF:     the server, everything; what is being sent is ended
 * @AFPA_MODE_SOFTIRQ: the kernel, where the packets arrive
 * @AFPA_MODE_THREAD:  the kernel, in a work item: no livelock by requests
 * @AFPA_MODE_HYBRID:  as SOFTIRQ what is in memory; what of a file (AFPA_PUT_FILE) is not is read
 *		       by a thread
 *
 * If not all of the first 64 KB of a file is in memory SOFTIRQ leaves the request to the server.
 * Once an answer has begun what is missing is read by a thread in all modes; where that fails the
 * connection is reset.
 */
enum afpa_mode {
	AFPA_MODE_OFF,
	AFPA_MODE_SOFTIRQ,
	AFPA_MODE_THREAD,
	AFPA_MODE_HYBRID,
};

/* AFPA_IOC_POLICY: another one. */
#define AFPA_POLICY_SET	(1U << 0)

/**
 * enum afpa_policy - what makes room for others when the budget is spent
 * @AFPA_POLICY_CLOCK: what was not used since a hand came by; the default
 * @AFPA_POLICY_LRU:   what was not used for longest, to the letter. Each hit of the namespace
 *		       writes to one counter, which CPUs then pass to each other. When memory is
 *		       short objects go by the hand all the same.
 */
enum afpa_policy {
	AFPA_POLICY_CLOCK,
	AFPA_POLICY_LRU,
};

/**
 * struct afpa_policy_args - argument of AFPA_IOC_POLICY
 * @size:   sizeof(struct afpa_policy_args)
 * @flags:  0, or AFPA_POLICY_SET, which takes CAP_NET_ADMIN as other changes do
 * @policy: enum afpa_policy; in: with AFPA_POLICY_SET; out: which one holds
 * @pad:    0
 *
 * Of the network namespace. Objects that are there keep the order in which they were put, or were
 * used when it was AFPA_POLICY_LRU before. Errors: EPERM, EINVAL (no such policy, @pad).
 */
struct afpa_policy_args {
	__u32 size;
	__u32 flags;
	__u32 policy;
	__u32 pad;
};

#define AFPA_SET_MODE		(1U << 0)
#define AFPA_SET_BUDGET		(1U << 1)
#define AFPA_SET_MAX_OBJECT	(1U << 2)
#define AFPA_SET_STALL		(1U << 3)

/**
 * struct afpa_info - argument of AFPA_IOC_INFO and AFPA_IOC_SET
 * @size:       sizeof(struct afpa_info)
 * @flags:      SET: AFPA_SET_*, which of the settings to change; INFO: 0
 * @version:    out: AFPA_VERSION
 * @mode:       enum afpa_mode
 * @budget:     bytes of all objects with headers, names and what the kernel keeps of them; least
 *		recently used ones make room.  What is being put, and what is being sent and was
 *		replaced or thrown out, may have as much again
 * @max_object: bytes of the largest body
 * @stall_ms:   a client that takes nothing of an answer for so long is reset; 1000 to 3600000
 * @sites:      out
 * @used:       out: bytes of the budget in use
 * @objects:    out
 *
 * Settings are those of the network namespace.  Both calls give all of them.  Errors: EINVAL (out
 * of range).
 */
struct afpa_info {
	__u32 size;
	__u32 flags;
	__u32 version;
	__u32 mode;
	__u64 budget;
	__u64 max_object;
	__u32 stall_ms;
	__u32 sites;
	__u64 used;
	__u64 objects;
};

/**
 * struct afpa_log_args - argument of AFPA_IOC_LOG
 * @size:  sizeof(struct afpa_log_args)
 * @flags: 0
 * @bytes: room for records, a power of two from AFPA_LOG_LEAST to AFPA_LOG_MOST
 * @pad:   0
 *
 * This open file is the access log of the network namespace from now on, until its last descriptor
 * is closed.  read(2) gives records, whole ones, as many as fit; it waits for the first, but for
 * O_NONBLOCK (EAGAIN); EINVAL: not even one fits, or the file is no log.  poll(2) says POLLIN when
 * there are some.  A record that finds no room is lost.  Nothing waits for who reads.
 * Errors: EBUSY (the namespace or this file has one), EINVAL, ENOMEM.
 */
struct afpa_log_args {
	__u32 size;
	__u32 flags;
	__u32 bytes;
	__u32 pad;
};

/**
 * struct afpa_record - an answer that the kernel has begun to send
 * @len:         bytes of the record, a multiple of 8; skip what is between the request and its end
 * @request_len: bytes of the request, which follows this structure: from the method to the empty
 *		 line, at most AFPA_LOG_REQUEST; the host's letters may have become small ones
 * @family:      AF_INET or AF_INET6, of the addresses
 * @port:        the client's
 * @site_port:   that it has connected to
 * @pad:         0
 * @lost:        records that were lost since the one before
 * @addr:        the client's, the first four bytes for AF_INET
 * @time:        nanoseconds since 1970
 * @bytes:       of the whole answer; a client that goes away has got fewer
 * @body:        of its body, 0 for HEAD
 *
 * The status is 200.
 */
struct afpa_record {
	__u16 len;
	__u16 request_len;
	__u16 family;
	__be16 port;
	__be16 site_port;
	__u16 pad;
	__u32 lost;
	__u8 addr[16];
	__u64 time;
	__u64 bytes;
	__u64 body;
};

/**
 * enum afpa_remote_from - whose commands a node carries out
 * @AFPA_REMOTE_NOBODY:    no other node's; the default
 * @AFPA_REMOTE_FRONTENDS: those of nodes that are listed here as front-ends (FLT_ROLE_FRONTEND)
 * @AFPA_REMOTE_NODES:     those of every node that is listed here
 */
enum afpa_remote_from {
	AFPA_REMOTE_NOBODY,
	AFPA_REMOTE_FRONTENDS,
	AFPA_REMOTE_NODES,
};

#define AFPA_REMOTE_SET	(1U << 0)

/**
 * struct afpa_remote_args - argument of AFPA_IOC_REMOTE
 * @size:  sizeof(struct afpa_remote_args)
 * @flags: 0: to ask; AFPA_REMOTE_SET, which takes CAP_NET_ADMIN
 * @from:  SET: in; out: enum afpa_remote_from
 * @pad:   0
 *
 * Commands come by links that are authenticated, or by any while the namespace is insecure
 * (FLT_A_LOCAL_INSECURE). Whoever may send them decides what all clients are answered with.
 * Errors: EINVAL (@from, @pad).
 */
struct afpa_remote_args {
	__u32 size;
	__u32 flags;
	__u32 from;
	__u32 pad;
};

/* A node's name, with its terminating NUL, in bytes. */
#define AFPA_NODE_NAME		32
/* Longest body that goes over a link, in bytes. */
#define AFPA_REMOTE_BODY_MAX	(1U << 22)
/* In milliseconds. */
#define AFPA_REMOTE_TIMEOUT	5000
#define AFPA_REMOTE_TIMEOUT_MAX	60000

/**
 * struct afpa_node - argument of AFPA_IOC_NODE
 * @size:       sizeof(struct afpa_node)
 * @flags:      0
 * @timeout_ms: how long a call waits for the node's answer; 0: AFPA_REMOTE_TIMEOUT
 * @pad:        0
 * @name:       of a node in the node table of the namespace, with its NUL, zeros to the end
 *
 * From now on this open file is for the cache of that node: AFPA_IOC_PUT (without AFPA_PUT_FILE),
 * _DEL, _QUERY, _NEXT, _TTL, _FLUSH, _BAN, _TICKET, _EXPLAIN, _INFO, _NEXT_SITE and _PROTOCOL are
 * carried out there, and fail with the errors that they have there. All of them take CAP_NET_ADMIN
 * here. Other calls, and AFPA_PUT_FILE: EOPNOTSUPP. The commands of a node are carried out one
 * after the other, in the order in which it sent them.
 *
 * Errors: EBUSY (this file has a node, or is the log), EINVAL (@timeout_ms, @pad, @name), ENODEV
 * (no such node), ENOMEM.
 *
 * Errors of the calls besides: ENODEV (it has been taken out of the table), ENOTCONN (its link is
 * not up, or has ended since), EPROTONOSUPPORT (its version takes no commands), ENXIO (afpa.ko is
 * not loaded there), ENOKEY (the link is not authenticated, and insecure is off here or there),
 * EACCES (it takes no commands of this node: AFPA_IOC_REMOTE there), EMSGSIZE (a body of more than
 * AFPA_REMOTE_BODY_MAX), EBUSY (too much is under way here or there; try again), ENOBUFS (the
 * link had no room for it), ETIMEDOUT (no answer came), EINTR (a signal), EPROTO (the answer
 * makes no sense), EREMOTEIO (an error that is none of these). After ENOTCONN, ETIMEDOUT, EINTR,
 * ENXIO and EPROTO nobody here knows whether it was done: delete, ban and flush can be said again
 * at any time.
 */
struct afpa_node {
	__u32 size;
	__u32 flags;
	__u32 timeout_ms;
	__u32 pad;
	char name[AFPA_NODE_NAME];
};

#define AFPA_IOC_INFO		_IOWR(0xFB, 0x00, struct afpa_info)
#define AFPA_IOC_SET		_IOWR(0xFB, 0x01, struct afpa_info)
#define AFPA_IOC_SITE_ADD	_IOWR(0xFB, 0x02, struct afpa_site_args)
#define AFPA_IOC_SITE_DEL	_IOWR(0xFB, 0x03, struct afpa_site_args)
#define AFPA_IOC_NEXT_SITE	_IOWR(0xFB, 0x04, struct afpa_next_site)
#define AFPA_IOC_PUT		_IOWR(0xFB, 0x05, struct afpa_put)
#define AFPA_IOC_DEL		_IOWR(0xFB, 0x06, struct afpa_key)
#define AFPA_IOC_QUERY		_IOWR(0xFB, 0x07, struct afpa_key)
#define AFPA_IOC_NEXT		_IOWR(0xFB, 0x08, struct afpa_key)
#define AFPA_IOC_FLUSH		_IOWR(0xFB, 0x09, struct afpa_site_args)
#define AFPA_IOC_TTL		_IOWR(0xFB, 0x0a, struct afpa_key)
#define AFPA_IOC_BAN		_IOWR(0xFB, 0x0b, struct afpa_ban)
#define AFPA_IOC_TICKET		_IOWR(0xFB, 0x0c, struct afpa_ticket)
#define AFPA_IOC_LOG		_IOWR(0xFB, 0x0d, struct afpa_log_args)
#define AFPA_IOC_LISTEN		_IOWR(0xFB, 0x0e, struct afpa_listen)
#define AFPA_IOC_PROTOCOL	_IOWR(0xFB, 0x0f, struct afpa_listen)
#define AFPA_IOC_EXPLAIN	_IOWR(0xFB, 0x10, struct afpa_explain)
#define AFPA_IOC_POLICY		_IOWR(0xFB, 0x11, struct afpa_policy_args)
#define AFPA_IOC_REMOTE		_IOWR(0xFB, 0x12, struct afpa_remote_args)
#define AFPA_IOC_NODE		_IOWR(0xFB, 0x13, struct afpa_node)

#endif
