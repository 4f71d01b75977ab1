-- The mix of ten.toml, as wrk has it: each request is put together when its turn comes.
-- `-- FILE` after the URL is the file of terms.
local terms, bounds, sum = {}, {}, 0

function init(args)
  for line in io.lines(args[1]) do
    terms[#terms + 1] = line
  end
  table.remove(terms, 1)
  for route = 0, 9 do
    sum = sum + 10 - route
    bounds[route] = sum
  end
end

function request()
  local drawn = math.random(sum)
  local route = 0
  while drawn > bounds[route] do
    route = route + 1
  end
  return wrk.format("GET", "/simple?r=" .. route .. "&q=" .. terms[math.random(#terms)])
end
