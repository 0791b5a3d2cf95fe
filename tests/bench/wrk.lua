-- SPDX-License-Identifier: Apache-2.0
-- What does wrk send? Requests that stand whole in a file, apart by a zero byte: a byte 1 stands where a number that never
-- comes again belongs, a byte 2 where `pass` and `warn` take turns.
-- wrk -s wrk.lua URL -- FILE THREADS START

local threads = 0

function setup(thread)
    thread:set("id", threads)
    threads = threads + 1
end

local requests, at, sent, start, visits = {}, 0, 0, "", {}

local function split(text, mark)
    local parts, from = {}, 1
    while true do
        local found = text:find(mark, from, true)
        if not found then
            parts[#parts + 1] = text:sub(from)
            return parts
        end
        parts[#parts + 1] = text:sub(from, found - 1)
        from = found + 1
    end
end

function init(args)
    local file = assert(io.open(args[1], "rb"))
    local all = split(file:read("*a"), "\0")
    file:close()
    -- Each thread has requests of its own: two never speak for one node at once.
    for index = #all > 1 and id + 1 or 1, #all, tonumber(args[2]) do
        requests[#requests + 1] = split(all[index], "\1")
    end
    start = args[3]
end

function request()
    at = at % #requests + 1
    sent = sent + 1
    local parts = requests[at]
    if #parts == 1 then
        return parts[1]
    end
    local text = table.concat(parts, string.format("%s%01d%07d", start, id, sent))
    if text:find("\2", 1, true) then
        visits[at] = 1 - (visits[at] or 0)
        text = text:gsub("\2", visits[at] == 1 and "warn" or "pass")
    end
    return text
end

function done(summary, latency, _)
    local wrong = summary.errors
    io.write(string.format("RESULT %d %d %d %d %d %d\n", summary.requests, summary.duration, wrong.status,
        wrong.connect + wrong.read + wrong.write + wrong.timeout, latency:percentile(50), latency:percentile(99)))
end
