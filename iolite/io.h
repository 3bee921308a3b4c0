/* SPDX-License-Identifier: GPL-2.0 */
/* Reading and writing descriptors of each kind. */
#ifndef IOL_IO_H
#define IOL_IO_H

#include "domain.h"

/* Memory that data in flight may keep, in multiples of itself. */
#define IOL_KEEP_MOST		4

/**
 * struct iol_call - one READ or WRITE under way
 * @domain:   whose
 * @file:     the target; the call holds it
 * @pool:     READ: for data that must be copied
 * @size:     READ: most bytes
 * @position: IOL_POSITION_FILE or an offset
 * @nowait:   do not sleep for data or room
 * @more:     WRITE: to a socket that more goes to, or its end
 * @copy:     READ: buffer that copied data goes to, or NULL
 * @copied:   bytes in @copy
 * @inside:   READ: for the kernel itself: no domain gets hold of the data
 * @final:    READ: data that is not taken is lost, so what cannot go by reference goes by value
 * @readable: READ: id of a pool that @domain may read, 0: none was asked for yet
 * @list:     WRITE: what to write; READ: what was read, at most as many slices as it has room for
 */
struct iol_call {
	struct iol_domain *domain;
	struct file *file;
	struct iol_pool *pool;
	size_t size;
	loff_t position;
	bool nowait;
	bool more;
	struct iol_buf *copy;
	u32 copied;
	bool inside;
	bool final;
	u64 readable;
	struct iol_list list;
};

ssize_t iol_read(struct iol_call *call);
ssize_t iol_write(struct iol_call *call);

struct iol_send;
ssize_t iol_send(struct iol_domain *domain, struct iol_send *args);

int iol_verify(struct iol_call *call, int rw, size_t len);
struct kiocb;
struct iov_iter;
ssize_t iol_iter_read(struct iol_call *call, struct kiocb *iocb, struct iov_iter *iter);
ssize_t iol_read_copy(struct iol_call *call);
ssize_t iol_write_copy(struct iol_call *call);

int iol_call_copy_buf(struct iol_call *call, size_t size);
void iol_call_copy_end(struct iol_call *call);
u32 iol_call_copy(struct iol_call *call, struct page *page, u32 off, u32 len, size_t left,
		  int *err);
int iol_call_take(struct iol_call *call, struct iol_buf *buf, u32 off, u32 len);

/* One writer of an object at a time, so that a write in several steps is one write. */
struct iol_object;
struct iol_object *iol_object_lock(struct iol_call *call, long timeo);
bool iol_object_written(const struct file *file);
void iol_object_unlock(struct iol_object *object);

bool iol_is_pipe(struct file *file);
ssize_t iol_pipe_read(struct iol_call *call);
ssize_t iol_pipe_write(struct iol_call *call);
struct bio_vec;
struct pipe_inode_info;
ssize_t iol_pipe_take(struct iol_call *call, struct pipe_inode_info *pipe, size_t size);
int iol_pipe_bvec(struct pipe_inode_info *pipe, struct bio_vec *bvec, unsigned int room,
		  size_t *size);
void iol_pipe_consume(struct pipe_inode_info *pipe, size_t bytes);
int iol_pipe_wait(struct pipe_inode_info *pipe);
void iol_pipe_wake_writers(struct pipe_inode_info *pipe, bool was_full);

struct socket;
bool iol_socket_takes_pages(struct socket *sock);
ssize_t iol_socket_read(struct iol_call *call, struct socket *sock);
ssize_t iol_socket_write(struct iol_call *call, struct socket *sock);

bool iol_is_cacheable(struct file *file);
ssize_t iol_file_read(struct iol_call *call);
ssize_t iol_file_write(struct iol_call *call);
void iol_kiocb_init(struct kiocb *iocb, struct iol_call *call, bool write);
int iol_files_init(void);
void iol_files_exit(void);

/* Page ranges of a call that need no allocation: a header and 64 KiB. */
#define IOL_BVEC_FEW		20

unsigned int iol_bvec_add(struct bio_vec *bvec, unsigned int n, struct page *page, u32 off,
			  u32 len);
struct bio_vec *iol_list_bvec(const struct iol_list *list, struct bio_vec *few, unsigned int *n);
bool iol_list_is_small(const struct iol_list *list, const struct iol_pool *pool);
void iol_bvec_put(struct bio_vec *bvec, struct bio_vec *few);

#endif
