//! Generates the entry points from the definitions of system calls, and passes the image's layout to the linker.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::{env, fs};

use abi::{
    VDSO_RESTRICTED, hafnon_endpoint_message_t, hafnon_vproc_events_t, hafnon_vproc_page_t, hafnon_vproc_vectors_t,
    vdso_constants, vdso_restricted, vdso_time_values, zx_clock_details_v1_t, zx_clock_rate_t,
    zx_clock_transformation_t,
};

#[path = "src/arch/x86_64/offsets.rs"]
mod registers;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = env::var("CARGO_MANIFEST_DIR")?;
    let here = Path::new(&here);
    let definitions = here.join("../../abi/syscalls");
    println!("cargo::rerun-if-changed={}", definitions.display());
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=vdso.ld");
    println!("cargo::rerun-if-changed=exports.ver");

    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let calls = abi_gen::load(&definitions)?;
    fs::write(out.join("offsets.s"), offsets()?)?;
    fs::write(out.join("stubs.s"), abi_gen::stubs::assembly(&calls))?;
    let statuses: Vec<(&str, i32)> = abi::STATUSES.iter().map(|(name, status)| (*name, status.0)).collect();
    fs::write(out.join("statuses.s"), abi_gen::stubs::status_strings(&statuses))?;

    fs::write(out.join("entries.rs"), entries(&calls)?)?;

    if env::var("CARGO_CFG_TARGET_OS")? == "fuchsia" {
        for arg in [
            format!("-T{}", here.join("vdso.ld").display()),
            format!("--version-script={}", here.join("exports.ver").display()),
            format!("--defsym=VDSO_DATA_CONSTANTS={:#x}", abi::VDSO_DATA_CONSTANTS),
            format!("--defsym=VDSO_DATA_TIME_VALUES={:#x}", abi::VDSO_DATA_TIME_VALUES),
            format!("--defsym=VDSO_CODE_START={:#x}", abi::VDSO_CODE_START),
            "-soname=libzircon.so".to_owned(),
            "--hash-style=gnu".to_owned(),
            "-zdefs".to_owned(),
            "-zrodynamic".to_owned(),
            "-znorelro".to_owned(),
            // The server embeds the file. Programs look up symbols in the dynamic symbol table, so no other is needed.
            "--strip-all".to_owned(),
        ] {
            println!("cargo::rustc-cdylib-link-arg={arg}");
        }
    }
    Ok(())
}

/// Generates a list of all entry points, for the tests.
fn entries(calls: &[abi_gen::Syscall]) -> Result<String, std::fmt::Error> {
    let mut out = String::from("unsafe extern \"C\" {\n");
    for call in calls {
        writeln!(out, "    fn zx_{0}();\n    fn _zx_{0}();", call.name)?;
    }
    out.push_str("}\n\nconst ENTRIES: &[Entry] = &[\n");
    for call in calls {
        let stub = call.via == abi_gen::Via::Server && !call.wrapper;
        writeln!(
            out,
            "    Entry {{ nr: {0}, stub: {stub}, function: zx_{1}, alias: _zx_{1} }},",
            call.number, call.name
        )?;
    }
    out.push_str("];\n");
    Ok(out)
}

