-- Large tables, sorting, metatables.
local seed = 42
local function random() seed = (seed * 1103515245 + 12345) % 2147483648 return seed end
local list = {}
for i = 1, 200000 do list[i] = random() end
table.sort(list)
local ordered = true
for i = 2, #list do ordered = ordered and list[i - 1] <= list[i] end
print(#list, ordered, list[1], list[100000], list[#list])
table.sort(list, function(a, b) return a > b end)
print(list[1], list[#list])
print(pcall(table.sort, { 3, 1, 2, 5, 4, 7, 6, 9, 8, 10, 12, 11 }, function(a, b) return true end))
local map = {}
for i = 1, 100000 do map["key " .. i] = i end
local count, sum = 0, 0
for key, value in pairs(map) do count, sum = count + 1, sum + value end
for i = 1, 100000, 2 do map["key " .. i] = nil end
local left = 0
for _ in pairs(map) do left = left + 1 end
print(count, sum, left, map["key 2"], map["key 1"])
print(table.concat({ 1, 2.5, "x" }, ";"), table.unpack({ 1, 2, 3 }, 2), select("#", table.unpack({}, 1, 5)))
print(table.concat(table.move({ 1, 2, 3 }, 1, 3, 2), ","), table.remove({ 1, 2, 3 }), table.remove({}), #table.pack(1, nil, 3))
local t = { 1, 2, 3 } table.insert(t, 1, 0) table.insert(t, 9) print(table.concat(t, " "), pcall(table.insert, t, 99, 1))
local vector = setmetatable({}, { __index = function(_, k) return k * 2 end, __newindex = function(t, k, v) rawset(t, k, v + 1) end,
    __len = function() return 99 end, __call = function(_, a, b) return a + b end, __tostring = function() return "a vector" end,
    __eq = function() return true end, __lt = function() return true end, __concat = function(a, b) return "joined" end,
    __unm = function() return "minus" end, __idiv = function() return "idiv" end, __band = function() return "and" end })
vector[5] = 5
print(vector[21], vector[5], #vector, vector(3, 4), tostring(vector), vector < vector, vector .. "x", -vector, vector // 1, vector & 1)
local matrix = {}
for i = 1, 120 do matrix[i] = {} for j = 1, 120 do matrix[i][j] = (i * j) % 17 end end
local product = 0
for i = 1, 120 do for j = 1, 120 do local s = 0 for k = 1, 120 do s = s + matrix[i][k] * matrix[k][j] end product = (product * 31 + s) % 1000000007 end end
print(product)
