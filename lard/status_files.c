// SPDX-License-Identifier: GPL-2.0
/* The files of lard/status/, built in. */
#include "status_now.h"

#define BUILT_IN(name, path)						\
	__asm__(".pushsection .rodata\n"				\
		".global " #name "\n" #name ":\n"			\
		".incbin \"" path "\"\n.byte 0\n"			\
		".popsection\n")

BUILT_IN(status_page_html, "lard/status/page.html");
BUILT_IN(status_page_css, "lard/status/page.css");
BUILT_IN(status_page_js, "lard/status/page.js");
