/* SPDX-License-Identifier: MIT */
/*
 * libafpa: /dev/afpa for programs. What the kernel may answer HTTP requests with is put, replaced
 * and taken back; sites say where it answers. Errors are negative errno values, as listed in
 * flotilla/afpa.h. See libafpa(3).
 *
 *	int dev = afpa_open();
 *	struct afpa_site site;
 *
 *	afpa_site_parse(&site, "0.0.0.0:80");
 *	afpa_site_add(dev, &site, NULL);
 *	afpa_put(dev, &site, "www.example.org", "/news",
 *		 &(struct afpa_object){ .type = "text/html", .body = page, .body_len = len }, NULL);
 *	...
 *	afpa_del(dev, &site, "www.example.org", "/news");	-- from here on the server answers
 */
#ifndef AFPA_H
#define AFPA_H

#include <stddef.h>
#include <stdint.h>
#include <flotilla/afpa.h>

struct sockaddr;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct afpa_object - what a request is answered with
 * @type:     Content-Type, or NULL for none
 * @headers:  further header lines, each ended by CR LF, or NULL
 * @body:     copied by the call
 * @body_len: bytes of @body, 0 is a body, too
 * @ttl_ms:   lifetime in milliseconds from now, 0: until it is deleted
 * @tags:     words with spaces between them, for afpa_ban_tag(), or NULL
 * @since:    0, or a ticket: -ESTALE if something was said about the page since then
 * @flags:    0, or AFPA_PUT_AUTOMATIC: can be had again, goes first when memory is short;
 *	      AFPA_PUT_AGED: answers say Age, from @age on
 * @age:      with AFPA_PUT_AGED: seconds that the answer is old already
 */
struct afpa_object {
	const char *type, *headers;
	const void *body;
	size_t body_len;
	uint32_t ttl_ms;
	uint32_t flags;
	const char *tags;
	uint64_t since;
	uint32_t age;
};

/**
 * afpa_open() - open the device
 *
 * Return: a descriptor, close-on-exec, for the network namespace of the caller; threads may share
 * it. -ENOENT: the module is not loaded.
 */
int afpa_open(void);

/**
 * afpa_open_node() - the cache of another node
 * @name:       as in "flotilla node show"
 * @timeout_ms: how long a call waits for its answer; 0: AFPA_REMOTE_TIMEOUT
 *
 * Calls about objects, afpa_info(), afpa_site_each() and afpa_site_protocol() are then carried out
 * there, and fail as there; for what may fail on the way see struct afpa_node in flotilla/afpa.h.
 *
 * Return: a descriptor as afpa_open(); -ENODEV: there is no such node; -ENOTTY: the module is
 * older; -EPERM; or another negative errno.
 */
int afpa_open_node(const char *name, uint32_t timeout_ms);

/**
 * afpa_remote() - whose commands this node carries out
 * @dev:  the device
 * @from: out: enum afpa_remote_from
 *
 * Return: 0; -ENOTTY: the module is older, and knows nobody's; or another negative errno.
 */
int afpa_remote(int dev, uint32_t *from);

/**
 * afpa_set_remote() - of others
 * @dev:  the device
 * @from: enum afpa_remote_from
 *
 * Return: as afpa_remote().
 */
int afpa_set_remote(int dev, uint32_t from);

/**
 * afpa_info() - settings and what is in use
 * @dev:  the device
 * @info: out
 *
 * Return: 0 or a negative errno.
 */
int afpa_info(int dev, struct afpa_info *info);

/**
 * afpa_set() - change settings
 * @dev:  the device
 * @info: in: the new values, and which of them in .flags (AFPA_SET_*); out: as afpa_info()
 *
 * Return: 0, or a negative errno, and then nothing has changed.
 */
int afpa_set(int dev, struct afpa_info *info);

/**
 * afpa_policy() - which objects make room for others
 * @dev:    the device
 * @policy: out: enum afpa_policy
 *
 * Return: 0; -ENOTTY: the module is older, and knows AFPA_POLICY_CLOCK only; or another negative errno.
 */
int afpa_policy(int dev, uint32_t *policy);

/**
 * afpa_set_policy() - others do
 * @dev:    the device
 * @policy: enum afpa_policy
 *
 * Return: as afpa_policy().
 */
int afpa_set_policy(int dev, uint32_t policy);

/**
 * afpa_site_of() - a site by its address
 * @site: out
 * @addr: AF_INET or AF_INET6, as the server gave it to bind(2)
 *
 * Return: 0, -EAFNOSUPPORT, or -EINVAL: there is no port.
 */
int afpa_site_of(struct afpa_site *site, const struct sockaddr *addr);

/**
 * afpa_site_parse() - a site by its name
 * @site: out
 * @text: "0.0.0.0:80" or "[::]:80"
 *
 * Return: 0 or -EINVAL.
 */
