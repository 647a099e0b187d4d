//! Tests what the reader refuses, and what the emitters generate from a small definition.

use std::path::Path;

use abi_gen::load::{check, parse};
use abi_gen::model::Sweep;
use abi_gen::{Error, Support, Syscall, Via, header, load, numbers, pages, stubs, test_info};

const READ: &str = r#"
[[syscall]]
name = "thing_read"
number = 7
args = [
    { name = "handle", type = "handle" },
    { name = "buffer", type = "void", dir = "out", array = true, len = "size", optional = true },
    { name = "size", type = "usize" },
    { name = "when", type = "time" },
    { name = "a", type = "u32" },
    { name = "b", type = "u32" },
    { name = "items", type = "zx_wait_item_t", dir = "inout" },
    { name = "actual", type = "usize", dir = "out" },
]
returns = "status"
via = "server"
blocking = true
rights = [{ arg = "handle", object = "thing", needs = ["READ", "WAIT"] }]
errors = [{ status = "SHOULD_WAIT", when = "Nothing is there." }]
since = "2018-11"
support = { partial = "Waiting is not implemented." }
doc = """
Reads a thing. And more."""

[syscall.tests]
sweep = [["tested", "memory", 8, 0, "ZX_THING_FAST | 2", 0, "unswept", "optional"]]
longest = ["thing.read"]
"#;

fn read() -> Syscall {
    parse("thing", READ).expect("the definition is well-formed").remove(0)
}

/// The error for a definition that differs from a good one.
fn complaint(change: impl FnOnce(&mut Syscall)) -> String {
    let mut call = read();
    change(&mut call);
    match check(&[call]) {
        Err(Error::Call(name, what)) => format!("{name}: {what}"),
        other => panic!("accepted: {other:?}"),
    }
}

#[test]
fn a_definition_is_read() {
    let call = read();
    assert!(check(std::slice::from_ref(&call)).is_ok());
    assert_eq!((call.noun.as_str(), call.number, call.via, call.blocking), ("thing", 7, Via::Server, true));
    assert_eq!(call.support, Support::Partial("Waiting is not implemented.".into()));
    assert_eq!(call.args[1].len.as_deref(), Some("size"));
    assert_eq!(call.doc, "Reads a thing. And more.");
}

#[test]
fn contradictions_are_refused() {
    assert!(complaint(|c| c.args.push(c.args[0].clone())).contains("9 arguments"));
    assert!(complaint(|c| c.args[0].ty = "zx_handle".into()).contains("argument handle: unknown type zx_handle"));
    assert!(complaint(|c| c.args[0].ty = "zx_wait_item_t".into()).contains("passed by address"));
    assert!(complaint(|c| c.args[1].len = Some("length".into())).contains("its len length is no argument"));
    assert!(complaint(|c| c.args[1].len = None).contains("an array needs len"));
    assert!(complaint(|c| c.args[3].optional = true).contains("for pointers"));
    assert!(complaint(|c| c.args[5].name = "a".into()).contains("two arguments are called a"));
    assert!(complaint(|c| c.number = 0).contains("number 0"));
    assert!(complaint(|c| c.number = 1 << 20).contains("number 1048576"));
    assert!(complaint(|c| c.name = "Thing".into()).contains("small letters"));
    assert!(complaint(|c| c.returns = "int".into()).contains("unknown type int"));
    assert!(complaint(|c| c.noreturn = true).contains("returns void"));
    assert!(complaint(|c| c.rights[0].arg = "x".into()).contains("asked of x"));
    assert!(complaint(|c| c.errors[0].status = "ZX_ERR_IO".into()).contains("without ZX_ERR_"));
    assert!(complaint(|c| c.since = "2017".into()).contains("vintage"));
    assert!(complaint(|c| c.doc = String::new()).contains("what it does"));
    assert!(complaint(|c| c.support = Support::Unsupported(String::new())).contains("what is missing"));
    assert!(complaint(|c| (c.wrapper, c.via) = (true, Via::Vdso)).contains("wrapper"));
    assert!(complaint(|c| c.args[2].consumed = true).contains("argument size: consumed is for handles"));
    let both = |c: &mut Syscall| (c.args[4].flags, c.args[4].one_of) = (vec!["ZX_A_".into()], vec!["ZX_B_".into()]);
    assert!(complaint(both).contains("argument a: it is either flags or one_of"));
    assert!(complaint(|c| c.tests.sweep = None).contains("tests.sweep is missing"));
    assert!(complaint(|c| c.tests.sweep = Some(Sweep::Rows(vec![vec![]]))).contains("has 0 arguments, not 8"));
    assert!(complaint(|c| c.tests.longest = None).contains("tests.longest is missing"));
}

#[test]
fn names_and_numbers_are_given_once() {
    let (first, mut second) = (read(), read());
    second.noun = "other".into();
    let twice = check(&[first.clone(), second.clone()]).expect_err("the same name").to_string();
    assert_eq!(twice, "system call thing_read: defined in thing.toml and again in other.toml");
    second.name = "thing_write".into();
    let twice = check(&[first, second]).expect_err("the same number").to_string();
    assert_eq!(twice, "system call thing_write: has the number 7 of thing_read");
}

#[test]
fn unknown_fields_are_refused() {
    assert!(parse("thing", &READ.replace("blocking", "bloking")).is_err());
    assert!(parse("thing", &READ.replace("optional", "nullable")).is_err());
    assert!(parse("thing", &READ.replace("partial", "mostly")).is_err());
}

