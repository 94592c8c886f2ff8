"""How gdb shows what is unio's.

    print X               of a task, an operation, a multiplexer, a result: in words
    unio-bt X             the chain of coroutines that X belongs to, innermost first. X: an operation, something
                          awaited, a task, a coroutine handle, a promise, or the address of a coroutine's frame
    unio-bt               the same of every operation in flight, of every multiplexer. Needs a library with
                          debug information (-g)

The chain is read from the frames in memory: no thread runs, so it works on core files too, and without
UNIO_TRACK_PENDING. A coroutine's name is that of the function at its resume pointer. Where the program has no
debug information the layouts are those of x86-64 and AArch64 without UNIO_TRACK_PENDING.

gdb loads this by itself for a shared library that is installed below /usr; otherwise: source unio-gdb.py
"""
import errno
import os
import re

import gdb

UNIO = r"unio::(?:v\d+_\d+::)?"
LONGEST_CHAIN = 1000

# ── memory and symbols ──────────────────────────────────────────────────────────────────────────────────────


def word(address):
    """The pointer there. Raises gdb.MemoryError."""
    pointer = gdb.lookup_type("unsigned long").pointer()
    return int(gdb.Value(address).cast(pointer).dereference())


def symbol_at(address):
    """The demangled name of the symbol that begins there; of a vtable, 16 bytes further. None: there is none."""
    try:
        said = gdb.execute("info symbol %d" % address, to_string=True)
    except gdb.error:
        return None
    found = re.match(r"(.*?)(?: \+ (\d+))? in section ", said)
    if not found:
        return None
    begins = int(found[2] or 0)
    return found[1] if begins == (16 if found[1].startswith("vtable for ") else 0) else None


def type_named(name):
    """The type, or None. Versions of unio are inline namespaces, whose name is a part of it."""
    try:
        return gdb.lookup_type(name)
    except gdb.error:
        return None


def version():
    """The inline namespace, with its colons: "v0_1::"."""
    if "version" not in known:
        said = gdb.execute("info types -q ::io_operation$", to_string=True)
        found = re.search(r"unio::(v\d+_\d+::)io_operation;", said)
        if not found:
            return ""
        known["version"] = found[1]
    return known["version"]


known = {}  # of the program


def own_type(name):
    return type_named("unio::" + version() + name)


def bases(t):
    """The type's classes, itself first."""
    t = t.strip_typedefs()
    yield t
    if t.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return
    for f in t.fields():
        if f.is_base_class:
            yield from bases(f.type)


def derives_from(t, name):
    wanted = re.compile(UNIO + name + r"(?:<.*>)?$")
    return any(b.name and wanted.match(b.name) for b in bases(t))


def offset_of(t, field, otherwise):
    """Of a member of the class or its bases, in bytes. `otherwise`: where the type is not known."""
    if t is None:
        return otherwise
    for f in t.strip_typedefs().fields():
        if f.name == field and hasattr(f, "bitpos"):
            return f.bitpos // 8
        if f.is_base_class:
            inside = offset_of(f.type, field, None)
            if inside is not None:
                return f.bitpos // 8 + inside
    return otherwise


def members(v):
    """Whether the value has such a member can only be tried."""
    def get(*names):
        for name in names:
            try:
                return v[name]
            except gdb.error:
                pass
        return None
    return get


def referred(v):
    t = v.type.strip_typedefs()
    if t.code == gdb.TYPE_CODE_PTR:
        return v.dereference()
    if t.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        return v.referenced_value()
    return v


def last_word(enumerator):
    """"unio::v0_1::driver::place::in_kernel" as "in kernel"."""
    return str(enumerator).split("::")[-1].replace("_", " ")


# ── coroutines ──────────────────────────────────────────────────────────────────────────────────────────────


def frame_of(handle):
    """The address in a std::coroutine_handle, of libstdc++ or libc++."""
    at = members(handle)("_M_fr_ptr", "__handle_")
    return int(at) if at is not None else None


def function_of(resume):
    """Name and place of the coroutine whose frame has this resume pointer."""
    name, place = None, ""
    try:
        block = gdb.block_for_pc(resume)
    except (gdb.error, RuntimeError):
        block = None
    while block is not None and block.function is None:
        block = block.superblock
    if block is not None:
        name = block.function.linkage_name or block.function.name
        at = gdb.find_pc_line(resume)
        if at.symtab is not None:
            place = " at %s:%d" % (os.path.basename(at.symtab.filename), at.line)
    minimal = symbol_at(resume)
    return named(name, minimal), place


def demangled(name):
    try:
        return gdb.execute("demangle -l c++ -- " + name, to_string=True).strip()
    except gdb.error:
        return name


