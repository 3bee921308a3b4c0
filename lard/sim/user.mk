PROGRAMS += lardsim
lardsim_SRCS := $(addprefix lard/sim/,main.c options.c report.c cluster.c events.c cache.c \
		gen.c trace.c train.c clf.c) $(lard_engine)
lardsim_LIBS := -ljansson -lm
MANPAGES += lard/sim/lardsim.1

lardsim_unit_SRCS := $(filter-out lard/sim/main.c lard/sim/options.c lard/sim/report.c,$(lardsim_SRCS))
lardsim_unit_LIBS := -lm
