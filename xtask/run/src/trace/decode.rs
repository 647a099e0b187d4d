//! Decodes the words of a call by its definition: names of statuses, rights, signals, options; the objects of handles;
//! structures field by field.

use abi::{ArgInfo, Constant, Form, Struct, SyscallInfo};
use fxt::read::{Event, Value};

use super::Objects;

/// A decoded call.
pub struct Call {
    /// Its definition.
    pub info: &'static SyscallInfo,
    /// Its arguments in order, as far as they are known, as name and text.
    pub args: Vec<(&'static str, String)>,
    /// Its result, once it has one.
    pub result: Option<String>,
    /// When it began.
    pub start: u64,
}

impl Call {
    /// Decodes it from its event, and from the event of its begin, if that was a separate one.
    pub fn new(event: &Event, begun: Option<&Event>, objects: &Objects) -> Option<Call> {
        let info = abi::SYSCALLS.iter().find(|call| call.name == event.name)?;
        let start = begun.map_or(event.time, |begun| begun.time);
        let values = || begun.into_iter().flat_map(|begun| &begun.args).chain(&event.args);
        let number = |name: &str| {
            values().find(|(of, _)| of == name).and_then(|(_, value)| match value {
                Value::U64(number) => Some(*number),
                _ => None,
            })
        };
        let object = |name: &str| {
            values().filter(|(of, _)| of == name).find_map(|(_, value)| match value {
                Value::Koid(koid) => Some(*koid),
                _ => None,
            })
        };
        let first_object = info.args.iter().find_map(|arg| object(arg.name));
        let mut args = Vec::new();
        for arg in info.args {
            let Some((_, value)) = values().find(|(of, _)| of == arg.name) else { continue };
            let mut text = match value {
                Value::Text(hex) => memory(arg, hex, length(info, arg, &number)),
                Value::Pointer(0) => "null".into(),
                Value::Pointer(address) => format!("{address:#x}"),
                Value::U64(value) => scalar(info, arg, *value as i64, first_object.map(|koid| (koid, objects)), start),
                Value::I64(value) => scalar(info, arg, *value, None, start),
                Value::None | Value::Koid(_) => "?".into(),
            };
            if let (Some(koid), "handle") = (object(arg.name), arg.ty) {
                text = format!("{text} ({})", named(koid, objects));
            }
            // The value is the content of the program's memory, not the argument itself.
            if arg.dir.is_some() && arg.len.is_none() && !matches!(value, Value::Pointer(_) | Value::Text(_)) {
                text = format!("[{text}]");
            }
            args.push((arg.name, text));
        }
        let result = values().find(|(name, _)| name == "result").and_then(|(_, value)| match value {
            Value::I64(value) => Some(*value),
            _ => None,
        });
        let result = result.map(|value| result_text(info, value));
        Some(Call { info, args, result, start })
    }
}

/// Type, number and name of an object.
fn named(koid: u64, objects: &Objects) -> String {
    match objects.0.get(&koid) {
        Some((kind, name)) => {
            let name = if name.is_empty() { String::new() } else { format!(" '{name}'") };
            format!("{} {koid}{name}", type_name(*kind))
        }
        None => koid.to_string(),
    }
}

fn type_name(kind: u8) -> String {
    constants()
        .find(|c| c.name.starts_with("ZX_OBJ_TYPE_") && c.value == i128::from(kind))
        .map_or("object".into(), |c| c.name.trim_start_matches("ZX_OBJ_TYPE_").to_lowercase())
}

fn constants() -> impl Iterator<Item = &'static Constant> {
    abi::CONSTANTS.iter().copied().flatten()
}

/// The constants of the group that begins with this one.
fn group(first: &str) -> &'static [Constant] {
    abi::CONSTANTS.iter().copied().find(|group| group.first().is_some_and(|c| c.name == first)).unwrap_or_default()
}

fn result_text(info: &SyscallInfo, value: i64) -> String {
    if info.returns == "status" || value < 0 {
        return status(value);
    }
    value.to_string()
}

fn status(value: i64) -> String {
    let name = i32::try_from(value).ok().and_then(|value| abi::Status(value).name());
    name.map_or(value.to_string(), str::to_string)
}

