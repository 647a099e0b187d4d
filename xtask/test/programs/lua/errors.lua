-- Errors: pcall, xpcall, error objects, tracebacks, to-be-closed variables.
print(pcall(error, "plain"))
print(pcall(error, { code = 7 }) == false, select(2, pcall(error, { code = 7 })).code)
print(pcall(error, "with a level", 2))
print(pcall(error))
print(select(2, pcall(function() return nil + 1 end)))
print(select(2, pcall(function() local t = {} t.x.y = 1 end)))
print(select(2, pcall(function() return #5 end)))
print(select(2, pcall(function() return {} < {} end)))
print(select(2, pcall(function() return 1 // 0 end)), pcall(function() return 1.0 // 0 end))
print(select(2, pcall(string.rep, "x", -1)), select(2, pcall(string.rep)))
print(xpcall(function() error("inner") end, function(message) return "handled: " .. message end))
print((xpcall(function() local x = nil; x() end, function(message) return debug.traceback(message, 1) end)))
local function deep(n) return n == 0 and 0 or 1 + deep(n - 1) end
print(deep(10000), (pcall(deep, 1e7)))
print(select(2, pcall(function() local function f() return f() + 1 end return f() end)):match("stack overflow"))
do
    local log = {}
    local function closing(name) return setmetatable({}, { __close = function(_, e) log[#log + 1] = name .. ":" .. tostring(e) end }) end
    print(pcall(function()
        local a <close> = closing("a")
        local b <close> = closing("b")
        error("leaving", 0)
    end))
    print(table.concat(log, " "))
end
print(load("x ="), load("return 1 + 1")(), load("for"), load("goto nowhere"))
print(pcall(setmetatable, 1, {}), pcall(next, {}, "no such key"))
print(assert(1, "fine"), pcall(assert, false, "assertion text"), pcall(assert, nil))
