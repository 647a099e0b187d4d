# `c-program.lua-suite`: Lua's own test suite. Each of its files is a case, run as its authors recommend for systems
# other than Linux (_port). The output of a file contains times and sizes, so only its exit code is compared. Left out:
# attrib (writes next to its scripts), main (parses the shell's error messages), heavy (takes all memory), literals
# (asks for the locale pt_BR and expects a decimal comma if the C library accepts it; musl accepts every name).
echo "=== big (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' big.lua
echo "code $?"
echo "=== bitwise (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' bitwise.lua
echo "code $?"
echo "=== bwcoercion (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' bwcoercion.lua
echo "code $?"
echo "=== calls (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' calls.lua
echo "code $?"
echo "=== closure (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' closure.lua
echo "code $?"
echo "=== constructs (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' constructs.lua
echo "code $?"
echo "=== coroutine (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' coroutine.lua
echo "code $?"
echo "=== cstack (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' cstack.lua
echo "code $?"
echo "=== db (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' db.lua
echo "code $?"
echo "=== errors (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' errors.lua
echo "code $?"
echo "=== events (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' events.lua
echo "code $?"
echo "=== files (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' files.lua
echo "code $?"
echo "=== gc (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' gc.lua
echo "code $?"
echo "=== gengc (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' gengc.lua
echo "code $?"
echo "=== goto (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' goto.lua
echo "code $?"
echo "=== locals (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' locals.lua
echo "code $?"
echo "=== math (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' math.lua
echo "code $?"
echo "=== nextvar (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' nextvar.lua
echo "code $?"
echo "=== pm (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' pm.lua
echo "code $?"
echo "=== sort (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' sort.lua
echo "code $?"
echo "=== strings (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' strings.lua
echo "code $?"
echo "=== tpack (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' tpack.lua
echo "code $?"
echo "=== utf8 (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' utf8.lua
echo "code $?"
echo "=== vararg (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' vararg.lua
echo "code $?"
echo "=== verybig (the code alone)"
lua -e '_port = true _soft = true _nomsg = true' verybig.lua
echo "code $?"
exit 0
