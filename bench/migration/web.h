/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MIGRATION_WEB_H
#define MIGRATION_WEB_H

/*
 * The files of SPECweb96: four classes, each ten times as long as the one before, of nine files each, in so many
 * directories. What is asked for is "/DIRECTORY/CLASS/NUMBER", and both sides know by that how long it is.
 */
#define CLASSES	4
#define FILES	9

/* Of 100 requests so many are of each class (WebStone's shares). */
#define SHARES	{ 35, 50, 14, 1 }

/* Bytes of file NUMBER, 1 to FILES: 0.1 to 0.9, 1 to 9, 10 to 90 and 100 to 900 KB. */
static inline unsigned long web_length(unsigned int class, unsigned int number)
{
	static const unsigned int scale[CLASSES] = { 1, 10, 100, 1000 };

	return number * scale[class] * 1024ul / 10;
}

#endif