/// Defines the offsets of the blobs' fields for the assembler.
fn offsets() -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    let mut set = |name: &str, value: usize| writeln!(out, ".set {name}, {value}");
    registers::offsets(&mut set)?;
    set("C_MAX_NUM_CPUS", offset_of!(vdso_constants, max_num_cpus))?;
    set("C_FEATURES", offset_of!(vdso_constants, features))?;
    set("C_DCACHE_LINE_SIZE", offset_of!(vdso_constants, dcache_line_size))?;
    set("C_PAGE_SIZE", offset_of!(vdso_constants, page_size))?;
    set("C_PHYSMEM", offset_of!(vdso_constants, physmem))?;
    set("C_VERSION_STRING_LEN", offset_of!(vdso_constants, version_string_len))?;
    set("C_VERSION_STRING", size_of::<vdso_constants>())?;
    set("C_SIZE", abi::VDSO_DATA_CONSTANTS_SIZE)?;
    set("T_TICKS_PER_SECOND", offset_of!(vdso_time_values, ticks_per_second))?;
    set("T_BOOT_TICKS_OFFSET", offset_of!(vdso_time_values, boot_ticks_offset))?;
    set("T_MONO_TICKS_OFFSET", offset_of!(vdso_time_values, mono_ticks_offset))?;
    set("T_NUMERATOR", offset_of!(vdso_time_values, ticks_to_time_numerator))?;
    set("T_DENOMINATOR", offset_of!(vdso_time_values, ticks_to_time_denominator))?;
    set("T_SIZE", size_of::<vdso_time_values>())?;
    // A mapped clock: `objects/src/time/clock.rs` describes the page.
    set("CLOCK_DETAILS", 8)?;
    set("CLOCK_DETAILS_SIZE", size_of::<zx_clock_details_v1_t>())?;
    set("CLOCK_QUERY_TICKS", offset_of!(zx_clock_details_v1_t, query_ticks))?;
    set("CLOCK_BACKSTOP", 8 + offset_of!(zx_clock_details_v1_t, backstop_time))?;
    let line = 8 + offset_of!(zx_clock_details_v1_t, reference_to_synthetic);
    set("CLOCK_REFERENCE", line + offset_of!(zx_clock_transformation_t, reference_offset))?;
    set("CLOCK_SYNTHETIC", line + offset_of!(zx_clock_transformation_t, synthetic_offset))?;
    let rate = line + offset_of!(zx_clock_transformation_t, rate);
    set("CLOCK_RATE_SYNTHETIC", rate + offset_of!(zx_clock_rate_t, synthetic_ticks))?;
    set("CLOCK_RATE_REFERENCE", rate + offset_of!(zx_clock_rate_t, reference_ticks))?;
    // Restricted mode.
    set("R_STATE", VDSO_RESTRICTED + offset_of!(vdso_restricted, state))?;
    set("R_SLOT", VDSO_RESTRICTED + offset_of!(vdso_restricted, slot))?;
    set("R_OWED", VDSO_RESTRICTED + offset_of!(vdso_restricted, owed))?;
    set("R_KICKED", VDSO_RESTRICTED + offset_of!(vdso_restricted, kicked))?;
    set("R_VECTOR", VDSO_RESTRICTED + offset_of!(vdso_restricted, vector))?;
    set("R_CONTEXT", VDSO_RESTRICTED + offset_of!(vdso_restricted, context))?;
    set("R_FLAGS", abi::HAFNON_RESTRICTED_FLAGS as usize)?;
    set("STOP_KICK", abi::HAFNON_RESTRICTED_STOP_KICK as usize)?;
    set("STOP_PAGE_FAULT", abi::HAFNON_RESTRICTED_STOP_PAGE_FAULT as usize)?;
    set("STOP_EXCEPTION", abi::HAFNON_RESTRICTED_STOP_EXCEPTION as usize)?;
    // Messages to endpoints.
    set("E_LABEL", offset_of!(hafnon_endpoint_message_t, label))?;
    set("E_BADGE", offset_of!(hafnon_endpoint_message_t, badge))?;
    set("E_COUNT", offset_of!(hafnon_endpoint_message_t, count))?;
    set("E_WORDS", offset_of!(hafnon_endpoint_message_t, words))?;
    set("E_WORDS_MAX", abi::HAFNON_ENDPOINT_WORDS)?;
    set("E_LABELS", abi::HAFNON_ENDPOINT_LABELS as usize)?;
    set("E_ANSWERS", abi::HAFNON_ENDPOINT_ANSWERS as usize)?;
    set("E_NO_WAIT", abi::HAFNON_ENDPOINT_NO_WAIT as usize)?;
    set("E_SLOTS_FROM", abi::HAFNON_ENDPOINT_SLOTS_FROM as usize)?;
    set("E_SLOTS_END", abi::HAFNON_ENDPOINT_SLOTS_END as usize)?;
    // The page of a virtual processor.
    macro_rules! page {
        ($($name:literal $field:ident)*) => { $(set($name, offset_of!(hafnon_vproc_page_t, $field))?;)* };
    }
    page!("V_REASON" reason "V_VECTOR" vector "V_CODE" code "V_ADDRESS" address "V_FAULT_IP" ip "V_SLOT" slot);
    page!("V_STATE" state);
    let events = abi::HAFNON_VPROC_EVENTS_OFFSET as usize;
    macro_rules! events {
        ($($name:literal $field:ident)*) => { $(set($name, events + offset_of!(hafnon_vproc_events_t, $field))?;)* };
    }
    events!("V_ENABLED" enabled "V_PENDING" pending "V_ENTRY_IP" entry_ip "V_ENTRY_SP" entry_sp);
    events!("V_RESUME_FROM" resume_from "V_RESUME_TO" resume_to "V_VECTORS" vectors);
    set("U_UPPER", offset_of!(hafnon_vproc_vectors_t, upper))?;
    set("U_ARGUMENTS", offset_of!(hafnon_vproc_vectors_t, arguments))?;
    for (name, reason) in [
        ("VPROC_NONE", abi::HAFNON_VPROC_REASON_NONE),
        ("VPROC_SYSCALL", abi::HAFNON_VPROC_REASON_SYSCALL),
        ("VPROC_PAGE_FAULT", abi::HAFNON_VPROC_REASON_PAGE_FAULT),
        ("VPROC_EXCEPTION", abi::HAFNON_VPROC_REASON_EXCEPTION),
        ("VPROC_FOREIGN_CALL", abi::HAFNON_VPROC_REASON_FOREIGN_CALL),
        ("VPROC_KICK", abi::HAFNON_VPROC_REASON_KICK),
    ] {
        set(name, reason as usize)?;
    }
    // The thread's IPC buffer.
    set("MESSAGE", abi_gen::stubs::buffer_word(0))?;
    set("BUFFER_ARG_5", abi_gen::stubs::buffer_word(4))?;
    set("BUFFER_ARG_6", abi_gen::stubs::buffer_word(5))?;
    set("BUFFER_ARG_7", abi_gen::stubs::buffer_word(6))?;
    set("BUFFER_ARG_8", abi_gen::stubs::buffer_word(7))?;
    Ok(out)
}
