-- UTF-8.
local text = "aé√🦀ελ"
print(#text, utf8.len(text), utf8.char(72, 228, 8730, 129408), utf8.charpattern == "[\0-\x7F\xC2-\xFD][\x80-\xBF]*")
for at, code in utf8.codes(text) do io.write(at, ":", ("U+%04X"):format(code), " ") end
print(utf8.codepoint(text, 1, -1))
print(utf8.offset(text, 3), utf8.offset(text, -1), utf8.len("\xff"), utf8.len("abc\xE4", 1))
print(pcall(utf8.codepoint, "\xff"), select(2, pcall(function() for _ in utf8.codes("ab\xff") do end end)))
for char in text:gmatch(utf8.charpattern) do io.write("[", char, "]") end
print(utf8.len("\u{7FFFFFFF}", 1, -1, true), utf8.char(0x7FFFFFFF):byte(1, -1))