def named(linkage, minimal):
    """What the source calls it. GCC's function for a coroutine f has f's mangled name in the type of its
    parameter, Clang's is a clone of f."""
    for text in (linkage, minimal):
        if not text:
            continue
        frame = re.search(r"\b(_Z\w+?)\.[Ff]rame\*", text)
        if frame:
            return demangled(frame[1])
    for text in (minimal, linkage):
        if not text:
            continue
        text = re.sub(r" ?\[clone [^]]*\]", "", text)
        text = re.sub(r"\.(?:resume|actor|cleanup|destroy)$", "", text)
        return demangled(text) if text.startswith("_Z") else text
    return None


def promise_type(resume):
    """From the debug information of the function that resumes, or None."""
    try:
        block = gdb.block_for_pc(resume)
    except (gdb.error, RuntimeError):
        return None
    while block is not None:
        for symbol in block:
            if symbol.name == "__promise":  # Clang's
                return symbol.type
            if symbol.is_argument:  # GCC's: the frame
                t = symbol.type.strip_typedefs()
                if t.code == gdb.TYPE_CODE_PTR and t.target().code == gdb.TYPE_CODE_STRUCT:
                    for f in t.target().fields():
                        if f.name in ("_Coro_promise", "__p"):
                            return f.type
        if block.function is not None:
            return None
        block = block.superblock
    return None


NOT_UNIOS = "what awaits that is not known: it is no coroutine of unio's"


class Chain:
    """A coroutine and those that await it, in lines of text, the innermost first."""

    def __init__(self, frame):
        self.frame = frame

    def lines(self, first=""):
        """`first`: what stands before the first one's name, if it waits for an operation."""
        frame, before = self.frame, first
        for _ in range(LONGEST_CHAIN):
            if not frame:
                return
            try:
                resume, destroy = word(frame), word(frame + 8)
            except gdb.MemoryError:
                yield "the frame at %#x cannot be read" % frame
                return
            name, place = function_of(resume or destroy)
            if name is None:
                yield "no coroutine at %#x" % frame
                return
            yield before + name + place + ("" if resume else ", which has ended")
            before = "awaited by "
            promise = promise_type(resume or destroy)
            if promise is not None and not derives_from(promise, "detail::promise_base"):
                yield NOT_UNIOS
                return
            alignment = max(promise.alignof if promise is not None else 8, 8)
            at = frame + (16 + alignment - 1) // alignment * alignment
            base = own_type("detail::promise_base")
            n = word(at + offset_of(base, "next_", 0))
            if n & 1:
                said, frame = self.listener(n & ~7)
                yield said
            else:
                frame = n & ~7
                if not frame and first:  # one that runs has something to go on with
                    yield NOT_UNIOS
        yield "and so on"

    @staticmethod
    def listener(at):
        """What is notified when a task has ended, in place of a coroutine; and the coroutine that waits for
        that."""
        listener = own_type("detail::end_listener")
        function = symbol_at(word(at + offset_of(listener, "function_", 0)))
        of = first_argument(function, "child<")
        if of is None:
            return "in something of unio's at %#x" % at, None
        short = re.sub(UNIO + r"(?:detail::)?", "", of.split("<")[0])
        said = "in " + LISTENERS.get(short, short)
        t = type_named(of)
        if t is None or listener is None:
            return said, None
        value = gdb.Value(at).cast(listener.pointer()).cast(t.pointer()).dereference()
        for name in ("of_", ""):
            holder = value
            if name:
                inner = members(value)(name)
                if inner is None:
                    continue
                holder = referred(inner)
            caller = members(holder)("caller_")
            if caller is not None:
                return said, frame_of(caller)
        return said, None


LISTENERS = {  # what dump_pending() calls them
    "async_root": "async_run",
    "waited_root": "run",
    "run_on_awaitable": "run_on",
    "gathered": "when_all, when_any or race",
    "member_of_group": "task_group",
    "timeout_awaitable": "timeout",
}


def first_argument(text, before):
    """Of the template whose name and bracket are `before`."""
    begin = (text or "").find(before)
    if begin < 0:
        return None
    begin += len(before)
    depth = 0
    for i in range(begin, len(text)):
        c = text[i]
        if c in "<({":
            depth += 1
        elif c in ">)}" and not text.startswith("->", i - 1):
            if depth == 0:
                return text[begin:i].strip()
            depth -= 1
        elif c == "," and depth == 0:
            return text[begin:i].strip()
    return None


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────

STARTED, COMPLETED, FINISHED = 1, 2, 4


def seconds(ns):
    return ("%.9f" % (ns / 1e9)).rstrip("0").rstrip(".") + " s"


