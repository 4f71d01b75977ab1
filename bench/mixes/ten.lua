-- The mix of ten.toml, as wrk has it: each request is put together when its turn comes.
-- `-- FILE DEPTH` after the URL: the file of terms, and how many are sent at once (see ../pipeline.lua).
local terms, bounds, sum, depth = {}, {}, 0, 1
local burst = {}

function init(args)
  for line in io.lines(args[1]) do
    terms[#terms + 1] = line
  end
  table.remove(terms, 1)
  depth = tonumber(args[2])
  for route = 0, 9 do
    sum = sum + 10 - route
    bounds[route] = sum
  end
end

local function one()
  local drawn = math.random(sum)
  local route = 0
  while drawn > bounds[route] do
    route = route + 1
  end
  return wrk.format("GET", "/simple?r=" .. route .. "&q=" .. terms[math.random(#terms)])
end

function request()
  if depth == 1 then
    return one()
  end
  for n = 1, depth do
    burst[n] = one()
  end
  return table.concat(burst)
end
