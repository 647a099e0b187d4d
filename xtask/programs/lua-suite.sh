# Lua's own test suite: `c-program.lua-suite`. Each of its files is a case, run as its authors say for systems that are
# not Linux (_port). What a file prints has times and sizes in it, so only its exit code counts.
# Left out: attrib (writes beside its scripts), main (takes the shell's errors apart), heavy (takes all memory there is), literals (asks for the
# locale pt_BR, and where the C library says yes, as musl does to every name, expects a decimal comma).
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
