# `c-program.lua`: Lua programs. Each file of xtask/test/programs/lua is a case.
echo "=== strings"
lua strings.lua
echo "code $?"
echo "=== formats"
lua formats.lua
echo "code $?"
echo "=== errors"
lua errors.lua
echo "code $?"
echo "=== coroutines"
lua coroutines.lua
echo "code $?"
echo "=== tables"
lua tables.lua
echo "code $?"
echo "=== numbers"
lua numbers.lua
echo "code $?"
echo "=== utf8"
lua utf8.lua
echo "code $?"
echo "=== memory"
lua memory.lua
echo "code $?"
echo "=== system"
lua system.lua
echo "code $?"
echo "=== files"
lua files.lua
echo "code $?"
echo "=== modules"
lua modules.lua
echo "code $?"
echo "=== its own command line"
lua -v
lua -e 'print(arg[0], #arg, ...)' empty.lua a b c
echo "code $?"
echo "=== errors, files that are not there, os.exit"
lua -e 'local function f() error("on purpose") end f()'
echo "code $?"
lua missing.lua
echo "code $?"
lua -e 'os.exit(7)'
echo "code $?"
lua -e 'os.exit(false)'
echo "code $?"
exit 0