#[test]
fn rust_has_the_number_and_the_entry() {
    let text = numbers::rust(&[read()]);
    assert!(text.contains("pub const THING_READ: u32 = 7;"));
    assert!(text.contains(r#"support: Support::Partial("Waiting is not implemented.")"#));
}

#[test]
fn rust_has_what_tests_know() {
    let text = test_info::rust(&[read()]);
    let row = r#"SweepArg::Tested(Some("thing")), SweepArg::Memory, SweepArg::Number(8), SweepArg::Number(0), \
                 SweepArg::Number(crate::ZX_THING_FAST as u64 | 2), SweepArg::Number(0), SweepArg::Unswept, SweepArg::Optional"#;
    let row = row.replace("\\\n                 ", "");
    assert!(text.contains(&row), "{text}");
    assert!(text.contains(r#"longest: Longest::Cases(&["thing.read"])"#));
}

#[test]
fn c_has_the_prototype() {
    assert_eq!(
        header::prototype("zx_", &read()),
        "zx_status_t zx_thing_read(zx_handle_t handle, void* buffer, size_t size, zx_time_t when, uint32_t a, uint32_t b, \
         zx_wait_item_t* items, size_t* actual);"
    );
}

#[test]
fn c_structures_come_after_what_they_hold() {
    let outer = header::Structure { name: "zx_o_t", doc: "Outer.", size: 40, fields: vec![("i", "[zx_i_t; 2]")] };
    let inner = header::Structure {
        name: "zx_i_t",
        doc: "Inner.",
        size: 20,
        fields: vec![("type_", "u32"), ("st", "[[u64; 1]; 2]")],
    };
    let text = header::types([("ZX_A", "u32", 1 << 31), ("ZX_B", "zx_time_t", i128::from(i64::MIN))], &[outer, inner]);
    assert!(text.find("zx_i {") < text.find("zx_o {"));
    assert!(text.contains("    uint32_t type;\n    uint64_t st[2][1];\n"));
    assert!(text.contains("zx_i_t i[2];"));
    assert!(text.contains("#define ZX_A ((uint32_t)0x80000000ull)"));
    assert!(text.contains("#define ZX_B ((zx_time_t)(-0x7fffffffffffffffll - 1))"));
}

#[test]
fn a_stub_fills_all_eight_words() {
    let text = stubs::assembly(&[read()]);
    for line in [
        "mov r10, rdi",
        "mov r8, rsi",
        "mov r9, rdx",
        "mov r15, rcx",
        "mov gs:[40], r8",
        "mov gs:[48], r9",
        "mov rax, [rsp + SAVED_BYTES + 8 + 0]",
        "mov gs:[56], rax",
        "mov rax, [rsp + SAVED_BYTES + 8 + 8]",
        "mov gs:[64], rax",
        "enter_server NR_THING_READ",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    // r8 and r9 are arguments before they become words of the message.
    assert!(text.find("gs:[40], r8") < text.find("mov r8, rsi"));
    assert!(text.find("gs:[48], r9") < text.find("mov r9, rdx"));
    assert!(text.contains(".set _zx_thing_read, zx_thing_read"));
}

#[test]
fn a_call_that_never_returns_traps_if_it_does() {
    let mut call = read();
    (call.noreturn, call.returns) = (true, "void".into());
    let text = stubs::assembly(&[call]);
    assert!(text.contains("ud2") && !text.contains("    ret\n"));
}

#[test]
fn unsupported_calls_of_the_vdso_return_not_supported() {
    let mut call = read();
    (call.via, call.support) = (Via::Vdso, Support::Unsupported("Not yet.".into()));
    assert!(stubs::assembly(&[call]).contains("mov eax, -2"));
}

#[test]
fn strings_of_statuses_leave_no_gap() {
    let text = stubs::status_strings(&[("ZX_OK", 0), ("ZX_ERR_X", -3)]);
    assert!(text.contains("STATUS_LIMIT, 4"));
    assert_eq!(text.matches(".long").count(), 5);
    assert_eq!(text.matches(".long string_unknown").count(), 3);
}

#[test]
fn a_page_has_the_contents_of_the_definition() {
    let page = pages::page(&read());
    for part in [
        "# zx_thing_read",
        "`ZX_RIGHT_READ` and `ZX_RIGHT_WAIT`",
        "`ZX_ERR_SHOULD_WAIT`: Nothing is there.",
        "Implemented in part. Waiting is not implemented.",
        "address of bytes, counted by `size`, or null",
        "The call can block.",
    ] {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
    assert!(pages::index(&[read()]).contains("- [zx_thing_read](thing_read.md) (in part): Reads a thing."));
    assert!(
        pages::compatibility(&[read()])
            .contains("Of Zircon's 1 system calls, Hafnon implements 0 in full and 1 in part; 0 return")
    );
}

#[test]
fn the_definitions_fit_together() {
    let calls = load(Path::new(env!("CARGO_MANIFEST_DIR")).join("../syscalls")).expect("the definitions are valid");
    assert!(calls.is_sorted_by_key(|call| call.number));
    // Of the calls that the vDSO answers, only those wait that receive messages past the server.
    assert!(calls.iter().filter(|call| call.blocking).all(|call| call.via == Via::Server || call.is_ours()));
}
