-- The garbage collector: much garbage, finalizers, weak tables.
collectgarbage()
local before = collectgarbage("count")
for round = 1, 20 do
    local garbage = {}
    for i = 1, 20000 do garbage[i] = { i, tostring(i) } end
end
collectgarbage()
print(collectgarbage("count") < before + 200)
local finalized = 0
for i = 1, 1000 do setmetatable({}, { __gc = function() finalized = finalized + 1 end }) end
collectgarbage() collectgarbage()
print(finalized)
local weak = setmetatable({}, { __mode = "k" })
for i = 1, 100 do weak[{}] = i end
local kept = {}
weak[kept] = "kept"
collectgarbage()
local left = 0
for _ in pairs(weak) do left = left + 1 end
print(left, weak[kept])
print(collectgarbage("generational"), collectgarbage("incremental"), collectgarbage("isrunning"), collectgarbage("step"))
local big = ("x"):rep(50 * 1024 * 1024)
print(#big, #(big .. big:sub(1, 10)))
big = nil
collectgarbage()
print(collectgarbage("count") < before + 1000)
print(pcall(string.rep, "x", 1 << 62))
setmetatable({}, { __gc = function() print("closed with the state") end })
