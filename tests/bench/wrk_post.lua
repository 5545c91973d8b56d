-- Posts one body again and again, and says in JSON what came of it. Arguments: the body's file, then headers.

function init(args)
  local file = assert(io.open(args[1], "rb"))
  wrk.method = "POST"
  wrk.body = file:read("*a")
  file:close()
  for index = 2, #args, 2 do
    wrk.headers[args[index]] = args[index + 1]
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  local form = '{"requests": %d, "elapsed_us": %d, "bad_status": %d, "failed": %d, "p50_us": %d, "p99_us": %d}\n'
  io.write(string.format(
    form, summary.requests, summary.duration, errors.status, failed, latency:percentile(50), latency:percentile(99)
  ))
end
