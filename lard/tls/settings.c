// SPDX-License-Identifier: GPL-2.0
#include "settings.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tls_settings_add(struct tls_settings *s, const char *chain, const char *key, const char *ocsp,
		     char *why, size_t size)
{
	struct config_certificate *c = &s->certificates[s->certificate_count];

	if (s->certificate_count == CONFIG_CERTIFICATES_MAX)
		snprintf(why, size, "there are more than %d certificates", CONFIG_CERTIFICATES_MAX);
	else if (strlen(chain) >= sizeof(c->chain) || strlen(key) >= sizeof(c->key) ||
		 strlen(ocsp) >= sizeof(c->ocsp))
		snprintf(why, size, "the name of a file is longer than %zu bytes",
			 sizeof(c->chain) - 1);
	else if (*chain != '/' || *key != '/' || (*ocsp && *ocsp != '/'))
		snprintf(why, size, "the name of a file must begin with /");
	else {
		strcpy(c->chain, chain);
		strcpy(c->key, key);
		strcpy(c->ocsp, ocsp);
		s->certificate_count++;
		return 0;
	}
	return -1;
}

int tls_settings_add_directory(struct tls_settings *s, const char *path, char *why, size_t size)
{
	char chain[512], key[512], ocsp[512];

	snprintf(chain, sizeof(chain), "%s/fullchain.pem", path);
	snprintf(key, sizeof(key), "%s/privkey.pem", path);
	snprintf(ocsp, sizeof(ocsp), "%s/ocsp.der", path);
	return tls_settings_add(s, chain, key, access(ocsp, F_OK) ? "" : ocsp, why, size);
}

int tls_settings_add_all(struct tls_settings *s, const char *path, char *why, size_t size)
{
	char entry[512], chain[768];
	struct dirent **entries;
	int i, count, err = 0, found = 0;

	count = scandir(path, &entries, NULL, alphasort);
	if (count < 0) {
		snprintf(why, size, "%s: %s", path, strerror(errno));
		return -1;
	}
	for (i = 0; i < count; i++) {
		snprintf(entry, sizeof(entry), "%s/%s", path, entries[i]->d_name);
		snprintf(chain, sizeof(chain), "%s/fullchain.pem", entry);
		if (!err && *entries[i]->d_name != '.' && !access(chain, F_OK)) {
			err = tls_settings_add_directory(s, entry, why, size);
			found++;
		}
		free(entries[i]);
	}
	free(entries);
	if (!found) {
		snprintf(why, size, "%s: no directory in it has a fullchain.pem", path);
		return -1;
	}
	return err;
}
