//! Backslash escapes of `printf`, `echo -e` and `$'...'`.

use std::iter::Peekable;
use std::str::Chars;

/// Reads an escape after its backslash; `None` for `\c`, which ends the output.
fn one(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Option<()> {
    let number = |chars: &mut Peekable<Chars<'_>>, radix: u32, most: usize| {
        let mut value = None;
        for _ in 0..most {
            let Some(digit) = chars.peek().and_then(|char| char.to_digit(radix)) else { break };
            value = Some(value.unwrap_or(0) * radix + digit);
            chars.next();
        }
        value
    };
    match chars.next() {
        Some('a') => out.push('\x07'),
        Some('b') => out.push('\x08'),
        Some('c') => return None,
        Some('e' | 'E') => out.push('\x1b'),
        Some('f') => out.push('\x0c'),
        Some('n') => out.push('\n'),
        Some('r') => out.push('\r'),
        Some('t') => out.push('\t'),
        Some('v') => out.push('\x0b'),
        Some('x') => out.extend(number(chars, 16, 2).and_then(char::from_u32)),
        Some('u') => out.extend(number(chars, 16, 4).and_then(char::from_u32)),
        Some('U') => out.extend(number(chars, 16, 8).and_then(char::from_u32)),
        Some(digit @ '0'..='7') => {
            let mut value = digit.to_digit(8).unwrap_or(0);
            for _ in 0..if value == 0 { 3 } else { 2 } {
                let Some(digit) = chars.peek().and_then(|char| char.to_digit(8)) else { break };
                value = value * 8 + digit;
                chars.next();
            }
            out.extend(char::from_u32(value));
        }
        Some(char @ ('\\' | '\'' | '"' | '?')) => out.push(char),
        Some(other) => out.extend(['\\', other]),
        None => out.push('\\'),
    }
    Some(())
}

/// Replaces the escapes of a text up to a `\c`; also returns whether there was one.
pub fn up_to_end(text: &str) -> (String, bool) {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
        } else if one(&mut chars, &mut out).is_none() {
            return (out, true);
        }
    }
    (out, false)
}

/// Replaces the escapes of a text.
pub fn all(text: &str) -> String {
    up_to_end(text).0
}

/// `printf`: the format is reused as long as there are arguments. Returns the text, and error messages.
pub fn printf(format: &str, arguments: &[String]) -> (String, Vec<String>) {
    let (mut out, mut wrong) = (String::new(), Vec::new());
    let mut rest = arguments.iter();
    loop {
        let before = rest.len();
        if once(format, &mut rest, &mut out, &mut wrong) || rest.len() == 0 || rest.len() == before {
            return (out, wrong);
        }
    }
}

/// Maximum width of a field.
const WIDEST: usize = 10_000;

/// Uses a format once; returns whether there was a `\c`.
fn once<'a>(
    format: &str,
    arguments: &mut impl Iterator<Item = &'a String>,
    out: &mut String,
    wrong: &mut Vec<String>,
) -> bool {
    let mut chars = format.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' => {
                if one(&mut chars, out).is_none() {
                    return true;
                }
            }
            '%' if chars.next_if_eq(&'%').is_some() => out.push('%'),
            '%' => {
                let mut flags = String::new();
                while let Some(flag) = chars.next_if(|char| "-+ 0#".contains(*char)) {
                    flags.push(flag);
                }
                let width = size(&mut chars, arguments, wrong);
                if width.is_some_and(|width| width < 0) {
                    flags.push('-');
                }
                let precision = chars.next_if_eq(&'.').map(|_| size(&mut chars, arguments, wrong).unwrap_or(0));
                let width = width.map_or(0, |width| width.unsigned_abs() as usize).min(WIDEST);
                let precision = precision.and_then(|size| usize::try_from(size).ok()).map(|size| size.min(WIDEST));
                let kind = chars.next();
                let argument = arguments.next().map(String::as_str);
                let mut end = false;
                let text = match kind {
                    Some('s') => cut(argument.unwrap_or_default(), precision),
                    Some('b') => {
                        let (text, ended) = up_to_end(argument.unwrap_or_default());
                        end = ended;
                        cut(&text, precision)
                    }
                    Some('c') => cut(argument.unwrap_or_default(), Some(1)),
                    Some(kind @ ('d' | 'i' | 'u' | 'x' | 'X' | 'o')) => {
                        digits(kind, number(argument, wrong), &flags, precision)
                    }
                    other => {
                        wrong.push(format!("%{}: no such conversion", other.map(String::from).unwrap_or_default()));
                        return true;
                    }
                };
                pad(out, &text, width, &flags, precision.is_none() && !matches!(kind, Some('s' | 'b' | 'c')));
                if end {
                    return true;
                }
            }
            other => out.push(other),
        }
    }
    false
}