int afpa_site_parse(struct afpa_site *site, const char *text);

#define AFPA_SITE_TEXT	64

/**
 * afpa_site_name() - the name of a site, as afpa_site_parse() takes it
 * @site: which
 * @text: room for it
 *
 * Return: @text.
 */
const char *afpa_site_name(const struct afpa_site *site, char text[AFPA_SITE_TEXT]);

/**
 * afpa_site_add() - let the kernel answer at a listener's address
 * @dev:    the device
 * @site:   which; one that is there already looks for new listeners
 * @result: out, or NULL
 *
 * Return: 0 or a negative errno.
 */
int afpa_site_add(int dev, const struct afpa_site *site, struct afpa_site_args *result);

/**
 * afpa_site_listen() - the same for another protocol than HTTP
 * @dev:      the device
 * @site:     which
 * @protocol: "http", "memcached"; its module is loaded if there is one
 * @result:   out, or NULL
 *
 * Return: 0; -EPROTONOSUPPORT: there is no such protocol; -EEXIST: the site has another one; or
 * another negative errno.
 */
int afpa_site_listen(int dev, const struct afpa_site *site, const char *protocol,
		     struct afpa_site_args *result);

/**
 * afpa_site_protocol() - what is spoken at a site
 * @dev:      the device
 * @site:     which
 * @protocol: out
 *
 * Return: 0; -ENOENT: there is no such site; -ENOTTY: the module is older, and knows HTTP only; or
 * another negative errno.
 */
int afpa_site_protocol(int dev, const struct afpa_site *site, char protocol[AFPA_PROTOCOL_NAME]);

/**
 * afpa_site_del() - leave an address to its server again
 * @dev:     the device
 * @site:    which; its objects go
 * @objects: out, or NULL: how many that were
 *
 * Return: 0 or a negative errno.
 */
int afpa_site_del(int dev, const struct afpa_site *site, uint64_t *objects);

typedef int (*afpa_site_fn)(const struct afpa_next_site *site, void *arg);

/**
 * afpa_site_each() - all sites
 * @dev: the device
 * @fn:  called for each; what is not 0 ends it
 * @arg: for @fn
 *
 * Return: 0, what @fn returned, or a negative errno.
 */
int afpa_site_each(int dev, afpa_site_fn fn, void *arg);

/**
 * afpa_put() - answer with this from now on
 * @dev:     the device
 * @site:    where requests come in
 * @host:    without a port; "*" for any that has no object of its own
 * @path:    with its query, as it stands in requests
 * @object:  what to answer with; replaces the one that is there, as a whole
 * @version: out, or NULL
 *
 * Return: 0, or a negative errno, and then what was there stays.
 */
int afpa_put(int dev, const struct afpa_site *site, const char *host, const char *path,
	     const struct afpa_object *object, uint64_t *version);

/**
 * afpa_put_file() - answer with what is in a file, without a copy of it in memory
 * @dev:     the device
 * @site:    as for afpa_put()
 * @host:    as for afpa_put()
 * @path:    as for afpa_put()
 * @fd:      a regular file, open for reading; may be closed afterwards
 * @object:  what to answer with; .body and .body_len are ignored
 * @version: out, or NULL
 *
 * Until the object is gone, and nobody is being sent it, the file cannot be written to (ETXTBSY for
 * who tries); see AFPA_PUT_FILE in flotilla/afpa.h.
 *
 * Return: 0; -ETXTBSY: somebody has it open for writing; -EACCES or -EPERM: the caller could not
 * write to it; -EROFS: not by this mount; -EOPNOTSUPP: its file system, or a memfd; or another
 * negative errno. Then what was there stays.
 */
int afpa_put_file(int dev, const struct afpa_site *site, const char *host, const char *path, int fd,
		  const struct afpa_object *object, uint64_t *version);

/**
 * afpa_update() - as afpa_put(), if there is an object already
 * @dev:     the device
 * @site:    as for afpa_put()
 * @host:    as for afpa_put()
 * @path:    as for afpa_put()
 * @object:  what to answer with
 * @version: out, or NULL
 *
 * One that was deleted meanwhile does not come back.
 *
 * Return: 0, -ENOENT, or another negative errno.
 */
int afpa_update(int dev, const struct afpa_site *site, const char *host, const char *path,
		const struct afpa_object *object, uint64_t *version);

/**
 * afpa_del() - leave this to the server
 * @dev:  the device
 * @site: as for afpa_put()
 * @host: as for afpa_put()
 * @path: as for afpa_put()
 *
 * When it has returned no request is answered with the object any more.
 *
 * Return: 0, -ENOENT: there was none, or another negative errno.
 */
int afpa_del(int dev, const struct afpa_site *site, const char *host, const char *path);

