/* SPDX-License-Identifier: GPL-2.0 */
/* lardd's counters: one table, stable names. */
#ifndef LARD_COUNTER_H
#define LARD_COUNTER_H

#include <stdint.h>

#define COUNTER_TABLE(X)						\
	X(ACCEPTED, "LardAccepted", "connections accepted")		\
	X(TLS_HANDSHAKES, "LardTlsHandshakes", "TLS handshakes completed") \
	X(TLS_RESUMED, "LardTlsResumed", "TLS handshakes that resumed a session") \
	X(TLS_TICKET_UNKNOWN, "LardTlsTicketUnknown", "TLS handshakes with a ticket whose key is not known, or no more") \
	X(TLS_FAILED, "LardTlsFailed", "TLS handshakes that failed or timed out") \
	X(TLS_NAME_MISSED, "LardTlsNameMissed", "TLS handshakes for a name that no certificate is for") \
	X(TLS_RETURNED, "LardTlsReturned", "connections of TLS that a node has given back") \
	X(TLS_CLIENTS, "LardTlsClients", "TLS handshakes with a client's certificate that was verified") \
	X(TLS_STAPLED, "LardTlsStapled", "TLS handshakes with an OCSP response") \
	X(TLS_UNSTAPLED, "LardTlsUnstapled", "TLS handshakes without the OCSP response asked for, as the file has no good one") \
	X(HTTP2_CONNECTIONS, "LardHttp2Connections", "connections whose HTTP/2 lardd spoke itself") \
	X(HTTP2_STREAMS, "LardHttp2Streams", "requests that were streams of HTTP/2") \
	X(HTTP2_REFUSED, "LardHttp2Refused", "streams refused, as the connection or lardd has as many as it may") \
	X(HTTP2_FLOODED, "LardHttp2Flooded", "connections of HTTP/2 ended for what brought no request on") \
	X(REDIRECTED, "LardRedirected", "requests in clear text that were sent to HTTPS") \
	X(REQUESTS, "LardRequests", "requests parsed and dispatched")	\
	X(QUEUED, "LardQueued", "requests that had to wait for room")	\
	X(HANDED_OFF, "LardHandedOff", "connections handed off")	\
	X(TLS_HANDED_OFF, "LardTlsHandedOff", "those of them that were of TLS, with their keys") \
	X(HTTP2_HANDED_OFF, "LardHttp2HandedOff", "those of them that were of HTTP/2") \
	X(HANDOFF_FAILED, "LardHandoffFailed", "handoffs refused or timed out") \
	X(HANDOFF_RETRIED, "LardHandoffRetried", "handoffs tried again, on another node or after a change") \
	X(HANDOFF_USEC, "LardHandoffUsec", "microseconds of all handoffs that succeeded") \
	X(REMOTE_CLOSED, "LardRemoteClosed", "handed-off connections that ended") \
	X(REMOTE_LOST, "LardRemoteLost", "handed-off connections that ended with their node") \
	X(PROXIED, "LardProxied", "requests proxied")			\
	X(PROXY_FALLBACK, "LardProxyFallback", "requests proxied after a handoff was refused") \
	X(PROXY_RETRIED, "LardProxyRetried", "proxied requests tried again on another node") \
	X(BACKEND_OPENED, "LardBackendOpened", "connections opened to back-ends") \
	X(BACKEND_REUSED, "LardBackendReused", "requests on a kept connection to a back-end") \
	X(BACKEND_SURPLUS, "LardBackendSurplus", "connections whose back-end sent more than it was asked for") \
	X(SPLICED, "LardSpliced", "answers whose rest the kernel passed on") \
	X(CACHE_HITS, "LardCacheHits", "proxied requests answered from the cache") \
	X(CACHE_UNCHANGED, "LardCacheUnchanged", "answers of the cache that the client had (304)") \
	X(CACHE_MISSES, "LardCacheMisses", "requests that the cache could have answered") \
	X(CACHE_WAITED, "LardCacheWaited", "requests that waited for the answer of another one") \
	X(CACHE_STALE, "LardCacheStale", "answers of the cache that were stale, as nobody had a newer one yet") \
	X(CACHE_REFRESHED, "LardCacheRefreshed", "requests of lardd's own for pages of the cache that were stale") \
	X(CACHE_REVALIDATED, "LardCacheRevalidated", "pages of the cache that were stale and had not changed (304 of a back-end)") \
	X(CACHE_STORED, "LardCacheStored", "answers stored in the cache")	\
	X(CACHE_DROPPED, "LardCacheDropped", "answers whose storing was given up") \
	X(KERNEL_STORED, "LardKernelStored", "answers that the kernel's cache has taken") \
	X(KERNEL_STALE, "LardKernelStale", "answers that it refused, as their page was deleted, banned or put meanwhile") \
	X(KERNEL_FAILED, "LardKernelFailed", "answers that it could not take, or has no room for") \
	X(BYTES_UP, "LardBytesUp", "bytes proxied to back-ends")	\
	X(BYTES_DOWN, "LardBytesDown", "bytes proxied to clients")	\
	X(BAD_REQUEST, "LardBadRequest", "requests refused as malformed or for another host (400, 414, 421, 501, 505)") \
	X(TOO_LARGE, "LardTooLarge", "request headers beyond the limit (431)") \
	X(TIMED_OUT, "LardTimedOut", "requests that came too slowly (408)") \
	X(UNAVAILABLE, "LardUnavailable", "requests refused for want of a node or of room (503)") \
	X(BAD_GATEWAY, "LardBadGateway", "back-ends that failed to answer (502, 504)") \
	X(ABORTED, "LardAborted", "clients that went away before their answer") \
	X(RECYCLED, "LardRecycled", "connections that lingered, idle ones, slow requests and handshakes, closed to make room") \
	X(ADDRESS_REFUSED, "LardAddressRefused", "connections closed at once, as their address has as many as it may") \
	X(ACCEPT_FAILED, "LardAcceptFailed", "accept() failed")		\
	X(SHARE_TAKEN, "LardShareTaken", "datagrams of other front-ends that were believed") \
	X(SHARE_REFUSED, "LardShareRefused", "datagrams to share's address that were not: no peer's, malformed or old") \
	X(LOG_LOST, "LardLogLost", "lines of the access log that could not be written")

#define X(name, text, help) COUNTER_##name,
enum counter { COUNTER_TABLE(X) COUNTERS };
#undef X

extern const char *const counter_names[COUNTERS];
extern const char *const counter_helps[COUNTERS];

#endif