def described_deadline(deadline):
    kind, ns = last_word(deadline["kind_"]), int(deadline["ns_"])
    if kind == "none":
        return ""
    if kind == "relative":
        return ", within " + seconds(ns)
    return ", until %s of the %s clock" % (seconds(ns), kind)


def described_operation(op):
    """As dump_pending() has it: what, on what, where it is, and until when."""
    if int(op["faces_"]) == 0:
        return "no operation"
    text = op["faces_"]["name"].string()
    fd = int(op["fd_"])
    kind = last_word(op["kind_"])
    if fd >= 0:
        text += " on %s %d" % ("descriptor" if kind == "none" else kind, fd)
    state = int(op["state_"])
    marks = op["links"]["is"]
    if state & FINISHED:
        text += ", finished: " + described_outcome(int(op["result_"]))
    elif state & COMPLETED:
        text += ", completed, not finished: " + described_outcome(int(op["result_"]))
    elif state & STARTED:
        text += ", " + last_word(marks["where"])
        if int(marks["cancel_wanted"]):
            text += ", being cancelled"
        if int(marks["in_heap"]):
            text += ", due at %s of the steady clock" % seconds(int(op["links"]["due"]))
    else:
        text += ", not started"
    return text + described_deadline(op["deadline_"])


def described_outcome(result):
    if result >= 0:
        return str(result)
    if result < -4096:
        return "unio's error %d" % (-result - 4096)
    return errno.errorcode.get(-result, str(result))


def class_of(function):
    """Of "A<B>::notify(io_operation&, unsigned)"."""
    return re.sub(r"::\w+\([^()]*\)(?: noexcept)?$", "", function) if function else None


def awaiter_of(op):
    """What an operation notifies, and the frame of the coroutine that awaits it, or None."""
    function = symbol_at(int(op["notify_"])) if int(op["notify_"]) else None
    if function is None:
        return None, None
    of = class_of(function)
    if re.match(UNIO + "io_awaitable<", of):
        # detail::awaiting comes before the operation: see set_atomic()
        awaiting = own_type("detail::awaiting")
        size = awaiting.sizeof if awaiting is not None else 48
        at = int(op.address) - size
        t = type_named(of)
        if t is not None:
            whole = op.address.cast(t.pointer())
            at = int(whole) + offset_of(t, "handle_", 24) - offset_of(awaiting, "handle_", 24)
        return None, word(at + offset_of(awaiting, "handle_", 24))
    return of, None


def chain_of_operation(op):
    yield described_operation(op)
    notified, frame = awaiter_of(op)
    if frame:
        for line in Chain(frame).lines("awaited by "):
            yield "    " + line
    elif notified is not None:
        yield "    notifies " + notified


# ── multiplexers ────────────────────────────────────────────────────────────────────────────────────────────


def driver_of(engine):
    """By the class of its backend, which needs no debug information."""
    backend = word(int(engine["backend_"].address))
    if backend == 0:
        return "no driver's"
    table = symbol_at(word(backend)) or ""
    found = re.search(r"(\w+)_backend", table)
    name = found[1] if found else "unknown"
    return "io_uring" if name == "uring" else name


def described_engine(engine):
    n = int(engine["in_flight_"])
    return "%s multiplexer, %d pending" % (driver_of(engine), n)


def engine_in(value):
    """The engine that an io_multiplexer is, or None."""
    t = value.dynamic_type
    if t.name and re.match(UNIO + r"driver::engine$", t.name):
        return value.cast(t) if t == value.type else value.address.cast(t.pointer()).dereference()
    return None


def operations_of(engine):
    """What is in flight, as driver::engine::for_each_in_flight."""
    table = engine["descriptors_"]
    entries = table["entries_"]["data_"]
    lists = [table["none_"]] + [entries[i] for i in range(int(table["used_"]) if int(entries) else 0)]
    for descriptor in lists:
        op = descriptor["in_flight"]
        while int(op):
            yield op.dereference()
            op = op["links"]["next_on_handle"]


def engines():
    """Of the process, the newest first."""
    member = own_type("driver::closing_member")
    if member is None or own_type("driver::engine") is None:
        raise gdb.GdbError("the engines are not known without the library's debug information: "
                           "build it with -g, or name an operation, a task or a frame")
    try:
        first = "'unio::%sdriver::(anonymous namespace)::first'" % version()
        m = int(gdb.parse_and_eval("*(unsigned long*)&" + first))
    except gdb.error as e:
        raise gdb.GdbError("the list of engines cannot be read: " + str(e))
    while m:
        each = gdb.Value(m).cast(member.pointer()).dereference()
        yield referred(each["self_"])
        m = int(each["next_"])


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────


