-- Requests the paths of a file, one path a line, in order and over again.
-- Prints one line "wrk-result {JSON}" that load.py reads.
-- Each request is made before the run: made when it is due it would cost wrk a
-- fifth of its time, and wrk is what limits the fastest servers.

local requests, count, position = {}, 0, 0
local threads = 0

function setup(thread)
   thread:set("number", threads)
   threads = threads + 1
end

function init(args)
   local tail = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\n\r\n"
   for path in io.lines(args[1]) do
      count = count + 1
      requests[count] = "GET " .. path .. tail
   end
   assert(count > 0, "there must be a path")
   -- the first thread begins at the beginning, a second one in the middle
   position = math.floor(count * number / (number + 1))
end

function request()
   -- wrk asks the first thread for one request more, which it does not send
   if number == 0 then
      number = nil
      return requests[1]
   end

   position = position + 1
   if position > count then
      position = 1
   end
   return requests[position]
end

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format(
      'wrk-result {"requests":%d,"bytes":%d,"seconds":%.6f,'
      .. '"connect_errors":%d,"read_errors":%d,"write_errors":%d,'
      .. '"status_errors":%d,"timeouts":%d,'
      .. '"latency_mean_us":%.1f,"latency_p50_us":%.1f,'
      .. '"latency_p99_us":%.1f,"latency_max_us":%.1f}\n',
      summary.requests, summary.bytes, summary.duration / 1e6,
      errors.connect, errors.read, errors.write,
      errors.status, errors.timeout,
      summary.requests > 0 and latency.mean or 0,
      latency:percentile(50), latency:percentile(99), latency.max))
end
