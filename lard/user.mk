lard_engine := lard/policy.c lard/decide.c lard/explain.c lard/target.c lard/ring.c

lard_policy_SRCS := $(lard_engine)
lard_property_SRCS := $(lard_engine)
lard_table_SRCS := $(lard_engine)
lard_url_SRCS := lard/url.c
