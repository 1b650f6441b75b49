-- Requests the paths of a file, one path a line, in order and over again.
-- Prints one line "wrk-result {JSON}" that load.py reads.
-- Each request is cut out of the file's text when it is due: formatting them
-- all in advance would take longer than a short run.

local text, position, head, tail

function init(args)
   local file = assert(io.open(args[1], "rb"))
   text = file:read("*a")
   file:close()
   assert(text:sub(-1) == "\n", "the list of paths must end with a newline")
   position = 1
   head = "GET "
   tail = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\n\r\n"
end

function request()
   local eol = text:find("\n", position, true)
   if not eol then
      position = 1
      eol = text:find("\n", 1, true)
   end
   local path = text:sub(position, eol - 1)
   position = eol + 1
   return head .. path .. tail
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
