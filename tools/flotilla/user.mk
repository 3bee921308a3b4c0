PROGRAMS += flotilla
flotilla_SRCS := $(addprefix tools/flotilla/,main.c command.c line.c value.c table.c node.c local.c service.c auth.c \
	conn.c counter.c stats.c stats_http.c metric.c metric_node.c policy.c dispatcher.c explain.c \
	top.c top_take.c top_view.c terminal.c doctor.c doctor_node.c doctor_service.c doctor_peer.c doctor_path.c doctor_filter.c machine.c machine_echo.c probe.c probe_room.c probe_kernel.c monitor.c card.c \
	card_wire.c card_show.c card_device.c afpa.c afpa_log.c cache.c cache_job.c cache_put.c cache_explain.c cache_remote.c cache_value.c key.c process.c process_job.c process_drain.c process_tree.c migrate.c redirect.c takeover.c follow.c relocation.c drain.c \
	balance.c rebalance.c rebalance_look.c rebalance_round.c \
	apply.c changes.c lock.c hold.c owner.c setting.c config.c config_text.c config_json.c config_live.c config_rule.c config_diff.c config_compare.c) \
	tools/base/metric.c kmod/afpa/request.c
flotilla_DEPS := libflotilla libhandoff libafpa
flotilla_PKGS := jansson libmnl

MANPAGES += tools/flotilla/flotilla.8 tools/flotilla/flotilla.conf.5
COMPLETIONS += tools/flotilla/flotilla.bash

flotilla_config_SRCS := tools/flotilla/tests/lib/settings.c $(filter-out tools/flotilla/main.c,$(flotilla_SRCS))
flotilla_config_DEPS := libflotilla libhandoff libafpa
flotilla_config_PKGS := jansson libmnl
flotilla_config_LIBS := -lcmocka

flotilla_rule_SRCS := $(flotilla_config_SRCS)
flotilla_rule_DEPS := $(flotilla_config_DEPS)
flotilla_rule_PKGS := $(flotilla_config_PKGS)
flotilla_rule_LIBS := -lcmocka $(foreach f,flt_policy_each flt_redirect_each access,-Wl,--wrap=$(f))

flotilla_words_SRCS := $(filter-out tools/flotilla/main.c,$(flotilla_SRCS))
flotilla_words_DEPS := $(flotilla_config_DEPS)
flotilla_words_PKGS := $(flotilla_config_PKGS)
flotilla_words_LIBS := -lcmocka

flotilla_balance_SRCS := tools/flotilla/balance.c
flotilla_balance_LIBS := -lcmocka

# Counters and names of nodes, a line each, as Prometheus gets them: for a test.
TEST_PROGRAMS += flotilla_metrics_of
flotilla_metrics_of_SRCS := tools/flotilla/tests/lib/metrics_of.c $(filter-out tools/flotilla/main.c,$(flotilla_SRCS))
flotilla_metrics_of_DEPS := libflotilla libhandoff libafpa
flotilla_metrics_of_PKGS := jansson libmnl