class Backtrace(gdb.Command):
    """Print the chain of coroutines that something of unio's belongs to, innermost first.

unio-bt EXPRESSION: an operation, something awaited, a task, a coroutine handle, a promise, or the address of
a coroutine's frame.
unio-bt: every operation in flight, of every multiplexer (needs the library's debug information)."""

    def __init__(self):
        super().__init__("unio-bt", gdb.COMMAND_STACK, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        for line in self.lines(argument.strip()):
            print(line)

    def lines(self, argument):
        if not argument:
            for engine in engines():
                yield described_engine(engine)
                for op in operations_of(engine):
                    for line in chain_of_operation(op):
                        yield "  " + line
            return
        try:
            value = gdb.parse_and_eval(argument)
        except gdb.error as e:
            raise gdb.GdbError(str(e))
        if value.type.strip_typedefs().code != gdb.TYPE_CODE_PTR or \
                value.type.strip_typedefs().target().code != gdb.TYPE_CODE_VOID:
            value = referred(value)
        t = value.type.strip_typedefs()
        if derives_from(t, "io_operation"):
            yield from chain_of_operation(value)
            return
        frame = None
        if derives_from(t, "detail::task_core") or derives_from(t, "detail::task_awaiter"):
            frame = frame_of(value["child_"])
            if not frame:
                yield "an empty task"
                return
        elif t.name and re.match(r"std::(__\w+::)?coroutine_handle<", t.name):
            frame = frame_of(value)
        elif derives_from(t, "detail::promise_base"):
            alignment = max(t.alignof, 8)
            frame = int(value.address) - (16 + alignment - 1) // alignment * alignment
        elif t.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_PTR):
            frame = int(value)
        else:
            raise gdb.GdbError("%s is neither an operation nor a task, a coroutine handle, a promise or the "
                               "address of a frame" % t)
        yield from Chain(frame).lines()


# ── printers ────────────────────────────────────────────────────────────────────────────────────────────────


class TaskPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        frame = frame_of(self.value["child_"])
        if not frame:
            return "an empty task"
        for line in Chain(frame).lines():
            return "a task: " + line


class OperationPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return described_operation(self.value)


class MultiplexerPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        engine = engine_in(self.value)
        if engine is not None:
            return described_engine(engine)
        name = self.value.dynamic_type.name or ""
        return "a multiplexer: " + name if name else "a multiplexer"


class ResultPrinter:
    """std::expected of libstdc++ or libc++, in a result or io_result."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        get = members(self.value)
        has = get("_M_has_value", "__has_val_")
        if has is None:
            has = members(get("__repr_"))("__has_val_") if get("__repr_") is not None else None
        if has is None:
            return "a result"
        if int(has):
            value = get("_M_val")
            text = "success" if value is None else "value " + value.format_string()
        else:
            error = get("_M_unex")
            text = "error" if error is None else "error " + described_error(error)
        bytes_moved = get("bytes_transferred_")
        if bytes_moved is not None:
            text += ", %d bytes moved" % int(bytes_moved)
        return text


def described_error(code):
    number = int(members(code)("_M_value", "__val_"))
    category = int(members(code)("_M_cat", "__cat_"))
    table = symbol_at(word(category)) or ""
    if re.search(UNIO, table):
        t = own_type("error")
        return last_word(gdb.Value(number).cast(t)) if t is not None else "%d of unio" % number
    if re.search(r"(system|generic)_error_category", table):
        return "%s (%s)" % (errno.errorcode.get(number, str(number)), os.strerror(number))
    if not table:  # libstdc++ is stripped of their names
        return "%d (of the system: %s)" % (number, errno.errorcode.get(number, "none"))
    return "%d of %s" % (number, table.replace("vtable for ", ""))


def printer_for(value):
    t = value.type.strip_typedefs()
    if t.code != gdb.TYPE_CODE_STRUCT or not t.name or "unio::" not in t.name:
        return None
    if re.match(UNIO + r"task<", t.name):
        return TaskPrinter(value)
    if re.match(UNIO + r"(?:io_)?result<", t.name):
        return ResultPrinter(value)
    if derives_from(t, "io_operation"):
        return OperationPrinter(value)
    if derives_from(t, "io_multiplexer"):
        return MultiplexerPrinter(value)
    return None


printer_for.name = "unio"
printer_for.enabled = True


def install():
    where = gdb.current_objfile() or gdb
    where.pretty_printers = [p for p in where.pretty_printers if getattr(p, "name", "") != "unio"]
    where.pretty_printers.append(printer_for)
    Backtrace()
    gdb.events.clear_objfiles.connect(lambda event: known.clear())


install()