/**
 * afpa_query() - what is known of an object
 * @dev:  the device
 * @site: as for afpa_put()
 * @host: as for afpa_put()
 * @path: as for afpa_put()
 * @key:  out; .host and .path are those given
 *
 * It does not count as use.
 *
 * Return: 0, -ENOENT, or another negative errno.
 */
int afpa_query(int dev, const struct afpa_site *site, const char *host, const char *path,
	       struct afpa_key *key);

/**
 * afpa_explain() - why there is an object, or none
 * @dev:     the device
 * @site:    as for afpa_put()
 * @host:    as for afpa_put(); "*" is that object, not any one
 * @path:    as for afpa_put()
 * @explain: out: what the kernel knows, see struct afpa_explain
 *
 * Return: 0; -ENOENT: there is no such site; -ENOTTY: the module is older; or another negative errno.
 */
int afpa_explain(int dev, const struct afpa_site *site, const char *host, const char *path,
		 struct afpa_explain *explain);

/**
 * afpa_ttl() - a new lifetime, from now on
 * @dev:    the device
 * @site:   as for afpa_put()
 * @host:   as for afpa_put()
 * @path:   as for afpa_put()
 * @ttl_ms: milliseconds, 0: until it is deleted
 *
 * Return: 0, -ENOENT, or another negative errno.
 */
int afpa_ttl(int dev, const struct afpa_site *site, const char *host, const char *path,
	     uint32_t ttl_ms);

/**
 * afpa_flush() - delete all objects
 * @dev:     the device
 * @site:    of this one, or of all if NULL
 * @objects: out, or NULL: how many there were
 *
 * Return: 0 or a negative errno.
 */
int afpa_flush(int dev, const struct afpa_site *site, uint64_t *objects);

/**
 * afpa_ban() - delete all objects whose path begins so
 * @dev:     the device
 * @site:    of this one, or of all if NULL
 * @host:    of this one, or of all if NULL; "*" is those that were put so
 * @prefix:  begins with a slash; compared byte by byte
 * @objects: out, or NULL: how many there were
 *
 * When it has returned no request is answered with one of them any more.
 *
 * Return: 0, -ENOENT: there is no such site, or another negative errno.
 */
int afpa_ban(int dev, const struct afpa_site *site, const char *host, const char *prefix,
	     uint64_t *objects);

/**
 * afpa_ban_tag() - delete all objects with a tag
 * @dev:     the device
 * @site:    as for afpa_ban()
 * @tag:     a word
 * @objects: as for afpa_ban()
 *
 * Return: as afpa_ban().
 */
int afpa_ban_tag(int dev, const struct afpa_site *site, const char *tag, uint64_t *objects);

/**
 * afpa_ticket() - before a page is asked for that is to be put
 * @dev:    the device
 * @ticket: out: for .since of struct afpa_object
 *
 * What is put, deleted or banned after this keeps the page out that was asked for before.
 *
 * Return: 0 or a negative errno.
 */
int afpa_ticket(int dev, uint64_t *ticket);

/**
 * afpa_log() - the descriptor becomes the access log of the network namespace
 * @dev:   the device, opened for this alone; read(2) gives records, see struct afpa_record
 * @bytes: room for those that nobody has read yet: a power of two, AFPA_LOG_LEAST to AFPA_LOG_MOST
 *
 * Return: 0, -EBUSY: another one is, or another negative errno.
 */
int afpa_log(int dev, uint32_t bytes);

/**
 * afpa_record_next() - the records of one read(2)
 * @buf:  what was read; aligned for struct afpa_record
 * @len:  bytes of it
 * @last: the one before, NULL: the first
 *
 * The request's bytes are behind the structure.
 *
 * Return: NULL: there are no more.
 */
const struct afpa_record *afpa_record_next(const void *buf, size_t len,
					   const struct afpa_record *last);

typedef int (*afpa_object_fn)(const struct afpa_key *key, const char *host, const char *path,
			      void *arg);

/**
 * afpa_each() - all objects, in the order in which they were put
 * @dev: the device
 * @fn:  called for each; what is not 0 ends it; it may put and delete
 * @arg: for @fn
 *
 * Return: 0, what @fn returned, or a negative errno.
 */
int afpa_each(int dev, afpa_object_fn fn, void *arg);

/* "off", "softirq", "thread", "hybrid"; never NULL. */
const char *afpa_mode_name(uint32_t mode);

/* "clock", "lru"; never NULL. */
const char *afpa_policy_name(uint32_t policy);

/* "off", "frontends", "nodes"; never NULL. */
const char *afpa_remote_name(uint32_t from);

/* Of an enum afpa_last: "none", "deleted", "banned", ...; never NULL. */
const char *afpa_last_name(uint32_t last);

#ifdef __cplusplus
}
#endif

#endif