fn size<'a>(
    chars: &mut Peekable<Chars<'_>>,
    arguments: &mut impl Iterator<Item = &'a String>,
    wrong: &mut Vec<String>,
) -> Option<i64> {
    if chars.next_if_eq(&'*').is_some() {
        return Some(number(arguments.next().map(String::as_str), wrong));
    }
    let mut text = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        text.push(digit);
    }
    text.parse().ok()
}

fn cut(text: &str, precision: Option<usize>) -> String {
    text.chars().take(precision.unwrap_or(usize::MAX)).collect()
}

fn number(argument: Option<&str>, wrong: &mut Vec<String>) -> i64 {
    let Some(text) = argument else { return 0 };
    if let Some(char) = text.strip_prefix(['\'', '"']) {
        return char.chars().next().map_or(0, |char| i64::from(u32::from(char)));
    }
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(&format!("{sign}{digits}"), 8),
        None => format!("{sign}{digits}").parse(),
    };
    parsed.unwrap_or_else(|_| {
        wrong.push(format!("{text}: this is no number"));
        0
    })
}

fn digits(kind: char, value: i64, flags: &str, precision: Option<usize>) -> String {
    let (sign, digits) = match kind {
        'd' | 'i' if value < 0 => ("-", value.unsigned_abs().to_string()),
        'd' | 'i' if flags.contains('+') => ("+", value.to_string()),
        'd' | 'i' if flags.contains(' ') => (" ", value.to_string()),
        'd' | 'i' => ("", value.to_string()),
        'x' => (if flags.contains('#') && value != 0 { "0x" } else { "" }, format!("{value:x}")),
        'X' => (if flags.contains('#') && value != 0 { "0X" } else { "" }, format!("{value:X}")),
        'o' => (if flags.contains('#') { "0" } else { "" }, format!("{value:o}")),
        _ => ("", (value as u64).to_string()),
    };
    format!("{sign}{digits:0>precision$}", precision = precision.unwrap_or(1))
}

fn pad(out: &mut String, text: &str, width: usize, flags: &str, zeros: bool) {
    let missing = width.saturating_sub(text.chars().count());
    if flags.contains('-') {
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', missing));
    } else if flags.contains('0') && zeros {
        let sign = text.len() - text.trim_start_matches(['-', '+', ' ']).len();
        out.push_str(&text[..sign]);
        out.extend(std::iter::repeat_n('0', missing));
        out.push_str(&text[sign..]);
    } else {
        out.extend(std::iter::repeat_n(' ', missing));
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn print(format: &str, arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        printf(format, &arguments).0
    }

    #[test]
    fn formats() {
        assert_eq!(print("%s-%5d|%-4s|%04d\\n", &["a", "7", "b", "-3"]), "a-    7|b   |-003\n");
        assert_eq!(print("%s ", &["a", "b", "c"]), "a b c ");
        assert_eq!(print("%x %X %o %c%%", &["255", "0xff", "8", "hello"]), "ff FF 10 h%");
        assert_eq!(print("%.2s|%+d|%5.3d", &["hello", "1", "7"]), "he|+1|  007");
        assert_eq!(print("%d", &["'A"]), "65");
        assert_eq!(print("%b", &["a\\tb\\cc"]), "a\tb");
        assert_eq!(print("x", &["a", "b"]), "x");
        assert_eq!(print("%*d", &["4", "7"]), "   7");
        assert_eq!(printf("%d", &["x".to_owned()]).1.len(), 1);
    }

    #[test]
    fn backslashes() {
        assert_eq!(all(r"a\n\x41\101\0101\u00e9\\\q"), "a\nAAA\u{e9}\\\\q");
        assert_eq!(up_to_end(r"a\cb"), ("a".to_owned(), true));
    }

    proptest! {
        #[test]
        fn nothing_panics(format in "[%\\\\a-z0-9.*+ -]{0,12}", arguments in proptest::collection::vec("[0-9a-z-]{0,4}", 0..4)) {
            printf(&format, &arguments);
        }
    }
}
