//! Rust source for the `abi` crate: what tests and tools know of each call.

use std::fmt::Write as _;

use crate::model::{Arg, Longest, SWEEP_WORDS, Sweep, SweepArg, Syscall};

/// `pub const TESTS`, with an entry for each call in the order of their numbers.
pub fn rust(calls: &[Syscall]) -> String {
    let mut out = String::from(
        "/// What tests know of every call, sorted by number.\n\
         // Constants have various types.\n#[allow(clippy::unnecessary_cast)]\npub const TESTS: &[TestInfo] = &[\n",
    );
    for call in calls {
        let tests = &call.tests;
        let values: String = call.args.iter().map(values).collect();
        let sweep = match &tests.sweep {
            None => "Sweep::None(\"\")".to_owned(),
            Some(Sweep::No(why)) => format!("Sweep::None({why:?})"),
            Some(Sweep::Rows(rows)) => {
                let rows: String = rows.iter().map(|row| format!("&[{}], ", sweep_row(call, row))).collect();
                format!("Sweep::Rows(&[{rows}])")
            }
        };
        let longest = match &tests.longest {
            None => "Longest::None(\"\")".to_owned(),
            Some(Longest::No(why)) => format!("Longest::None({why:?})"),
            Some(Longest::Cases(cases)) => format!("Longest::Cases(&{cases:?})"),
        };
        let _ = writeln!(
            out,
            "    TestInfo {{ nr: {}, values: &[{values}], sweep: {sweep}, longest: {longest}, exhausts: {}, \
             seldom: {:?} }},",
            call.number, tests.exhausts, tests.seldom
        );
    }
    out.push_str("];\n");
    out
}

fn values(arg: &Arg) -> String {
    let (names, form) = match (&arg.flags[..], &arg.one_of[..]) {
        ([], []) => (&arg.flags, "Form::Any"),
        ([], names) => (&names.to_vec(), "Form::OneOf"),
        _ => (&arg.flags, "Form::Flags"),
    };
    format!("Values {{ form: {form}, constants: &{names:?}, likely: &{:?} }}, ", arg.likely)
}

fn sweep_row(call: &Syscall, row: &[SweepArg]) -> String {
    let one = |(argument, arg): (&SweepArg, &Arg)| match argument {
        SweepArg::Number(number) => format!("SweepArg::Number({number}), "),
        SweepArg::Word(word) => match (word.split_once(':'), SWEEP_WORDS.contains(&word.as_str())) {
            (Some((_, "any")), _) => "SweepArg::Tested(None), ".to_owned(),
            (Some((_, noun)), _) => format!("SweepArg::Tested(Some({noun:?})), "),
            (None, true) if word == "tested" => {
                let object = call.rights.iter().find(|right| right.arg == arg.name).map(|right| right.object.as_str());
                let noun = object.filter(|object| !matches!(*object, "any" | "task"));
                format!("SweepArg::Tested({noun:?}), ")
            }
            (None, true) => format!("SweepArg::{}{}, ", word[..1].to_uppercase(), &word[1..]),
            (None, false) if word.starts_with(|first: char| first.is_ascii_lowercase()) => {
                format!("SweepArg::Good({word:?}), ")
            }
            (None, false) => format!("SweepArg::Number({}), ", constants(word)),
        },
    };
    row.iter().zip(&call.args).map(one).collect()
}

/// Constants of the crate and numbers, with `|` between them, as one expression.
fn constants(text: &str) -> String {
    let one = |part: &str| match part.starts_with(|first: char| first.is_ascii_digit()) {
        true => part.to_owned(),
        false => format!("crate::{part} as u64"),
    };
    text.split('|').map(|part| one(part.trim())).collect::<Vec<_>>().join(" | ")
}
