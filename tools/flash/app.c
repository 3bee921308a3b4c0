// SPDX-License-Identifier: GPL-2.0
#include "app.h"
#include "response.h"

enum verdict app_begin(struct conn *c, const struct request *req, const struct path *p, bool more)
{
	(void)p;
	return respond_status(c, req, 501, NULL, more);
}
enum verdict app_body(struct conn *c, char *buf, size_t len) { (void)c; (void)buf; (void)len; return CLOSE; }
void app_client_ready(struct conn *c, uint32_t events) { (void)c; (void)events; }
void app_expired(struct conn *c) { (void)c; }
void app_abort(struct conn *c) { (void)c; }
