# flash: the AMPED web server
flash_parts := accept app body cache cgi child config conn disk fcgi file helper httpdate listener listing log \
	lookup loop loop_direct loop_epoll loop_uring map master mime notify range request \
	response send stats target vhost worker
PROGRAMS += flash
flash_SRCS := tools/flash/main.c $(flash_parts:%=tools/flash/%.c)
flash_LIBS := -luring -lpthread
