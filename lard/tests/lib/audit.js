// SPDX-License-Identifier: GPL-2.0
// What is wrong with a page for somebody who cannot see it well, has no mouse, or a small screen: lists of sentences.
"use strict";

globalThis.audit = (() => {
	const all = selector => [...document.querySelectorAll(selector)];

	function called(e)
	{
		const text = (e.textContent || "").trim().replace(/\s+/g, " ").slice(0, 30);

		return e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (text ? " '" + text + "'" : "");
	}

	// What is only for screen readers is a point, what waits for the focus is left of everything.
	function shown(e)
	{
		const at = e.getBoundingClientRect();

		return e.checkVisibility({visibilityProperty: true}) && at.width > 1 && at.height > 1 && at.right > 0;
	}

	// --- colours ---

	function colour(text)
	{
		const parts = text.match(/[\d.]+/g);

		if (!/^rgba?\(/.test(text) || parts.length < 3)
			throw Error("a colour that is not understood: " + text);
		return [...parts.slice(0, 3).map(Number), parts.length > 3 ? Number(parts[3]) : 1];
	}

	function over(top, below)
	{
		return [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
	}

	function ground(e)
	{
		const layers = [];

		for (; e; e = e.parentElement) {
			const own = colour(getComputedStyle(e).backgroundColor);

			layers.push(own);
			if (own[3] === 1)
				return layers.reduceRight((below, top) => over(top, below));
		}
		throw Error("nothing is painted behind");
	}

	function luminance(c)
	{
		const [r, g, b] = c.map(v => v / 255 <= .04045 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4);

		return .2126 * r + .7152 * g + .0722 * b;
	}

	function ratio(a, b)
	{
		const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);

		return (high + .05) / (low + .05);
	}

	function texts()
	{
		const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		const found = new Set();

		while (walker.nextNode())
			if (walker.currentNode.data.trim() && shown(walker.currentNode.parentElement))
				found.add(walker.currentNode.parentElement);
		return [...found];
	}

	function contrast()
	{
		const wrong = [];

		for (const e of texts()) {
			const below = ground(e), style = getComputedStyle(e);
			const is = ratio(over(colour(style.color), below), below);

			if (is < 4.5)
				wrong.push(`${called(e)}: contrast ${is.toFixed(2)}`);
			if (parseFloat(style.fontSize) < 12)
				wrong.push(`${called(e)}: letters of ${style.fontSize}`);
		}
		for (const bar of all("svg.bar")) {
			const fill = name => colour(getComputedStyle(bar.querySelector(name)).fill);

			if (ratio(fill(".load, .over"), fill(".ground")) < 3)
				wrong.push(`a bar of ${called(bar.closest("tr"))} is not seen`);
		}
		return wrong;
	}

	// --- sizes ---

	function width()
	{
		const wrong = [], room = document.documentElement.clientWidth;

		if (document.scrollingElement.scrollWidth > room)
			wrong.push(`the page is ${document.scrollingElement.scrollWidth} wide, of ${room}`);
		for (const e of all("body *")) {
			const at = e.getBoundingClientRect(), inside = e.closest(".scroll");

			if (shown(e) && (!inside || inside === e) && at.right > room + .5)
				wrong.push(`${called(e)} ends at ${at.right}, of ${room}`);
			if (shown(e) && inside !== e && e.scrollWidth > e.clientWidth + 1 && e.clientWidth &&
			    getComputedStyle(e).overflowX !== "visible")
				wrong.push(`${called(e)} is cut off`);
			if (e.tagName === "BUTTON" && shown(e) && (at.width < 24 || at.height < 24))
				wrong.push(`${called(e)} is too small to be hit`);
		}
		for (const e of all("caption span"))
			if (e.getBoundingClientRect().right > room)
				wrong.push(`${called(e)} cannot be read without moving its table`);
		return wrong;
	}

	// --- what the page is made of ---

	function structure()
	{
		const wrong = [], ids = all("[id]").map(e => e.id), need = (good, text) => good || wrong.push(text);
		const headings = all("h1, h2, h3, h4, h5, h6"), level = e => Number(e.tagName[1]);
		const landmarks = all("section, [role=region]").map(e => e.getAttribute("aria-labelledby"));

		need(/^[a-z]{2}(-|$)/.test(document.documentElement.lang), "no language");
		need(document.title.trim(), "no title");
		need(all("h1").length === 1 && all("main").length === 1, "not one h1 and one main");
		need(!/user-scalable|maximum-scale/.test(all("meta[name=viewport]")[0].content), "must not be enlarged");
		headings.forEach((h, i) => {
			need(level(h) <= (i ? level(headings[i - 1]) + 1 : 1), `${called(h)} leaves a level out`);
			need(h.textContent.trim(), `${called(h)} is empty`);
		});
		need(new Set(ids).size === ids.length, "an id is there twice");
		need(new Set(landmarks).size === landmarks.length, "two landmarks of one name");
		for (const e of all("[aria-labelledby]"))
			for (const id of e.getAttribute("aria-labelledby").split(" "))
				need(document.getElementById(id), `${called(e)} is named by ${id}, which is not there`);
		for (const e of all("a[href^='#']"))
			need(document.querySelector(e.hash), `${called(e)} leads nowhere`);
		for (const t of all("table")) {
			need(t.caption && t.caption.textContent.trim(), `${called(t)} has no caption`);
			need(t.querySelector("thead th[scope=col]"), `${called(t)} has no head`);
			t.querySelectorAll("th").forEach(h => need(["col", "row"].includes(h.scope), `${called(h)} has no scope`));
			t.querySelectorAll("tbody tr").forEach(r => need(r.querySelector("th[scope=row], td[colspan]"),
									 `${called(r)} has no head`));
		}
		for (const s of all("svg"))
			need(s.getAttribute("aria-hidden") === "true" ||
			     s.getAttribute("role") === "img" && s.getAttribute("aria-label"), `${called(s)} says nothing`);
		for (const e of all("[tabindex]"))
			need(e.tabIndex <= 0 && e.getAttribute("role") &&
			     (e.getAttribute("aria-labelledby") || e.getAttribute("aria-label")), `${called(e)} has no role and name`);
		for (const e of all("a, button"))
			need(e.textContent.trim() || e.getAttribute("aria-label"), `${called(e)} has no name`);
		for (const d of all("dl > div, dl"))
			need(d.querySelector("dt") && d.querySelector("dd"), `${called(d)} is no list of terms`);
		for (const e of all("body *"))
			need(![...e.attributes].some(({name}) => name.startsWith("on")), `${called(e)} has a script`);
		need(all("[aria-live]").length === 1 && all("main [aria-live], main[aria-live]").length === 0,
		     "each number would be read aloud");
		return wrong;
	}

	// --- the keyboard ---

	const reachable = () => all("a[href], button, input, select, textarea, summary, [tabindex='0']")
		.filter(e => !e.hidden && e.checkVisibility());

	// Of what has the focus now: which of the reachable it is, and what is wrong with how that is shown.
	function focus()
	{
		const e = document.activeElement, style = getComputedStyle(e), at = e.getBoundingClientRect(), wrong = [];
		const width = parseFloat(style.outlineWidth), far = Math.max(0, width + parseFloat(style.outlineOffset));

		if (e === document.body)
			return {index: -1, wrong};
		if (style.outlineStyle === "none" || width < 2)
			wrong.push(`${called(e)}: the focus is not shown`);
		else if (ratio(colour(style.outlineColor), ground(far ? e.parentElement : e)) < 3)
			wrong.push(`${called(e)}: the focus is hardly seen`);
		if (at.bottom < 0 || at.right < 0 || at.top > innerHeight || at.left > innerWidth)
			wrong.push(`${called(e)}: the focus is outside of the window`);
		for (let up = e.parentElement; up !== document.documentElement; up = up.parentElement) {
			const clip = up.getBoundingClientRect();

			if (getComputedStyle(up).overflowX !== "visible" &&
			    (at.left - far < clip.left - .5 || at.right + far > clip.right + .5))
				wrong.push(`${called(e)}: what shows the focus is cut off`);
		}
		return {index: reachable().indexOf(e), wrong};
	}

	return {contrast, width, structure, focus, reachable: () => reachable().map(called)};
})();
