# For gdb: processes of a Hafnon system by name, their symbols, and breakpoints in them. `./hafnon run --gdb` writes
# this file and config.json next to it, and prints how to start gdb with it.
#
# 1. gdb attaches before the first instruction and runs to the server's.
# 2. There it sets the server's flag that a debugger is attached.
# 3. From then on, each time a process has mapped code, the server reports of which images the process consists. It
#    passes a text to a function of its own, and a breakpoint on that function reads the text here.
# 4. Build ids identify the images; the files with debug information are on the host.
#
# Every process has its images at its own random addresses, so a breakpoint at an address belongs to one process.
import json
import os

import gdb

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.json")) as file:
    CONFIG = json.load(file)


class Process:
    """A process that has told of its images."""

    def __init__(self, koid, name):
        self.koid, self.name = koid, name
        self.images = []
        self.loaded = set()

    def load(self):
        """Loads the symbols of its images; says how many files were new."""
        new = 0
        for base, name, build_id in self.images:
            path = CONFIG["files"].get(build_id)
            if path and base not in self.loaded:
                gdb.execute(f"add-symbol-file {quoted(path)} -o {base:#x}", to_string=True)
                self.loaded.add(base)
                new += 1
        return new


# Maximum length of the text for a process in bytes.
LONGEST = 1 << 16

PROCESSES = {}
WANTED = []


def quoted(path):
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Told(gdb.Breakpoint):
    """The function by which the server tells of a process (step 3)."""

    def __init__(self):
        super().__init__(f"*{CONFIG['told']:#x}", internal=True)
        self.silent = True

    def stop(self):
        address, length = (int(gdb.parse_and_eval(r)) & (2**64 - 1) for r in ("$rdi", "$rsi"))
        text = gdb.selected_inferior().read_memory(address, min(length, LONGEST)).tobytes().decode(errors="replace")
        # Names are programs' own words: a line that makes no sense for them is left out.
        try:
            koid, name, images = told(text)
        except ValueError:
            return False
        process = PROCESSES.setdefault(koid, Process(koid, name))
        process.name, process.images = name, images
        return any(wanted == name for wanted, _ in WANTED)


def told(text):
    """A process's number, its name, and its images: address, name and build id of each."""
    head, *lines = text.split("\n")
    _, koid, name = head.split(" ", 2)
    images = []
    for line in filter(None, lines):
        _, base, rest = line.split(" ", 2)
        image, _, build_id = rest.rpartition(" ")
        images.append((int(base, 16), visible(image), build_id))
    return int(koid), visible(name), images


def visible(name):
    """A name in which what acts on a terminal is shown as what it is."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def found(which):
    """A process by its number or name: of several with a name the newest."""
    matches = [p for p in PROCESSES.values() if which in (p.name, str(p.koid))]
    if not matches:
        raise gdb.GdbError(f"no process `{which}` has told of itself; `hafnon ps` lists those that have")
    return max(matches, key=lambda process: process.koid)


def settle():
    """Sets the breakpoints that are possible now."""
    for wanted in list(WANTED):
        name, function = wanted
        for process in [p for p in PROCESSES.values() if p.name == name]:
            process.load()
            if gdb.lookup_static_symbol(function) or gdb.lookup_global_symbol(function) or known(function):
                gdb.Breakpoint(function)
                WANTED.remove(wanted)
                break


def known(function):
    try:
        gdb.decode_line(function)
        return True
    except gdb.error:
        return False


class Hafnon(gdb.Command):
    """Processes of the system: hafnon ps, symbols, break, continue."""

    def __init__(self):
        super().__init__("hafnon", gdb.COMMAND_USER, prefix=True)


class Ps(gdb.Command):
    """hafnon ps: the processes that have loaded a program, with their images."""

    def __init__(self):
        super().__init__("hafnon ps", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        for process in sorted(PROCESSES.values(), key=lambda process: process.koid):
            images = ", ".join(f"{name} {base:#x}" for base, name, _ in process.images)
            print(f"{process.koid:6} {process.name:20} {images}")


class Symbols(gdb.Command):
    """hafnon symbols PROCESS: loads the symbols of a process, by its name or number."""

    def __init__(self):
        super().__init__("hafnon symbols", gdb.COMMAND_FILES)

    def invoke(self, argument, from_tty):
        process = found(argument.strip())
        print(f"{process.name} ({process.koid}): symbols of {process.load()} files loaded")


class Break(gdb.Command):
    """hafnon break PROCESS FUNCTION: stops when a process of that name reaches a function, also one that is to come.
    Go on with `hafnon continue`."""

    def __init__(self):
        super().__init__("hafnon break", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument, from_tty):
        words = argument.split(None, 1)
        if len(words) != 2:
            raise gdb.GdbError("usage: hafnon break PROCESS FUNCTION")
        WANTED.append(tuple(words))
        settle()


class Continue(gdb.Command):
    """hafnon continue: goes on until a breakpoint or the system's end."""

    def __init__(self):
        super().__init__("hafnon continue", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        while True:
            said = gdb.execute("continue", to_string=True)
            if not gdb.selected_inferior().threads() or not at(CONFIG["told"]):
                print(said, end="")
                return
            settle()


def at(address):
    return int(gdb.parse_and_eval("$rip")) & (2**64 - 1) == address


def attach():
    """Steps 1 and 2."""
    for command in ("confirm off", "pagination off", "breakpoint pending off"):
        gdb.execute(f"set {command}")
    gdb.execute(f"symbol-file {quoted(CONFIG['server'])}", to_string=True)
    for path in (CONFIG["root"], CONFIG["kernel"]):
        gdb.execute(f"add-symbol-file {quoted(path)}", to_string=True)
    gdb.execute("set architecture i386:x86-64", to_string=True)
    gdb.execute(f"target remote 127.0.0.1:{CONFIG['port']}", to_string=True)
    gdb.execute(f"thbreak *{CONFIG['entry']:#x}", to_string=True)
    gdb.execute("continue", to_string=True)
    if not at(CONFIG["entry"]):
        raise gdb.GdbError("the server was not reached")
    gdb.selected_inferior().write_memory(CONFIG["attached"], b"\x01")
    Told()
    print("The server is about to start. Try: hafnon break PROCESS FUNCTION, hafnon continue, hafnon ps.")


for command in (Hafnon, Ps, Symbols, Break, Continue):
    command()
attach()
