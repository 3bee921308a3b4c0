/* SPDX-License-Identifier: GPL-2.0 */
/* An instruction that does nothing, whose displacement tells marks.c what it is for. */
#ifndef BENCH_MOVES_MARKS_H
#define BENCH_MOVES_MARKS_H

#define MARK_BEGIN	1
#define MARK_END	2
#define MARK_PROFILE	3
/* And the number of the CPU it is on. */
#define MARK_CPU	16

/* nopl 0xXX464c54(%rax,%rax,1); XX is which mark it is. */
#define MARK_OPCODE	0x0f, 0x1f, 0x84, 0x00, 0x54, 0x4c, 0x46
#define MARK_LENGTH	8

#define MARK_STRING(...)	#__VA_ARGS__
#define MARK_BYTES(...)		MARK_STRING(__VA_ARGS__)
#define MARK(what)		asm volatile(".byte " MARK_BYTES(MARK_OPCODE) ", " MARK_BYTES(what) ::: "memory")

#endif
