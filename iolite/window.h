/* SPDX-License-Identifier: GPL-2.0 */
/* The window: one range of offsets that every domain maps. */
#ifndef IOL_WINDOW_H
#define IOL_WINDOW_H

#include <linux/types.h>

struct file;
struct iol_domain;
struct vm_area_struct;

int iol_window_init(void);
void iol_window_exit(void);
void iol_window_attach(struct file *file);
int iol_window_mmap(struct iol_domain *domain, struct vm_area_struct *vma);
void iol_window_zap(pgoff_t first, unsigned int n);

#endif
