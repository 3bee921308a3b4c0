/* SPDX-License-Identifier: GPL-2.0 */
/* What is said to /dev/afpa. @arg is the ioctl's argument; returns are those of the uapi header. */
#ifndef AFPA_DEVICE_H
#define AFPA_DEVICE_H

#include <linux/types.h>
#include <flotilla/afpa.h>

struct afpa_key_ref;
struct afpa_net;

int afpa_device_register(void);
void afpa_device_unregister(void);

/* A structure of @known bytes that begins with its size, of this version or a later one. */
int afpa_device_copy(void *args, size_t known, const void __user *arg);
/* Its size stays what the caller has said. */
int afpa_device_return(void __user *arg, const void *args, size_t known);

int afpa_device_put(struct afpa_net *an, void __user *arg);
int afpa_device_next(struct afpa_net *an, void __user *arg);
int afpa_device_ban(struct afpa_net *an, void __user *arg);
int afpa_device_ticket(struct afpa_net *an, void __user *arg);
int afpa_device_explain(struct afpa_net *an, void __user *arg);

/* @do_it with the key that @arg has; these are such. */
int afpa_device_object(struct afpa_net *an, void __user *arg,
		       int (*do_it)(struct afpa_net *an, const struct afpa_key_ref *key,
				    struct afpa_key *args));
int afpa_device_query(struct afpa_net *an, const struct afpa_key_ref *key, struct afpa_key *args);
int afpa_device_del(struct afpa_net *an, const struct afpa_key_ref *key, struct afpa_key *args);
int afpa_device_ttl(struct afpa_net *an, const struct afpa_key_ref *key, struct afpa_key *args);

#endif
