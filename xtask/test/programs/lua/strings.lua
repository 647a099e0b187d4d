-- The string library: patterns, packing, quoting.
print(("Hello"):upper(), ("Hello"):lower(), ("abc"):rep(3, "-"), ("abc"):reverse(), #"\0a\0")
print(("key = value"):match("^(%w+)%s*=%s*(%w+)$"))
print(("hello world from Lua"):gsub("(%w+)", "<%1>"))
print(("hello"):gsub("", "-"), ("abc"):gsub("%w", { a = "1", b = false }), ("abc"):gsub("%w", string.byte))
for word, at in ("one two  three"):gmatch("(%a+)()") do io.write(word, "@", at, " ") end
print()
print(("f(a(b)c)d"):match("%b()"), ("THE (quick) fox"):find("%((%a+)%)"), ("a.b"):find(".", 2, true))
print(("%a %f[%w]"):len(), ("THE (quick) fox"):gsub("%f[%a]%a+", string.lower))
print(string.byte("ABC", 1, -1), string.char(72, 105), ("x"):byte(10))
print(string.format("%q", 'a "quoted"\n\0 string\r\\'), string.format("%q %q %q", 1, 0.1, math.mininteger))
print(string.pack("<i4 z s1", 100, "abc", "de"):byte(1, -1))
print(string.unpack("<i4 z s1", string.pack("<i4 z s1", -7, "abc", "de")))
print(string.packsize("<!8 i4 d"), #string.pack("<d f j", 1.5, 2.5, 3))
local parts = {}
for i = 1, 20000 do parts[#parts + 1] = tostring(i) end
local all = table.concat(parts, ",")
print(#all, select(2, all:gsub(",", "")), all:sub(-11))
print(tostring(nil), tostring(true), tostring(12), tostring(-0.0), ("%s|%10s|%-10s|%.2s"):format(nil, "a", "b", "cde"))
print("\u{48}\x49\z
       joined", [[long
string]], "a" < "b", "a" .. 1 .. 2.0, "10" + 5, "0x10" * 2)
