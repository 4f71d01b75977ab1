-- wrk sends as many requests at once as stand in one string: `-- DEPTH` after the URL.
-- It then waits for all of their answers before it sends the next string.
function init(args)
  local depth = tonumber(args[1])
  local one = wrk.format("GET")
  local all = {}
  for n = 1, depth do
    all[n] = one
  end
  requests = table.concat(all)
end

function request()
  return requests
end