/// The number of valid elements of an array: the number that the call returned, if it returns one.
fn length(info: &SyscallInfo, arg: &ArgInfo, number: &impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let len = arg.len?;
    let passed = number(len)?;
    if info.name == "object_get_info" {
        // The returned number counts records.
        return Some(passed);
    }
    let told = [format!("actual_{}", len.trim_start_matches("num_")), "actual".to_string()];
    let told = told.iter().filter(|name| info.args.iter().any(|arg| arg.name == *name)).find_map(|name| number(name));
    let written = told.filter(|_| arg.dir == Some(abi::Dir::Out));
    Some(written.map_or(passed, |written| written.min(passed)))
}

fn scalar(info: &SyscallInfo, arg: &ArgInfo, value: i64, object: Option<(u64, &Objects)>, start: u64) -> String {
    let place = info.args.iter().position(|other| other.name == arg.name);
    let values = place.and_then(|place| info.tests().values.get(place));
    let (form, constants) = values.map_or((Form::Any, &[][..]), |values| (values.form, values.constants));
    match (arg.ty, form) {
        (_, Form::OneOf) => one(constants, value),
        (_, Form::Flags) => flags(constants, value as u64),
        ("handle", _) if value == 0 => "ZX_HANDLE_INVALID".into(),
        ("handle", _) => format!("{value:#x}"),
        ("status", _) => status(value),
        ("rights", _) => flags(&["ZX_RIGHT_"], value as u64),
        ("signals", _) => {
            let kind = object.and_then(|(koid, objects)| objects.0.get(&koid)).map_or(0, |(kind, _)| *kind);
            signals(value as u32, kind)
        }
        ("time", _) => time(value, start),
        ("duration", _) => duration(value),
        _ if arg.name.contains("addr") || arg.name.contains("entry") || arg.name == "stack" => format!("{value:#x}"),
        _ => value.to_string(),
    }
}

/// A time relative to that of the call.
fn time(value: i64, start: u64) -> String {
    match value {
        i64::MAX => "ZX_TIME_INFINITE".into(),
        i64::MIN => "ZX_TIME_INFINITE_PAST".into(),
        0 => "0".into(),
        value if value > start as i64 => format!("now+{}", duration(value.saturating_sub(start as i64))),
        value => format!("now-{}", duration((start as i64).saturating_sub(value))),
    }
}

