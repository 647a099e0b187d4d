-- Integers, floats, and the C library's mathematical functions.
print(1 // 0.0, -7 // 2, -7 % 3, 7 % -3, -7.5 % 2, 5.3 % math.huge, 2 ^ 0.5, 7 // 2.0, 1e308 * 10)
print(math.maxinteger + 1 == math.mininteger, math.maxinteger * 2, 1 << 63, 1 << 64, -1 >> 1, ~0, 5 & 3, 5 | 3, 5 ~ 3)
print(math.type(1), math.type(1.0), math.type("1"), math.tointeger(3.0), math.tointeger(3.5), 3 | 0, pcall(function() return 3.5 | 0 end))
print(math.floor(-3.5), math.ceil(-3.5), math.fmod(-7, 3), math.modf(-3.7), math.abs(math.mininteger), math.ult(1, -1))
for _, name in ipairs { "sin", "cos", "tan", "asin", "acos", "atan", "exp", "log", "sqrt" } do
    for _, x in ipairs { 0, 0.1, 0.5, 0.99, -0.7, 1 } do io.write(("%s(%g)=%.15g "):format(name, x, math[name](x))) end
    print()
end
print(math.log(8, 2), math.log(1000, 10), math.log(2, 3), math.exp(1), math.atan(1, -1), math.pi, math.max(1, 2.5, -1), math.min(3, 1))
math.randomseed(7, 9)
for i = 1, 10 do io.write(math.random(1000), " ") end
print(math.random(0) ~= nil, math.random() < 1, pcall(math.random, 2, 1))
print(0x7fffffffffffffff, 0xffffffffffffffff, 9223372036854775807, 9223372036854775808, 1e2, .5, 0x.1p4, 3 == 3.0, "3" == 3)
print(0 / 0 ~= 0 / 0, -(0 / 0) ~= 0, 1 / 0 > 0, -1 / 0 < 0, 1 / -0.0)
for i = 1, 3 do io.write(i, " ") end for i = 1.0, 2, 0.25 do io.write(i, " ") end for i = 3, 1, -1 do io.write(i, " ") end
print(pcall(function() for i = 1, 10, 0 do end end))
local a, b = 0, 1
for _ = 1, 90 do a, b = b, a + b end
print(a, 2 ^ 53 == 2 ^ 53 + 1, (2 ^ 53 | 0) + 1)
