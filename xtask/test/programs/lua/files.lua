-- The io library: every way to read and write, in the folder for temporary files.
local name = os.getenv("TMP") .. "/file.txt"
local file = assert(io.open(name, "w"))
print(io.type(file), io.type(42), file:write("first\n", 2, "\n", 3.5, "\nlast without an end") == file)
print(file:seek("cur"), file:close(), io.type(file), pcall(file.write, file, "x"))
for line in io.lines(name) do io.write("[", line, "]") end
print()
for line in io.lines(name, "L") do io.write(line) end
print()
file = assert(io.open(name))
print(file:read("l", "n", "n", "l", "a"), file:read("a"), file:read("l"), file:read(0))
print(file:seek("set", 2), file:read(3), file:seek("end"), file:seek("cur", -3), file:read("a"))
file:close()
file = assert(io.open(name, "a")) file:write("\nappended") file:close()
file = assert(io.open(name, "r+")) file:write("FIRST") file:seek("set", 0) print(file:read("a")) file:close()
print(pcall(io.lines, name .. ".missing") == false, io.open(name, "r"):read("n"))
file = assert(io.open(name, "rb")) print(file:write("x") == nil) file:close()
-- Much data, with every kind of buffer.
for _, buffer in ipairs { "no", "line", "full" } do
    file = assert(io.open(name, "w")) print(file:setvbuf(buffer, 4096))
    for i = 1, 3000 do file:write(i, " ", i * i, "\n") end
    file:close()
    local lines, sum = 0, 0
    for a, b in io.lines(name, "n", "n") do lines, sum = lines + 1, sum + b - a end
    print(lines, sum, io.open(name):seek("end"))
end
file = assert(io.open(name, "wb"))
local bytes = {} for i = 0, 255 do bytes[#bytes + 1] = string.char(i) end
local all = table.concat(bytes):rep(4096)
file:write(all) file:flush() file:close()
print(#assert(io.open(name, "rb")):read("a"), assert(io.open(name, "rb")):read("a") == all)
local temporary = io.tmpfile() temporary:write("temporary") temporary:seek("set") print(temporary:read("a"), temporary:close())
io.output(name) io.write("through the default output\n") io.close() io.output(io.stdout)
io.input(name) print(io.read("L")) io.close(io.input()) io.input(io.stdin)
local many = {}
for i = 1, 200 do many[i] = assert(io.open(name .. i, "w")) many[i]:write(i) end
for i = 1, 200 do many[i]:close() end
local sum = 0
for i = 1, 200 do local one = io.open(name .. i) sum = sum + one:read("n") one:close() os.remove(name .. i) end
print(sum, (io.open(name .. 1)))
do local closing <close> = assert(io.open(name, "w")) closing:write("closed by leaving") end
print(io.open(name):read("a"), os.remove(name))