/// A number of nanoseconds.
pub fn duration(ns: i64) -> String {
    match ns.unsigned_abs() {
        0..=999 => format!("{ns} ns"),
        1_000..=999_999 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..=999_999_999 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn one(prefixes: &[&str], value: i64) -> String {
    let fits = |c: &&Constant| prefixes.iter().any(|p| c.name.starts_with(p)) && c.value == i128::from(value);
    constants().find(fits).map_or(value.to_string(), |c| c.name.to_string())
}

fn flags(prefixes: &[&str], value: u64) -> String {
    let mut rest = value;
    let mut names = Vec::new();
    for prefix in prefixes {
        for constant in constants().filter(|c| c.name.starts_with(prefix)) {
            let bits = constant.value as u64;
            if bits.is_power_of_two() && rest & bits != 0 {
                names.push(constant.name.to_string());
                rest &= !bits;
            }
        }
    }
    if rest != 0 || names.is_empty() {
        names.push(if rest > 9 { format!("{rest:#x}") } else { rest.to_string() });
    }
    names.join("|")
}

/// The signals of an object of this type.
fn signals(value: u32, kind: u8) -> String {
    let noun = format!("ZX_{}_", type_name(kind).to_uppercase());
    let mut names = Vec::new();
    for bit in (0..32).map(|n| 1u32 << n).filter(|bit| value & bit != 0) {
        let of = |prefix: &str| {
            let fits = |c: &&Constant| c.name.starts_with(prefix) && c.value == i128::from(bit);
            group("ZX_SIGNAL_NONE").iter().find(fits).map(|c| c.name.trim_start_matches("ZX_").to_string())
        };
        let name = of(&noun).or_else(|| of("ZX_USER_SIGNAL_")).or_else(|| of("ZX_OBJECT_"));
        names.push(name.or_else(|| of("ZX_SIGNAL_")).unwrap_or_else(|| format!("{bit:#x}")));
    }
    if names.is_empty() { "0".into() } else { names.join("|") }
}

/// The content of memory: `hex` are its first bytes, `count` is the total number of elements.
fn memory(arg: &ArgInfo, hex: &str, count: Option<u64>) -> String {
    let digits = |n: usize| u8::from_str_radix(hex.get(2 * n..2 * n + 2).unwrap_or("0"), 16).unwrap_or(0);
    let bytes: Vec<u8> = (0..hex.len() / 2).map(digits).collect();
    if arg.ty == "void" {
        return text(&bytes, count.unwrap_or(bytes.len() as u64));
    }
    if let Some(layout) = abi::STRUCTS.iter().copied().flatten().find(|s| s.name == arg.ty) {
        let count = count.unwrap_or(1);
        let elements: Vec<String> = bytes.chunks(layout.size).take(count as usize).map(|e| fields(layout, e)).collect();
        let more = if (elements.len() as u64) < count { ", …" } else { "" };
        return if arg.len.is_none() { elements.join("") } else { format!("[{}{more}]", elements.join(", ")) };
    }
    let size = if matches!(arg.ty, "u64" | "i64" | "usize" | "koid" | "time" | "ticks") { 8 } else { 4 };
    let count = count.unwrap_or(1);
    let elements: Vec<String> =
        bytes.chunks_exact(size).take(count as usize).map(|e| format!("{:#x}", word(e))).collect();
    let more = if (elements.len() as u64) < count { ", …" } else { "" };
    format!("[{}{more}]", elements.join(", "))
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Bytes as a string in quotation marks.
fn text(bytes: &[u8], count: u64) -> String {
    let shown = &bytes[..bytes.len().min(usize::try_from(count).unwrap_or(usize::MAX))];
    let more = if (shown.len() as u64) < count { "…" } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
}

fn fields(layout: &Struct, bytes: &[u8]) -> String {
    let mut texts = Vec::new();
    for field in
        layout.fields.iter().filter(|field| !matches!(field.name, "reserved" | "unused" | "padding" | "padding1"))
    {
        let Some(value) = bytes.get(field.offset..field.offset + field.size) else {
            texts.push("…".to_string());
            break;
        };
        let text = match field.ty {
            "zx_signals_t" => signals(word(value) as u32, 0),
            "zx_rights_t" => flags(&["ZX_RIGHT_"], word(value)),
            "zx_status_t" => status(i64::from(word(value) as i32)),
            "zx_obj_type_t" => type_name(value[0]),
            "usize" | "zx_handle_t" | "zx_vaddr_t" => format!("{:#x}", word(value)),
            _ if field.size <= 8 => word(value).to_string(),
            _ => format!("{} bytes", field.size),
        };
        texts.push(format!("{}: {text}", field.name.trim_end_matches('_')));
    }
    format!("{{{}}}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_names() {
        assert_eq!(flags(&["ZX_RIGHT_"], 0b1100), "ZX_RIGHT_READ|ZX_RIGHT_WRITE");
        assert_eq!(flags(&["ZX_VM_PERM_", "ZX_VM_CAN_", "ZX_VM_"], 0b11), "ZX_VM_PERM_READ|ZX_VM_PERM_WRITE");
        assert_eq!(flags(&["ZX_CHANNEL_READ_"], 0), "0");
        assert_eq!(flags(&["ZX_CHANNEL_READ_"], 0x21), "ZX_CHANNEL_READ_MAY_DISCARD|0x20");
        assert_eq!(signals(5, 4), "CHANNEL_READABLE|CHANNEL_PEER_CLOSED");
        assert_eq!(signals(8, 1), "PROCESS_TERMINATED");
        assert_eq!(one(&["ZX_PROP_"], 3), "ZX_PROP_NAME");
        assert_eq!(status(-20), abi::Status(-20).name().unwrap_or("?"));
        assert_eq!(time(i64::MAX, 5), "ZX_TIME_INFINITE");
        assert_eq!(time(1_500_000_000, 500_000_000), "now+1.00 s");
    }

    #[test]
    fn no_time_is_too_far() {
        for value in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
            for start in [0, 1, i64::MAX as u64, 1 << 63, u64::MAX] {
                assert!(!time(value, start).is_empty() && !duration(value).is_empty());
            }
        }
    }

    #[test]
    fn memory_is_abbreviated() {
        assert_eq!(text(b"ab\n", 3), "\"ab\\n\"");
        assert_eq!(text(b"ab", 5), "\"ab\"…");
        assert_eq!(text(b"abcd", 2), "\"ab\"");
    }
}
