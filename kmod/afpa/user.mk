LIBRARIES += libafpa
libafpa_ABOUT := Flotilla: HTTP answers that the kernel gives
libafpa_SRCS := kmod/afpa/lib/afpa.c
MANPAGES += kmod/afpa/lib/libafpa.3

afpa_request_SRCS := kmod/afpa/request.c kmod/afpa/tests/lib/judge.c lard/request.c lard/header.c \
	lard/message.c $(lard_http)
afpa_get_SRCS := kmod/afpa/get.c kmod/afpa/tests/lib/judge_get.c
