-- Numbers as text: everything goes through the C library's printf and strtod.
local values = { 0, -0.0, 1, -1, 0.1, 1 / 3, 2 / 3, 1e15, 1e16, 1e100, 1e-100, 123456.789, 1.7976931348623157e308,
    2.5, 3.5, 0.5, 1.5, 9.995, 99999.5, 1e21, 123456789012345680, math.pi, math.huge, -math.huge }
for _, value in ipairs(values) do
    for _, form in ipairs { "%g", "%.3f", "%e", "%.14g", "%.17g", "%10.2f|", "%-12.4e|", "%+g", "% g", "%#g", "%05.1f", "%a", "%.0f", "%.3a" } do
        io.write(form:format(value), " ")
    end
    print()
end
for _, value in ipairs { 0, 1, -1, 255, math.maxinteger, math.mininteger } do
    for _, form in ipairs { "%d", "%5d|", "%-5d|", "%05d", "%+d", "%x", "%X", "%#x", "%o", "%i", "%.8d", "%c" } do
        if form ~= "%c" then io.write(form:format(value), " ") end
    end
    print()
end
for _, text in ipairs { "1", "0x1p4", "1e1", " 10 ", "0x.8", "1e", "", "abc", "0x", "1e400", "-0", "9007199254740993", "9223372036854775808", ".5", "5.", "0x1.8p-2", "inf", "nan", "1 2" } do
    io.write(("%q=%s "):format(text, tostring(tonumber(text))))
end
print()
for base = 2, 36, 7 do io.write(tostring(tonumber("1011", base)), " ") end
print(tonumber("zz", 36), tonumber("8", 8))
local sum = 0
for i = 1, 100000 do sum = sum + 1 / i end
print(sum, ("%.17g"):format(sum))
for i = 1, 300 do
    local value = (i * 2654435761 % 4294967296) * 10.0 ^ (i % 60 - 30)
    local text = ("%.17g"):format(value)
    assert(tonumber(text) == value, text)
    io.write(text, i % 5 == 0 and "\n" or " ")
end
