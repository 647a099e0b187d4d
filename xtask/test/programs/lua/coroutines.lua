-- Coroutines: setjmp and longjmp in every combination.
local function numbers(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i, i * i) end return "end" end) end
local next_number = numbers(3)
print(next_number()) print(next_number()) print(next_number()) print(next_number()) print(pcall(next_number))
local co = coroutine.create(function(...)
    print("got", ...)
    local more = coroutine.yield(select("#", ...))
    print("then", more, coroutine.isyieldable(), coroutine.running() ~= nil)
    error("from inside")
end)
print(coroutine.resume(co, 1, nil, 3)) print(coroutine.status(co)) print(coroutine.resume(co, "x")) print(coroutine.status(co))
print(coroutine.resume(co))
local function permutations(list, n)
    if n <= 1 then coroutine.yield(table.concat(list, "")) end
    for i = 1, n do
        list[n], list[i] = list[i], list[n]
        permutations(list, n - 1)
        list[n], list[i] = list[i], list[n]
    end
end
local count, last = 0, nil
for text in coroutine.wrap(function() permutations({ "a", "b", "c", "d", "e", "f" }, 6) end) do count, last = count + 1, text end
print(count, last)
-- Yields through pcall and through a metamethod; through a sort it is impossible.
print(coroutine.wrap(function() return pcall(function() coroutine.yield("through pcall") error("after") end) end)())
local meta = setmetatable({}, { __add = function(a, b) return coroutine.yield("in __add") end })
local adder = coroutine.wrap(function() return meta + 1 end)
print(adder()) print(adder("sum"))
print(pcall(coroutine.wrap(function() table.sort({ 3, 2, 1 }, function(a, b) coroutine.yield() return a < b end) end)))
local chain = coroutine.wrap(function() return "bottom" end)
for i = 1, 150 do local below = chain chain = coroutine.wrap(function() return below() end) end
print(chain())
local all = {}
for i = 1, 5000 do all[i] = coroutine.create(function() local x = i while true do x = x + (coroutine.yield(x) or 0) end end) end
local total = 0
for round = 1, 3 do for i = 1, #all do total = total + select(2, coroutine.resume(all[i], round)) end end
print(total, coroutine.close(all[1]), coroutine.status(all[1]))
