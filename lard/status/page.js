// SPDX-License-Identifier: GPL-2.0
/*
 * lardd sends what changes as HTML, in which it has escaped all that others have named. Only what differs is
 * changed, so that a selection, the focus and a table's scrolling stay where they are.
 */
"use strict";

const main = document.getElementById("status");
const live = document.getElementById("live");
const news = document.getElementById("news");
const pause = document.getElementById("pause");
const PATIENCE = 5000;	// milliseconds; something comes each second
let source = null;
let silence = 0;
let paused = false;
let nodes = document.getElementById("nodes-up").textContent;

function renew(from, to)
{
	if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
		from.replaceWith(to.cloneNode(true));
		return;
	}
	if (from.nodeType !== Node.ELEMENT_NODE) {
		if (from.data !== to.data)
			from.data = to.data;
		return;
	}
	for (const {name, value} of to.attributes)
		if (from.getAttribute(name) !== value)
			from.setAttribute(name, value);
	for (const {name} of [...from.attributes])
		if (!to.hasAttribute(name))
			from.removeAttribute(name);
	renewChildren(from, to);
}

function renewChildren(from, to)
{
	const had = [...from.childNodes], has = [...to.childNodes];

	has.forEach((node, i) => i < had.length ? renew(had[i], node) : from.append(node.cloneNode(true)));
	had.slice(has.length).forEach(node => node.remove());
}

// Aloud only what somebody must know: not each number.
function say(text)
{
	if (news.textContent !== text)
		news.textContent = text;
}

function show(event)
{
	const fresh = new DOMParser().parseFromString("<main>" + event.data + "</main>", "text/html");
	const up = fresh.getElementById("nodes-up").textContent;

	expect();
	renewChildren(main, fresh.querySelector("main"));
	if (up !== nodes || live.className)
		say(up + " nodes get requests");
	nodes = up;
	live.textContent = "live";
	live.className = "";
}

function lost()
{
	live.textContent = "lardd does not answer; these numbers are old";
	live.className = "bad";
	say(live.textContent);
}

// A machine that has died closes no connection.
function expect()
{
	clearTimeout(silence);
	silence = setTimeout(() => {
		lost();
		hush();
		listen();
	}, PATIENCE);
}

function listen()
{
	expect();
	source = new EventSource("events");
	source.onmessage = show;
	source.onerror = lost;
}

function hush()
{
	clearTimeout(silence);
	if (source)
		source.close();
	source = null;
}

// Nobody looks at a hidden page.
function settle()
{
	if (paused || document.hidden)
		hush();
	else if (!source)
		listen();
}

pause.onclick = () => {
	paused = !paused;
	pause.setAttribute("aria-pressed", paused);
	live.textContent = paused ? "paused" : "live";
	settle();
};
pause.hidden = false;
document.addEventListener("visibilitychange", settle);
addEventListener("pagehide", hush);
addEventListener("pageshow", settle);
