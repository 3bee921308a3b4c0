# flash: the AMPED web server
flash_parts := accept app app_env app_head body cache cgi check child config conn disk fcgi fcgi_pool fcgi_record file handback http2 helper helper_process helper_ring \
	hold httpdate https input job lite listener listing log lookup loop loop_direct loop_epoll loop_uring loop_uselect map master message mime \
	predict range request response room said secure send shake stats target textfile tls_host tx vhost worker
PROGRAMS += flash
flash_SRCS := tools/flash/main.c $(flash_parts:%=tools/flash/%.c) tools/base/lines.c tools/base/notify.c tools/base/html.c $(tls_parts) $(http2_parts) $(http2_text_parts)
flash_PKGS := openssl libnghttp2
flash_LIBS := -luring -lpthread
flash_DEPS := libuselect libiolite libhandoff libflotilla
MANPAGES += tools/flash/flash.8 tools/flash/flash.conf.5

flash_parse_SRCS := $(addprefix tools/flash/,body.c httpdate.c range.c request.c target.c)
flash_parse_LIBS := -lcmocka
flash_cache_SRCS := $(addprefix tools/flash/,cache.c file.c httpdate.c mime.c request.c textfile.c)
flash_cache_LIBS := -lcmocka -lpthread
flash_predict_SRCS := tools/flash/predict.c
flash_predict_LIBS := -lcmocka
flash_fuzz_SRCS := $(flash_parse_SRCS)
FUZZERS += fuzz_flash_request
fuzz_flash_request_SRCS := tools/flash/tests/lib/fuzz_request.c $(flash_parse_SRCS)
fuzz_flash_request_ARGS := -max_len=4096

# flash-replay: the load of the comparisons, after a log or a trace of lardsim
PROGRAMS += flash-replay
flash-replay_SRCS := $(addprefix tools/flash/replay/,main.c client.c tally.c work.c) lard/sim/trace.c
flash-replay_LIBS := -lm
MANPAGES += tools/flash/replay/flash-replay.1
