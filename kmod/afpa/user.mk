afpa_request_SRCS := kmod/afpa/request.c kmod/afpa/tests/lib/judge.c lard/request.c lard/header.c lard/message.c \
	$(lard_http)
