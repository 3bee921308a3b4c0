lard_engine := lard/policy.c lard/decide.c lard/explain.c lard/target.c lard/ring.c lard/mirror.c

lard_policy_SRCS := $(lard_engine)
lard_property_SRCS := $(lard_engine)
lard_learn_SRCS := $(lard_engine)
lard_table_SRCS := $(lard_engine)
lard_url_SRCS := lard/url.c
lard_mirror_SRCS := $(lard_engine) lard/url.c handoff/early_choose.c handoff/early_key.c
# The kernel's own files: what stands in for its headers is not installed with them.
$(B)/obj/handoff/early_choose.o $(B)/obj/handoff/early_key.o: FLAGS += -include lard/tests/lib/as_kernel.h
lard_crowd_SRCS := lard/crowd.c lard/address.c

# Not ours: unused parameters stay as they are.
$(B)/obj/lard/llhttp/%.o: FLAGS += -Wno-unused-parameter
lard_http := lard/llhttp/api.c lard/llhttp/http.c lard/llhttp/llhttp.c

# flash has it too.
tls_parts := $(addprefix lard/tls/,authority.c seal.c session.c settings.c staple.c ticket.c tls.c tls_file.c)

# So has it these, and what it has of an answer's text for them.
http2_parts := $(addprefix lard/http2/,session.c stream.c head.c reply.c guard.c)
http2_text_parts := lard/response.c lard/header.c lard/message.c lard/chunks.c $(lard_http)

PROGRAMS += lardd
lardd_SRCS := lard/main.c lard/lardd.c lard/check.c lard/reload.c tools/base/capability.c lard/privilege.c lard/worker.c lard/listener.c lard/conn.c lard/conn_pool.c lard/conn_end.c lard/crowd.c lard/shake.c lard/client.c $(http2_parts) lard/http2/prelude.c lard/http2_host.c lard/tls_host.c $(tls_parts) lard/identity.c lard/https.c lard/redirect.c lard/dispatch.c lard/early.c \
	lard/give.c lard/proxy.c lard/proxy_up.c lard/proxy_answer.c lard/exchange.c lard/splice.c lard/caching.c lard/cache_key.c lard/renew.c lard/refresh.c lard/fill.c lard/fetch.c lard/kernel_cache.c lard/kernel_sites.c lard/cache.c lard/siphash.c lard/cacheable.c lard/cache_class.c \
	lard/rewrite.c lard/backend.c lard/request.c lard/response.c lard/header.c \
	lard/message.c lard/chunks.c lard/nodes.c lard/health.c lard/floor.c lard/config.c tools/base/reader.c \
	lard/control.c lard/visitor.c lard/answer.c lard/metrics.c tools/base/metric.c lard/page.c lard/tally.c lard/hot.c \
	lard/status.c lard/status_now.c lard/status_card.c lard/status_html.c tools/base/html.c lard/status_json.c lard/status_files.c lard/access.c lard/counter.c lard/address.c \
	tools/base/lines.c tools/base/log.c lard/loop.c lard/share.c tools/base/notify.c lard/takeover.c \
	lard/url.c $(lard_http) $(lard_engine)
lardd_PKGS := jansson openssl libnghttp2
# Their text is built in.
$(B)/obj/lard/status_files.o: $(wildcard lard/status/*)
MANPAGES += lard/lardd.8 lard/lardd.conf.5
lardd_LIBS := -lpthread
lardd_DEPS := libafpa libhandoff libflotilla libsksplice libuselect

lard_message_SRCS := lard/request.c lard/response.c lard/header.c lard/message.c lard/chunks.c $(lard_http)

lard_http2_head_SRCS := lard/http2/head.c lard/message.c
lard_prelude_SRCS := lard/http2/prelude.c lard/http2/head.c lard/message.c
lard_prelude_PKGS := libnghttp2

# The whole daemon on a kernel of pretence.
lard_give_SRCS := $(filter-out lard/main.c,$(lardd_SRCS)) lard/tests/lib/kernel.c lard/tests/lib/daemon.c
lard_give_PKGS := jansson openssl libnghttp2
lard_give_LIBS := -lpthread
lard_give_DEPS := libafpa libsksplice libuselect
lard_give_tls_SRCS := $(lard_give_SRCS)
lard_give_tls_PKGS := $(lard_give_PKGS)
lard_give_tls_LIBS := $(lard_give_LIBS)
lard_give_tls_DEPS := $(lard_give_DEPS)
lard_give_http2_SRCS := $(lard_give_SRCS) lard/tests/lib/http2_peer.c
lard_give_http2_PKGS := $(lard_give_PKGS)
lard_give_http2_LIBS := $(lard_give_LIBS)
lard_give_http2_DEPS := $(lard_give_DEPS)
lard_keep_http2_SRCS := $(lard_give_http2_SRCS)
lard_keep_http2_PKGS := $(lard_give_PKGS)
lard_keep_http2_LIBS := $(lard_give_LIBS)
lard_keep_http2_DEPS := $(lard_give_DEPS)

# The same as a program, for tests that speak with it as a browser does.
TEST_PROGRAMS += lardd_pretend
lardd_pretend_SRCS := $(lardd_SRCS) lard/tests/lib/kernel.c
lardd_pretend_PKGS := $(lard_give_PKGS)
lardd_pretend_LIBS := -lpthread -lcmocka
lardd_pretend_DEPS := $(lard_give_DEPS)

lard_tls_unit_SRCS := lard/client.c lard/tls_host.c $(tls_parts) lard/identity.c lard/message.c tools/base/log.c \
	lard/tests/lib/tls_pair.c lard/tests/lib/no_privilege.c
lard_tls_unit_PKGS := openssl
lard_tls_unit_LDFLAGS := -Wl,--wrap=free
lard_tls_peek_SRCS := $(lard_tls_unit_SRCS)
lard_tls_peek_PKGS := openssl

lard_staple_SRCS := lard/tls/staple.c lard/tls/tls_file.c lard/tls_host.c tools/base/log.c lard/tests/lib/no_privilege.c
lard_staple_PKGS := openssl

lard_tls_fuzz_SRCS := $(tls_parts)
lard_tls_fuzz_PKGS := openssl

lard_cacheable_SRCS := lard/cacheable.c lard/cache_class.c lard/request.c lard/response.c lard/header.c lard/message.c \
	lard/chunks.c $(lard_http)

lard_store_SRCS := lard/siphash.c lard/url.c
lard_store_LIBS := -lpthread

FUZZERS += fuzz_lard_message fuzz_lard_prelude fuzz_lard_tls
fuzz_lard_message_SRCS := lard/tests/lib/fuzz_message.c $(lard_message_SRCS)
fuzz_lard_prelude_SRCS := lard/tests/lib/fuzz_prelude.c $(lard_prelude_SRCS)
fuzz_lard_prelude_PKGS := libnghttp2
fuzz_lard_prelude_NEEDS := $(B)/tests/lard_prelude
fuzz_lard_prelude_CORPUS := $(B)/tests/lard_prelude
fuzz_lard_tls_SRCS := lard/tests/lib/fuzz_tls.c $(tls_parts)
fuzz_lard_tls_PKGS := openssl
fuzz_lard_tls_NEEDS := $(B)/tests/lard_tls_fuzz
fuzz_lard_tls_CORPUS := $(B)/tests/lard_tls_fuzz
fuzz_lard_tls_ARGS := -max_len=64
