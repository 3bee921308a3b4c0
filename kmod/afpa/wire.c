// SPDX-License-Identifier: GPL-2.0
/* A call's structure as numbers of a message, and back. */

#include <linux/unaligned.h>

#include "calls.h"
#include "remote.h"

static u64 afpa_field_read(const void *args, u16 at, u8 size)
{
	switch (size) {
	case sizeof(u16):
		return *(const u16 *)(args + at);
	case sizeof(u32):
		return *(const u32 *)(args + at);
	default:
		return get_unaligned((const u64 *)(args + at));
	}
}

static bool afpa_field_write(void *args, u16 at, u8 size, u64 value)
{
	switch (size) {
	case sizeof(u16):
		*(u16 *)(args + at) = value;
		return value <= U16_MAX;
	case sizeof(u32):
		*(u32 *)(args + at) = value;
		return value <= U32_MAX;
	default:
		put_unaligned(value, (u64 *)(args + at));
		return true;
	}
}

u64 afpa_wire_length(const void *args, const struct afpa_text *text)
{
	return afpa_field_read(args, text->len_at, text->len_size);
}

u64 *afpa_wire_address(void *args, const struct afpa_text *text)
{
	return args + text->at;
}

unsigned int afpa_wire_pack(const struct afpa_call *call, const void *args, u8 way,
			    __be64 value[AFPA_VALUES_MAX])
{
	const struct afpa_field *field;
	unsigned int nr = 0;

	for (field = call->fields; field->size; field++) {
		const void *at = args + field->at;

		if (!(field->way & way))
			continue;
		if (!(field->way & AFPA_FIELD_RAW))
			value[nr++] = cpu_to_be64(afpa_field_read(args, field->at, field->size));
		else if (field->size == sizeof(u16))
			value[nr++] = cpu_to_be64(get_unaligned_be16(at));
		else
			value[nr++] = cpu_to_be64(get_unaligned_be64(at));
	}
	return nr;
}

static bool afpa_wire_raw(void *at, u8 size, u64 value)
{
	if (size == sizeof(u16)) {
		put_unaligned_be16(value, at);
		return value <= U16_MAX;
	}
	put_unaligned_be64(value, at);
	return true;
}

int afpa_wire_unpack(const struct afpa_call *call, void *args, u8 way, const __be64 *value,
		     unsigned int nr)
{
	const struct afpa_field *field;
	unsigned int next = 0;

	for (field = call->fields; field->size; field++) {
		u64 number = 0;
		bool fits;

		if (!(field->way & way))
			continue;
		if (next < nr)
			number = get_unaligned_be64(&value[next++]);
		if (field->way & AFPA_FIELD_RAW)
			fits = afpa_wire_raw(args + field->at, field->size, number);
		else
			fits = afpa_field_write(args, field->at, field->size, number);
		if (!fits)
			return -ERANGE;
	}
	if (way == AFPA_FIELD_OUT)
		return 0;
	for (; next < nr; next++)
		if (get_unaligned_be64(&value[next]))
			return -EOPNOTSUPP;
	return 0;
}

bool afpa_wire_is_sound(const struct flt_msg *msg)
{
	const struct afpa_msg *head = msg->body;

	return msg->len >= sizeof(*head) && !head->zero[0] && !head->zero[1] &&
	       head->nr <= AFPA_VALUES_MAX &&
	       msg->len - sizeof(*head) >= head->nr * sizeof(head->value[0]);
}
