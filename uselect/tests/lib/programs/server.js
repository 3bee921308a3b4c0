// SPDX-License-Identifier: GPL-2.0
// server.js PORT: GET /N answers with N bytes, GET /child with what a child prints.
const http = require('http');
const { execFile } = require('child_process');

const server = http.createServer((request, response) => {
	const answer = (body) => response.writeHead(200, { 'Content-Length': body.length }).end(body);

	if (request.url === '/child')
		execFile('echo', ['child'], (error, stdout) => answer(error ? String(error) : stdout));
	else
		answer('x'.repeat(Number(request.url.slice(1))));
});
// Node's own 5 seconds are over between two requests on a machine that is busy enough.
server.keepAliveTimeout = 120000;
server.listen(Number(process.argv[2]), '127.0.0.1', 1000);
