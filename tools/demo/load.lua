-- SPDX-License-Identifier: GPL-2.0
-- wrk script: a new connection for each request, targets by popularity (Zipf, the same every
-- time), one JSON line at the end. Arguments: file of targets, seed. One thread only.

local targets, reach, client = {}, {}, nil
nodes = {}

function setup(thread)
	client = thread
end

function init(args)
	local sum = 0

	for line in io.lines(args[1]) do
		targets[#targets + 1] = line
		sum = sum + 1 / (#targets + 20) ^ 0.8
		reach[#targets] = sum
	end
	for i = 1, #reach do
		reach[i] = reach[i] / sum
	end
	math.randomseed(tonumber(args[2]))
end

function request()
	local x, low, high = math.random(), 1, #reach

	while low < high do
		local middle = math.floor((low + high) / 2)

		if reach[middle] < x then
			low = middle + 1
		else
			high = middle
		end
	end
	return wrk.format("GET", targets[low], { Host = "demo", Connection = "close" })
end

-- Who answered, as the answer itself says.
function response(status, headers)
	local node = headers["X-Node"] or "nobody"

	nodes[node] = (nodes[node] or 0) + 1
end

function done(summary, latency)
	local e, by_node = summary.errors, {}

	for name, count in pairs(client:get("nodes")) do
		by_node[#by_node + 1] = string.format('"%s":%d', name, count)
	end
	io.write(string.format('{"requests":%d,"bytes":%d,"seconds":%.3f,"median_ms":%.1f,' ..
		'"p99_ms":%.1f,"nodes":{%s},"errors":{"connect":%d,"read":%d,"write":%d,' ..
		'"status":%d,"timeout":%d}}\n', summary.requests, summary.bytes,
		summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
		table.concat(by_node, ","), e.connect, e.read, e.write, e.status, e.timeout))
end
