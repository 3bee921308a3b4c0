// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * load OBJECT PIN - register the migration policy of a BPF object and keep it under PIN, a path in
 * a BPF file system (/sys/fs/bpf/...). One of the same name under PIN is replaced, with no moment
 * without one.
 * It ends when PIN is removed. Needs libbpf 1.4: cc load.c -lbpf
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

static int fail(const char *what, const char *path)
{
	fprintf(stderr, "load: cannot %s %s: %s\n", what, path, strerror(errno));
	return 1;
}

static struct bpf_map *policy(struct bpf_object *object)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			return map;
	errno = ENOENT;
	return NULL;
}

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_link *link;
	struct bpf_map *map;
	int pinned, err;

	if (argc != 3) {
		fprintf(stderr, "usage: load OBJECT PIN\n");
		return 2;
	}
	object = bpf_object__open_file(argv[1], NULL);
	if (!object)
		return fail("open", argv[1]);
	if (bpf_object__load(object))
		return fail("load", argv[1]);
	map = policy(object);
	if (!map)
		return fail("find a policy in", argv[1]);
	link = bpf_map__attach_struct_ops(map);
	if (link)
		return bpf_link__pin(link, argv[2]) ? fail("pin", argv[2]) : 0;
	/* A name that is taken: its owner may change. */
	err = errno;
	pinned = err == EBUSY ? bpf_obj_get(argv[2]) : -1;
	if (pinned < 0) {
		errno = err;
		return fail("register", bpf_map__name(map));
	}
	return bpf_link_update(pinned, bpf_map__fd(map), NULL) ? fail("replace", argv[2]) : 0;
}
