-- require: modules from files next to the script, from generated files, and missing ones.
package.path = "./modules/?.lua;" .. os.getenv("TMP") .. "/?.lua"
local shapes = require("shapes")
print(shapes.area { shapes.square(3), shapes.circle(1) }, require("shapes") == shapes, package.loaded.shapes == shapes)
local file = assert(io.open(os.getenv("TMP") .. "/written.lua", "w"))
file:write("local name = ... return { name = name, answer = 6 * 7 }") file:close()
print(require("written").name, require("written").answer)
print(pcall(require, "no.such.module") == false, package.config:sub(1, 1), package.searchpath("shapes", package.path))
package.preload.made = function(name, extra) return name .. " from preload" .. tostring(extra) end
print(require("made"))
file = assert(io.open(os.getenv("TMP") .. "/broken.lua", "w")) file:write("this is no Lua") file:close()
print((pcall(require, "broken")), dofile("modules/shapes.lua").square(2).side, (loadfile("missing.lua")))
local chunk = string.dump(function(a, b) return a * b end, true)
print(load(chunk, "chunk", "b")(6, 7), load(chunk, "chunk", "t"))
local environment = { print = print }
load("x = 1; print(x)", "chunk", "t", environment)()
print(environment.x, x, package.loadlib("nothing.so", "*") == nil)
